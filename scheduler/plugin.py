"""The public module for authors of plugins: everything that ``docs/plugins.md`` names, under one path.

What stands here is a promise: a name is taken away, or changed so that a plugin would break, only with a release that
says so in CHANGELOG.md, never between two of one minor version. All other modules may change at any time. For the tests
of plugins there is `scheduler.testing`.
"""

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.errors import ApiError
from scheduler.framework.enqueue_context import EnqueueContext
from scheduler.framework.events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintKeys,
    Resource,
    always_queue,
    only_itself,
)
from scheduler.framework.per_node import NodeView, PerNodeFilter, PerNodeScore
from scheduler.framework.plugin import (
    EMPTY_STATE,
    MAX_NODE_SCORE,
    BackgroundPlugin,
    BindPlugin,
    FilterPlugin,
    Finding,
    FragmentReads,
    NodeSubset,
    NormalizePlugin,
    PermitPlugin,
    Permitted,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFlight,
    PreScorePlugin,
    QueueSortPlugin,
    Reads,
    ReservePlugin,
    Rows,
    ScorePlugin,
    Scores,
    State,
    Verdicts,
    Wait,
)
from scheduler.framework.plugin_ports import BindContext, PluginHandle, WaitingPod
from scheduler.framework.plugin_requests import ActivatePods, AllowWaiting, RejectWaiting
from scheduler.framework.post_filter import (
    CLEAR_NOMINATION,
    KEEP_NOMINATION,
    PostFilterAnswer,
    PostFilterContext,
    PostFilterPlugin,
    nominate,
)
from scheduler.framework.tallies import Tally
from scheduler.messages.status import SKIP, Code, Refusal, Skip, failure, unresolvable, unschedulable
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod

__all__ = [
    "CLEAR_NOMINATION",
    "EMPTY_STATE",
    "KEEP_NOMINATION",
    "MAX_NODE_SCORE",
    "SKIP",
    "Action",
    "ActivatePods",
    "AllowWaiting",
    "ApiError",
    "ApiObject",
    "BackgroundPlugin",
    "BindContext",
    "BindPlugin",
    "ClusterEvent",
    "Code",
    "EnqueueContext",
    "EventRegistration",
    "FilterPlugin",
    "Finding",
    "FragmentReads",
    "Hint",
    "HintKeys",
    "Kind",
    "Node",
    "NodeSubset",
    "NodeView",
    "NormalizePlugin",
    "PerNodeFilter",
    "PerNodeScore",
    "PermitPlugin",
    "Permitted",
    "Plugin",
    "PluginHandle",
    "Pod",
    "PodInfo",
    "PostBindPlugin",
    "PostFilterAnswer",
    "PostFilterContext",
    "PostFilterPlugin",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFlight",
    "PreScorePlugin",
    "QueueSortPlugin",
    "Reads",
    "Refusal",
    "RejectWaiting",
    "ReservePlugin",
    "Resource",
    "Rows",
    "ScorePlugin",
    "Scores",
    "Skip",
    "State",
    "Tally",
    "Verdicts",
    "View",
    "Wait",
    "WaitingPod",
    "always_queue",
    "failure",
    "nominate",
    "only_itself",
    "unresolvable",
    "unschedulable",
]
