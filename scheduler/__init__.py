"""Tandem: a second scheduler for Kubernetes that decides as kube-scheduler 1.36. CONTRIBUTING.md has the code map."""
