"""Kubernetes objects as immutable values: the fields that scheduling reads, and the rules for reading them."""
