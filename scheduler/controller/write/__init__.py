"""Requests to the API server: the client, its credentials, the writer of pods and the recorder of events."""
