"""The shell around the engine, everything that awaits: watch, decide in slices, write, serve. Start at ``run.py``."""
