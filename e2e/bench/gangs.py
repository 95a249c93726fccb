"""Objects of the scenarios whose pods start as gangs: PodGroups, and what puts a pod in one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from e2e.builders import Object

API = "scheduling.k8s.io/v1alpha2"
SIZE = 50
"""Pods of one gang, where there are many."""
GATES = ("GenericWorkload", "GangScheduling")


def of_size(pods: int, namespace: str) -> Iterator[Object]:
    """A gang for each ``SIZE`` pods; what is left over waits for ever."""
    return (_gang(number, SIZE, namespace) for number in range(pods // SIZE))


def one_of_all(pods: int, namespace: str, priority_class: str) -> Object:
    return _gang(0, pods, namespace, priorityClassName=priority_class)


def member(index: int, size: int = SIZE) -> dict[str, Any]:
    """What the pod of this number has in its spec."""
    return {"schedulingGroup": {"podGroupName": f"gang-{index // size}"}}


def _gang(number: int, size: int, namespace: str, **spec: Any) -> Object:
    return {
        "kind": "PodGroup",
        "apiVersion": API,
        "metadata": {"name": f"gang-{number}", "namespace": namespace},
        "spec": {"schedulingPolicy": {"gang": {"minCount": size}}, **spec},
    }
