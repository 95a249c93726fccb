"""Logs, metrics, the decision journal and traces, all made from the engine's Attempts."""
