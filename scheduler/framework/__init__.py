"""How plugins and the engine speak to each other. The contract is in ``plugin.py``."""
