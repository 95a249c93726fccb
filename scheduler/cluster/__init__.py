"""What the cluster holds: facts from the API server plus our own assumptions, in columns."""
