"""VolumeBinding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from scheduler.config.types import Int64
from scheduler.framework.plugin import (
    EMPTY_STATE, Effect, FilterPlugin, PreBindPlugin, PreFilterPlugin, PreFlight, PreScorePlugin,
    ReservePlugin, Rows, ScorePlugin, Scores, State, Verdicts,
)
from scheduler.framework.status import SKIP, Refusal, Skip

if TYPE_CHECKING:
    from scheduler.cluster.pod_info import PodInfo
    from scheduler.cluster.view import View


class VolumeBindingArgs(msgspec.Struct, frozen=True, rename="camel"):
    bind_timeout_seconds: Int64 = 600


class VolumeBinding(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin, PreBindPlugin):
    name = "VolumeBinding"
    Args = VolumeBindingArgs

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        return EMPTY_STATE if pod.pod.spec.volumes else SKIP

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        return None

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip | Refusal:
        return SKIP

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        return np.zeros(len(view.table.exists[rows]), np.int64)

    def reserve(self, state: State | None, pod: PodInfo, view: View, node: str) -> tuple[Effect, ...] | Refusal:
        return ()

    def unreserve(self, state: State | None, pod: PodInfo, view: View, node: str) -> tuple[Effect, ...]:
        return ()

    def pre_bind_pre_flight(
        self, state: State | None, pod: PodInfo, view: View, node: str
    ) -> PreFlight | Skip | Refusal:
        return SKIP
