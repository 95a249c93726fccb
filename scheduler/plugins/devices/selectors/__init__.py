"""CEL selectors of devices: Google's CEL with the functions that Kubernetes adds to it."""
