"""Logs, metrics, the decision journal and traces, all derived from the engine's Attempts."""
