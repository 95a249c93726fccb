"""Caches plugins' answers for classes of equivalent pods; start at ``cache.py``."""
