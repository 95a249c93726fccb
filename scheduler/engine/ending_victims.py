"""Preemptors whose removal is over while victims of theirs still terminate.

A preemptor tried at once would find its room still taken, and say so to the API server; so its try waits for
the moment in which the last of its victims is gone. Other events may have it tried earlier, as they may any pod.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.cluster.pod_info import PodInfo


class EndingVictims:
    def __init__(self) -> None:
        self._left: dict[str, tuple[PodInfo, set[str]]] = {}
        """UID of a preemptor → itself, and the UIDs of its victims that are still there."""
        self._preemptors: dict[str, set[str]] = {}
        """The other way round."""

    def await_end(self, preemptor: PodInfo, victims: Iterable[str]) -> None:
        """``victims``: UIDs of pods that terminate; at least one."""
        self.forget(preemptor.uid)
        left = set(victims)
        self._left[preemptor.uid] = preemptor, left
        for uid in left:
            self._preemptors.setdefault(uid, set()).add(preemptor.uid)

    def gone(self, uid: str) -> list[PodInfo]:
        """A victim is gone. The preemptors that wait for nobody any more."""
        ready = []
        for preemptor_uid in self._preemptors.pop(uid, ()):
            preemptor, left = self._left[preemptor_uid]
            left.discard(uid)
            if not left:
                del self._left[preemptor_uid]
                ready.append(preemptor)
        return ready

    def forget(self, preemptor_uid: str) -> None:
        """The preemptor waits no more."""
        _, left = self._left.pop(preemptor_uid, (None, ()))
        for uid in left:
            preemptors = self._preemptors[uid]
            preemptors.discard(preemptor_uid)
            if not preemptors:
                del self._preemptors[uid]

    def take_all(self) -> list[PodInfo]:
        """Every preemptor that waits; none does afterwards."""
        everyone = [preemptor for preemptor, _ in self._left.values()]
        self._left.clear()
        self._preemptors.clear()
        return everyone
