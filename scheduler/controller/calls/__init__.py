"""Calls out of the engine other than API writes: HTTP extenders and plugins that await."""
