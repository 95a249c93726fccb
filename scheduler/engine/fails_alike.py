"""Whether the failure of an attempt holds for every pod of its class while the cluster does not change."""

from __future__ import annotations

from typing import Final

from scheduler.config.default_plugins import BUILT_IN_NAMES
from scheduler.config.names import NODE_SCOPE_PLUGIN
from scheduler.engine.internal import CycleEnded
from scheduler.engine.making_room.room import MakingRoom
from scheduler.engine.outcome import NotPlaced
from scheduler.framework.post_filter import NominationMode

OF_THE_CLUSTER: Final = BUILT_IN_NAMES | {NODE_SCOPE_PLUGIN}
"""The plugins whose answers depend on the pod's template and the cluster alone."""


def fails_alike(ended: CycleEnded, outcome: NotPlaced, room: MakingRoom) -> bool:
    """True only if built-in plugins refused every node, none of them waits for something of the pod's own, and
    preemption neither helps nor waits, nor leaves out a node for this pod alone. Extenders have not been asked."""
    if outcome.is_error or outcome.room is not None or outcome.writes or outcome.pending_plugins:
        return False
    if outcome.nomination.mode is NominationMode.SET or ended.queued.group or len(room):
        return False
    if ended.attempt.diagnosis is None or ended.attempt.feasible_nodes:
        return False
    post_filters = {plugin.name for plugin in ended.profile.post_filter_plugins}
    if not (outcome.unschedulable_plugins <= OF_THE_CLUSTER and post_filters <= OF_THE_CLUSTER):
        return False
    return not room.leaves_out_nodes(ended.queued.info)
