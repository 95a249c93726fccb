"""The interface between plugins and the engine. The contract is in ``plugin.py``."""
