"""How many connections extenders get."""

from __future__ import annotations

from typing import Final

MAX_CONNECTIONS: Final = 100
"""Connections of a session, of all extenders together. A call beyond them waits within its own time."""
