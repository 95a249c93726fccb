"""The engine's settings, from the configuration."""

from __future__ import annotations

from msgspec import Struct

from scheduler.cluster.groups.group import GroupApi
from scheduler.config.tandem import PreemptionSettings
from scheduler.queue.queue_settings import QueueSettings


class EngineSettings(Struct, frozen=True):
    """The engine's settings. ``attempts_kept``: how many attempts ``attempt_of`` remembers, one a pod."""

    queue: QueueSettings = QueueSettings()
    percentage_of_nodes_to_score: int | None = None
    counts_foreign_nominations: bool = False
    preemption: PreemptionSettings = PreemptionSettings()
    running_preemptions: int = 1_000
    class_cache_bytes: int = 48 * 2**20
    cached_classes: int = 1_000
    cached_selectors: int = 5_000
    attempts_kept: int = 10_000
    group_apis: tuple[GroupApi, ...] = ()
    """The APIs that name groups of pods; fixed at the start."""
