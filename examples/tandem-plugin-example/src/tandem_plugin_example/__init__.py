"""Plugins for Tandem; see README.md."""
