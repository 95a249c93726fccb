"""VolumeZone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.plugin import EMPTY_STATE, FilterPlugin, PreFilterPlugin, Rows, State, Verdicts
from scheduler.framework.status import SKIP, Refusal, Skip

if TYPE_CHECKING:
    from scheduler.cluster.pod_info import PodInfo
    from scheduler.cluster.view import View


class VolumeZone(PreFilterPlugin, FilterPlugin):
    name = "VolumeZone"

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        return EMPTY_STATE if pod.pod.spec.volumes else SKIP

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        return None
