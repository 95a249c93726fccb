"""Kinds of workloads whose pods are scheduled, with kubectl's other names for them."""

from __future__ import annotations

from typing import Final

WORKLOAD_KINDS: Final = {
    "deployment": ("deploy", "deployments"),
    "replicaset": ("rs", "replicasets"),
    "statefulset": ("sts", "statefulsets"),
    "daemonset": ("ds", "daemonsets"),
    "job": ("jobs",),
    "replicationcontroller": ("rc", "replicationcontrollers"),
}


def kind_of_workload(word: str) -> str | None:
    """The kind of workload that a word of kubectl means (``deploy`` → ``deployment``); None for a word that is none."""
    word = word.lower()
    return next((kind for kind, others in WORKLOAD_KINDS.items() if word == kind or word in others), None)
