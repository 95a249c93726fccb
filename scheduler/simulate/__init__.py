"""The second shell for the same engine: an API server in memory, clusters in virtual time, and the demo."""
