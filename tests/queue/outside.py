"""What the handlers ask of the rest of the engine, for tests that have no engine."""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo


class Outside:
    """No removal is under way; ``waiting`` are the UIDs of the pods that wait in Permit."""

    def __init__(self) -> None:
        self.waiting: set[str] = set()

    def waits_in_permit(self, uid: str) -> bool:
        return uid in self.waiting

    def concerned_by(self, gone: PodInfo) -> None:
        """Every waiting pod should hear of it."""
