"""DynamicResources: keeps pods that need dynamic resource allocation from being placed as if they did not.

Tandem does not allocate devices. A pod with ``spec.resourceClaims`` is held back before it is tried, with an event and
a condition (reason ``SchedulerError``) that say so; leave it to kube-scheduler. An extended resource that a DeviceClass
stands for may also be given by a node itself; nodes that don't have it in their allocatable are refused with ``cannot
allocate extended resource <name> through a DeviceClass: not supported``. All other pods are none of the plugin's
business.

Arguments, read and checked for the sake of existing configurations: ``filterTimeout`` (10s), ``bindingTimeout`` (10m).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from scheduler.cluster.effects import Effect
from scheduler.config.durations import MINUTE, SECOND, Duration
from scheduler.config.field_faults import invalid
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Resource
from scheduler.framework.plugin import (
    EnqueueContext,
    FilterPlugin,
    FragmentReads,
    NormalizePlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFlight,
    PreScorePlugin,
    Reads,
    ReservePlugin,
    Rows,
    Scores,
    State,
    Verdicts,
)
from scheduler.framework.post_filter import PostFilterAnswer, PostFilterContext, PostFilterPlugin
from scheduler.messages.status import SKIP, Refusal, Skip, failure, unresolvable, unschedulable
from scheduler.objects.kinds import Kind
from scheduler.plugins.normalization import default_normalize
from scheduler.plugins.resources.device_class_resources import mapped_by_classes

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.cluster.pod_info import PodInfo
    from scheduler.cluster.view import View

CLAIMS_NOT_SUPPORTED = failure(
    "dynamic resource allocation is not supported by Tandem: the pod has resource claims (spec.resourceClaims)"
)
NOTHING_TO_DEALLOCATE = unschedulable("no new claims to deallocate")
STATE_NOT_FOUND = failure("not found")


class DynamicResourcesArgs(msgspec.Struct, frozen=True, rename="camel"):
    filter_timeout: Duration = Duration(10 * SECOND)
    binding_timeout: Duration = Duration(10 * MINUTE)


@dataclass(frozen=True, slots=True)
class DelegatedResources(State):
    """Extended resources that the pod requests and a DeviceClass stands for, sorted."""

    names: tuple[str, ...]


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    NormalizePlugin,
    ReservePlugin,
    PreBindPlugin,
):
    """Reference plugins.md §3.17, for pods without claims: it takes part at the points where kube-scheduler's does, so
    that configurations that name it there stay valid, and has nothing to score, reserve or write."""

    name = "DynamicResources"
    Args = DynamicResourcesArgs
    reads = Reads.NODE
    fragment_reads = FragmentReads.TEMPLATE

    def __init__(self, args: DynamicResourcesArgs | None = None) -> None:
        super().__init__(args or DynamicResourcesArgs())

    @classmethod
    def validate_args(cls, args: Any, path: str) -> tuple[tuple[str, str], ...]:
        faults = []
        if args.filter_timeout < 0:
            faults.append(invalid(f"{path}.filterTimeout", args.filter_timeout, "must be zero or positive"))
        if args.binding_timeout < SECOND:
            faults.append(invalid(f"{path}.bindingTimeout", args.binding_timeout, "must be at least 1 second"))
        return tuple((fault.path, fault.message) for fault in faults)

    def fragment(self, pod: PodInfo, view: View) -> tuple[bool, tuple[str, ...]]:
        return bool(pod.pod.spec.resource_claims), _requested_scalars(pod)

    def stamp(self, fragment: Hashable, view: View) -> Hashable:
        return view.version(Kind.DEVICE_CLASS)

    def pre_enqueue(self, pod: PodInfo, context: EnqueueContext) -> Refusal | None:
        return CLAIMS_NOT_SUPPORTED if pod.pod.spec.resource_claims else None

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        if pod.pod.spec.resource_claims:
            return CLAIMS_NOT_SUPPORTED
        requested = _requested_scalars(pod)
        if not requested:
            return SKIP
        delegated = mapped_by_classes(view, requested)
        return DelegatedResources(tuple(sorted(delegated))) if delegated else SKIP

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        assert isinstance(state, DelegatedResources)
        table = view.table
        codes = np.zeros(len(table.pod_count[rows]), np.int16)
        for number, name in enumerate(state.names, start=1):
            codes[(codes == 0) & (table.allocatable(name)[rows] == 0)] = number
        return Verdicts(codes, tuple(_needs_devices(name) for name in state.names))

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        assert isinstance(state, DelegatedResources)
        for name in state.names:
            if not view.table.allocatable(name).item(row):
                return _needs_devices(name)
        return None

    def post_filter(self, context: PostFilterContext) -> PostFilterAnswer:
        """An error where an earlier plugin's PreFilter refused the pod, as in kube-scheduler 1.36: preemption is then
        not tried."""
        return PostFilterAnswer(NOTHING_TO_DEALLOCATE if self.name in context.states else STATE_NOT_FOUND)

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip | Refusal:
        return SKIP

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        return np.zeros(len(view.table.pod_count[rows]), np.int64)

    def normalize(self, state: State, scores: Scores, view: View, rows: Rows) -> Scores:
        return default_normalize(scores)

    def reserve(self, state: State | None, pod: PodInfo, view: View, node: str) -> tuple[Effect, ...] | Refusal:
        return ()

    def unreserve(self, state: State | None, pod: PodInfo, view: View, node: str) -> tuple[Effect, ...]:
        return ()

    def pre_bind_pre_flight(
        self, state: State | None, pod: PodInfo, view: View, node: str
    ) -> PreFlight | Skip | Refusal:
        return SKIP

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


def _requested_scalars(pod: PodInfo) -> tuple[str, ...]:
    scalars = pod.requests.scalars
    return tuple(sorted([name for name, amount in scalars.items() if amount])) if scalars else ()


def _needs_devices(name: str) -> Refusal:
    return unresolvable(f"cannot allocate extended resource {name} through a DeviceClass: not supported")


# Events of claims and slices are left out: no pod that waits for them is ever let into the queue.
_EVENTS = (
    EventRegistration(
        ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE)
    ),
    EventRegistration(ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE)),
)
