"""Devices: what drivers publish, what is allocated, and what is set aside."""
