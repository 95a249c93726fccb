"""Pods that look alike share answers; start at ``cache.py``."""
