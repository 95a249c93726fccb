"""The kubelets of a world: a bound pod starts and, once deleted, ends, each after a delay."""

from __future__ import annotations

from scheduler.objects.kinds import Kind
from scheduler.simulate.world_facts import Facts
from scheduler.simulate.world_timeline import Timeline


class Kubelets:
    """The kubelets of all nodes of a world."""

    def __init__(self, facts: Facts, timeline: Timeline) -> None:
        self._facts = facts
        self._timeline = timeline

    def run(self, key: str, uid: str, node: str) -> None:
        """Start a pod that is bound to the node."""
        if self._facts.get(Kind.NODE, node) is None:
            # It has no node to run on: the garbage collector deletes it.
            self._timeline.later(self._timeline.trouble.stop_seconds, f"stop {key}", lambda: self._end(key, uid))
        else:
            self._timeline.later(self._timeline.trouble.start_seconds, f"start {key}", lambda: self._start(key, uid))

    def _start(self, key: str, uid: str) -> None:
        pod = self._facts.get(Kind.POD, key)
        if pod is None or pod["metadata"]["uid"] != uid or pod["status"]["phase"] != "Pending":
            return
        self._facts.change(
            Kind.POD, key, lambda found: found["status"].update(phase="Running", startTime=self._timeline.time)
        )

    def stop_later(self, key: str, uid: str) -> None:
        """End a pod whose deletion is accepted."""
        self._timeline.later(self._timeline.trouble.stop_seconds, f"stop {key}", lambda: self._end(key, uid))

    def _end(self, key: str, uid: str) -> None:
        pod = self._facts.get(Kind.POD, key)
        if pod is not None and pod["metadata"]["uid"] == uid:
            self._facts.remove(Kind.POD, key)
