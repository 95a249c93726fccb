"""DynamicResources: a pod goes where the devices are that its ResourceClaims ask for, and gets them there.

PreEnqueue: a pod waits until all its claims exist. Filter: claims that have their devices keep the pod to the nodes
where these can be used; for the others devices are searched on each node, so that classes, CEL selectors, constraints,
counters, capacities, taints and alternatives hold for all claims together. Extended resources that a DeviceClass stands
for are given by devices on nodes that do not have them in their allocatable. Refuses with ``cannot allocate all
claims``, ``resourceclaim not available on the node``, ``invalid resource pools were encountered``, ``cannot fit
resource`` and ``cannot schedule extended resource claim``; taking pods away never helps. A selector that fails, or an
"all devices" request that meets a pool under update, ends the attempt with an error.

Score: earlier alternatives of ``firstAvailable`` are better. Reserve sets the devices aside; before the bind they are
written into the claims, which are reserved for the pod. Where no node fits, a claim that holds unusable devices and
that no other pod uses gives them back.

Arguments: ``filterTimeout`` (10s), how long the search on one node may take, counted in steps of the search so that
decisions do not depend on how fast the machine is; ``bindingTimeout`` (10m), how long drivers may take to prepare
devices that have binding conditions.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from scheduler.cluster.devices.reserved import GiveBack
from scheduler.cluster.effects import Effect
from scheduler.cluster.node_matching import matches_selector
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.config.durations import MINUTE, SECOND, Duration
from scheduler.config.field_faults import invalid
from scheduler.framework.enqueue_context import EnqueueContext
from scheduler.framework.events import ClusterEvent, EventRegistration, Resource
from scheduler.framework.plugin import (
    Finding,
    NormalizePlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFlight,
    PreScorePlugin,
    ReservePlugin,
    Rows,
    Scores,
    State,
    Verdicts,
)
from scheduler.framework.post_filter import PostFilterAnswer, PostFilterContext, PostFilterPlugin
from scheduler.framework.stepwise import StepwisePlugin
from scheduler.messages.claim_commands import ClaimCommand
from scheduler.messages.status import SKIP, Refusal, Skip, failure, unresolvable, unschedulable
from scheduler.objects.kinds import Kind
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.objects.steps import Pace, Steps, run_to_end
from scheduler.plugins.devices.allocated import is_given_up
from scheduler.plugins.devices.claims import claims_of
from scheduler.plugins.devices.evidence import findings
from scheduler.plugins.devices.extended import may_be_mapped
from scheduler.plugins.devices.giving_up import give_up
from scheduler.plugins.devices.hints import EVENTS
from scheduler.plugins.devices.outcomes import outcomes
from scheduler.plugins.devices.reservation import Decision, NothingFound, look_ahead, set_aside
from scheduler.plugins.devices.situation import AllocatedClaim, Situation, is_ranked, situation_of
from scheduler.plugins.devices.writes import pre_flight, progress, release_writes
from scheduler.plugins.normalization import default_normalize

STEPS_PER_SECOND = 20_000
"""Steps of the search that a second of ``filterTimeout`` allows: a step takes 5 to 50 µs."""

NOT_AVAILABLE = "resourceclaim not available on the node"
NOT_AVAILABLE_ON_NODE = unresolvable(NOT_AVAILABLE)
NOTHING_TO_DEALLOCATE = unschedulable("no new claims to deallocate")
STATE_NOT_FOUND = failure("not found")
NOT_FOUND_FOR_NODE = failure("claim allocation not found for node")


class DynamicResourcesArgs(msgspec.Struct, frozen=True, rename="camel"):
    filter_timeout: Duration = Duration(10 * SECOND)
    binding_timeout: Duration = Duration(10 * MINUTE)


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    StepwisePlugin,
    PostFilterPlugin,
    PreScorePlugin,
    NormalizePlugin,
    ReservePlugin,
    PreBindPlugin,
):
    """See docs/kube-scheduler/dra.md. It keeps answers of its own, by what pods ask for: claims are not part of a pod's
    template."""

    name = "DynamicResources"
    needs_pre_filter = True
    Args = DynamicResourcesArgs

    def __init__(self, args: DynamicResourcesArgs | None = None) -> None:
        super().__init__(args or DynamicResourcesArgs())
        self._max_steps = self.args.filter_timeout * STEPS_PER_SECOND // SECOND

    @classmethod
    def validate_args(cls, args: DynamicResourcesArgs, path: str) -> tuple[tuple[str, str], ...]:
        faults = []
        if args.filter_timeout < 0:
            faults.append(invalid(f"{path}.filterTimeout", args.filter_timeout, "must be zero or positive"))
        if args.binding_timeout < SECOND:
            faults.append(invalid(f"{path}.bindingTimeout", args.binding_timeout, "must be at least 1 second"))
        return tuple((fault.path, fault.message) for fault in faults)

    def concerns(self, pod: PodInfo) -> bool:
        if pod.pod.spec.resource_claims:
            return True
        return any(amount and may_be_mapped(name) for name, amount in pod.requests.scalars.items())

    def pre_enqueue(self, pod: PodInfo, context: EnqueueContext) -> Refusal | None:
        if not pod.pod.spec.resource_claims:
            return None

        def look_up(key: str) -> ResourceClaim | None:
            found = context.lookup(Kind.RESOURCE_CLAIM, key)
            return found if isinstance(found, ResourceClaim) else None

        found = claims_of(pod, context.groups, look_up)
        return unresolvable(found) if isinstance(found, str) else None

    def may_release(self, event: ClusterEvent) -> bool:
        """False for nodes, classes and slices: a pod is gated for its claims alone, which none of these helps."""
        return event.resource not in (Resource.NODE, Resource.RESOURCE_SLICE, Resource.DEVICE_CLASS)

    # --- filter -------------------------------------------------------------------------------------------------------

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        view.devices.catch_up()
        situation = situation_of(pod, view)
        return SKIP if situation is None else situation

    def filter_in_steps(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Steps[Verdicts | None]:
        assert isinstance(state, Situation)
        codes: npt.NDArray[np.int16] | None = None
        refusals: list[Refusal] = []
        if state.searches:
            numbers, found = yield from outcomes(state, pod, view, rows, self._max_steps, Pace())
            by_number = [0] * len(found)
            for number, outcome in enumerate(found):
                if outcome.refusal is not None:
                    refusals.append(self._worded(state, outcome.refusal))
                    by_number[number] = len(refusals)
            if refusals:
                codes = np.array(by_number, np.int16)[numbers]
        unavailable = self._unavailable(state, view, rows)
        if unavailable is not None:
            refusals.append(NOT_AVAILABLE_ON_NODE)
            if codes is None:
                codes = np.zeros(len(unavailable), np.int16)
            codes[unavailable & (codes == 0)] = len(refusals)
        return Verdicts(codes, tuple(refusals)) if codes is not None and codes.any() else None

    def _worded(self, state: Situation, refusal: Refusal) -> Refusal:
        if refusal.code.is_rejection:
            return refusal
        return Refusal(refusal.code, tuple([state.named(reason) for reason in refusal.reasons]))

    def _unavailable(self, state: Situation, view: View, rows: Rows) -> npt.NDArray[np.bool_] | None:
        """Rows where a claim that has its devices can't be used; None where all can."""
        unavailable: npt.NDArray[np.bool_] | None = None
        for entry in state.allocated:
            mask = self._out_of_reach(entry, view, rows)
            if mask is not None:
                unavailable = mask if unavailable is None else unavailable | mask
        return unavailable

    def _out_of_reach(self, entry: AllocatedClaim, view: View, rows: Rows) -> npt.NDArray[np.bool_] | None:
        allocation = entry.claim.allocation
        assert allocation is not None
        if is_given_up(entry.claim, allocation, self.args.binding_timeout, view.devices.now_nanoseconds):
            return np.ones(len(view.table.exists[rows]), np.bool_)
        if entry.selector is None:
            return None
        reached: npt.NDArray[np.bool_] = matches_selector(view.table, entry.selector, rows)
        return ~reached

    # --- post-filter --------------------------------------------------------------------------------------------------

    def post_filter(self, context: PostFilterContext) -> PostFilterAnswer:
        """An error where an earlier plugin's PreFilter refused the pod, as in kube-scheduler 1.36: preemption is then
        not tried."""
        state = context.states.get(self.name)
        refusal = context.diagnosis.pre_filter
        if state is None and (refusal is None or refusal.plugin != self.name):
            return PostFilterAnswer(STATE_NOT_FOUND)
        if not isinstance(state, Situation):
            return PostFilterAnswer(NOTHING_TO_DEALLOCATE)
        return give_up(state, self._remembered(state, context), context)

    def _remembered(self, state: Situation, context: PostFilterContext) -> list[ResourceClaim]:
        """The claims that were the only reason for some node's refusal."""
        diagnosis = context.diagnosis
        own = [
            number
            for number, refusal in enumerate(diagnosis.refusals, start=1)
            if refusal.plugin == self.name and refusal.reasons == NOT_AVAILABLE_ON_NODE.reasons
        ]
        rows = np.flatnonzero(np.isin(diagnosis.codes, own))
        found = []
        for entry in state.allocated:
            mask = self._out_of_reach(entry, context.view, rows)
            if entry.unwritten is None and mask is not None and mask.any():
                found.append(entry.claim)
        return found

    # --- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, pod: PodInfo, view: View, rows: Rows) -> State | Skip | Refusal:
        situation = situation_of(pod, view) if is_ranked(pod, view) else None
        return situation if isinstance(situation, Situation) and situation.searches else SKIP

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        if not isinstance(state, Situation):
            return np.zeros(len(view.table.exists[rows]), np.int64)
        numbers, found = run_to_end(outcomes(state, pod, view, rows, self._max_steps, Pace()))
        constant = state.allocated_points
        points = [outcome.points + constant if outcome.is_recorded else 0 for outcome in found]
        scores: Scores = np.array(points, np.int64)[numbers]
        return scores

    def normalize(self, state: State, scores: Scores, view: View, rows: Rows) -> Scores:
        return default_normalize(scores)

    # --- reserve and bind ---------------------------------------------------------------------------------------------

    def look_ahead(self, state: State, pod: PodInfo, view: View, node: str) -> Steps[None]:
        return look_ahead(state, pod, view, node, self._max_steps) if isinstance(state, Situation) else _nothing()

    def reserve(self, state: State | None, pod: PodInfo, view: View, node: str) -> tuple[Effect, ...] | Refusal:
        if not isinstance(state, Situation):
            return ()
        try:
            aside = set_aside(state, pod, view, node, self._max_steps)
        except NothingFound:
            return NOT_FOUND_FOR_NODE
        return (aside,)

    def unreserve(self, state: State | None, pod: PodInfo, view: View, node: str) -> tuple[Effect, ...]:
        if view.devices.set_aside_for(pod.uid) is None:
            return ()
        return (GiveBack(pod.uid),)

    def pre_bind_pre_flight(
        self, state: State | None, pod: PodInfo, view: View, node: str
    ) -> PreFlight | Skip | Refusal:
        aside = view.devices.set_aside_for(pod.uid)
        if aside is None:
            return SKIP
        assert isinstance(aside.decision, Decision)
        return pre_flight(aside.decision, pod, view.groups, self.args.binding_timeout.seconds)

    def pre_bind_progress(self, state: State | None, pod: PodInfo, view: View, node: str) -> bool | Refusal:
        aside = view.devices.set_aside_for(pod.uid)
        decision = None if aside is None else aside.decision
        made = decision if isinstance(decision, Decision) else None
        claims = state.claims if isinstance(state, Situation) else ()
        return progress(claims, made, pod, view, self.args.binding_timeout)

    def release_writes(self, state: State | None, pod: PodInfo, view: View) -> tuple[ClaimCommand, ...]:
        return release_writes(state.claims, pod, view) if isinstance(state, Situation) else ()

    # --- for people ---------------------------------------------------------------------------------------------------

    def findings(self, pod: PodInfo, view: View) -> tuple[Finding, ...]:
        return findings(pod, view, self._max_steps)

    # --- events -------------------------------------------------------------------------------------------------------

    def events(self) -> tuple[EventRegistration, ...]:
        return EVENTS


def _nothing() -> Steps[None]:
    yield from ()
