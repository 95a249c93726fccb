"""A proxy between the scheduler and the API server that does to each request and watch what a bad network may do."""
