"""Recordings: every input at the engine's door, and the state from which they can be applied again."""
