"""Pods that preemption treats alike are asked about once.

A profile is what budgets, scheduler names and plugins that count pods look at of a pod: namespace, labels, scheduler,
affinity, whether it terminates. The pods of one Deployment have one profile. Profiles are numbered, so that an
answer for each of them becomes an answer for each pod by indexing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from scheduler.cluster.pod_info import PodInfo
from scheduler.preemption.budgets import Budgets

_encode = msgspec.msgpack.Encoder().encode


class PodProfiles:
    """Numbers of profiles, each with one pod that stands for all of them."""

    __slots__ = ("_budget_signature", "_covering", "_numbers", "examples")

    def __init__(self) -> None:
        self.examples: list[PodInfo] = []
        self._numbers: dict[Hashable, int] = {}
        self._budget_signature: tuple[Hashable, ...] = ()
        self._covering: list[tuple[int, ...] | None] = []

    def __len__(self) -> int:
        return len(self.examples)

    def number(self, info: PodInfo) -> int:
        key = _profile(info)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.examples)
            self.examples.append(info)
        return number

    def present(self, numbers: npt.NDArray[np.int32]) -> list[int]:
        """Which profiles occur, ascending."""
        found: list[int] = np.flatnonzero(np.bincount(numbers, minlength=1)).tolist()
        return found

    def where(self, numbers: Sequence[int], holds: Callable[[PodInfo], bool]) -> npt.NDArray[np.bool_]:
        """Whether ``holds`` of the pods of each profile, by number; False for those not among ``numbers``."""
        answers = np.zeros(len(self.examples), np.bool_)
        for number in numbers:
            answers[number] = holds(self.examples[number])
        return answers

    def covering(self, number: int, budgets: Budgets) -> tuple[int, ...]:
        """Indices of the budgets that a profile's pods are under; kept while the selectors of the budgets stay."""
        signature = tuple([(budget.namespace, budget.selector) for budget in budgets.all])
        if signature != self._budget_signature:
            self._budget_signature = signature
            self._covering = []
        covering = self._covering
        if len(covering) < len(self.examples):
            covering.extend([None] * (len(self.examples) - len(covering)))
        known = covering[number]
        if known is None:
            known = covering[number] = budgets.covering(self.examples[number])
        return known


def _profile(info: PodInfo) -> Hashable:
    pod = info.pod
    labels = info.labels
    affinity = pod.spec.affinity
    return (
        info.namespace,
        tuple(sorted(labels.items())) if len(labels) > 1 else tuple(labels.items()),
        pod.spec.scheduler_name,
        None if affinity is None else _encode(affinity),
        info.is_terminating,
    )
