"""Plugins for groups of pods."""
