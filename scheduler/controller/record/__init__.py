"""Recordings on disk."""
