"""How many connections extenders get."""

from __future__ import annotations

from typing import Final

MAX_CONNECTIONS: Final = 100
"""Maximum of open connections of a session, for all extenders together. A call of a cycle waits for
one within its own time-out, a call that binds before it."""
