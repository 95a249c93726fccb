"""The engine's settings, from the configuration."""

from __future__ import annotations

from msgspec import Struct

from scheduler.cluster.groups.group import GroupApi
from scheduler.config.tandem import Nominations, TandemConfiguration
from scheduler.queue.queue_settings import QueueSettings


class EngineSettings(Struct, frozen=True):
    """The engine's settings. A part that a setting of ours concerns reads it from ``tandem``."""

    queue: QueueSettings = QueueSettings()
    percentage_of_nodes_to_score: int | None = None
    tandem: TandemConfiguration = TandemConfiguration()
    announces_nodes: bool = True
    """The gate NominatedNodeNameForExpectation: whether a pod's status names its node while it waits before its bind;
    fixed at the start."""
    group_apis: tuple[GroupApi, ...] = ()
    """The APIs that name groups of pods; fixed at the start."""

    @property
    def counts_foreign_nominations(self) -> bool:
        """Whether pods that other schedulers have nominated count when a node is filtered."""
        return self.tandem.nominations is Nominations.ALL
