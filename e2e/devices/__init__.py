"""Promises about devices, checked against kube-scheduler on a real control plane."""
