"""A filter that refuses no node, for tests of what its State does while victims are sought."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, Reads, Rows, State


class Counting(PreFilterPlugin, FilterPlugin):
    """``counts``: makes the State, which is asked about other pods."""

    reads = Reads.NODE
    counts: ClassVar[type[State]]

    def fragment(self, pod: PodInfo, view: View) -> Hashable:
        return ()

    def pre_filter(self, pod: PodInfo, view: View) -> State:
        return self.counts()

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> None:
        return None
