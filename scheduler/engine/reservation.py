"""Assume, Reserve and Permit of a pod on its chosen node, and how they are undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from scheduler.cluster.effects import Effect
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.engine.attempt import Attempt
from scheduler.engine.cycle_context import Assumptions, CycleContext, Laps
from scheduler.engine.error_texts import cause_of
from scheduler.engine.outcome import CycleOutcome, GroupPermitted, NotPlaced, Placed, PodRequest
from scheduler.engine.tickets import ClaimTicket
from scheduler.errors import failed_at
from scheduler.framework.diagnosis import Diagnosis, fit_error_text
from scheduler.framework.plugin import PermitPlugin, Permitted, ReservePlugin, State, Wait
from scheduler.framework.plugin_requests import (
    ActivatePods,
    AllowWaiting,
    AllowWaitingGroup,
    PluginRequest,
)
from scheduler.framework.plugin_times import timed
from scheduler.framework.profile import Profile
from scheduler.messages.claim_commands import ClaimCommand
from scheduler.messages.status import Code, Refusal, Skip
from scheduler.messages.stimuli import PermitDecided, PodsActivated

MAX_PERMIT_WAIT_SECONDS = 15 * 60.0

States = Mapping[str, State | Skip]
Answer = TypeVar("Answer")


class Decision(Protocol):
    """The choice of a node for a pod."""

    @property
    def context(self) -> CycleContext: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def pod(self) -> PodInfo: ...

    @property
    def attempt(self) -> Attempt: ...

    @property
    def clock(self) -> Laps: ...

    @property
    def states(self) -> dict[str, State | Skip]:
        """Plugin name → its PreFilter answer."""
        ...

    @property
    def unconcerned(self) -> frozenset[str]:
        """Plugins that the pod does not concern: they are in neither of the next two."""
        ...

    @property
    def reserve_plugins(self) -> tuple[ReservePlugin, ...]: ...

    @property
    def permit_plugins(self) -> tuple[PermitPlugin, ...]: ...


def assume_and_reserve(run: Decision, node: str) -> CycleOutcome:
    """Assume the pod, then run Reserve and Permit; after a refusal all of it is undone.

    Plugins that the pod does not concern are not asked. Raises InvariantViolation if the pod is placed already.
    """
    assumed = run.pod.on_node(node)
    assumptions = run.context.assumptions
    assumptions.assume(assumed)
    waits: dict[str, float] = {}
    requests: list[PodRequest] = []
    reserving, permitting = run.reserve_plugins, run.permit_plugins
    failed = _reserve(run, assumed, requests) if reserving else None
    run.clock.lap("Reserve")
    if failed is None:
        failed = _permit(run, assumed, waits, requests) if permitting else None
        if waits and failed is None:
            run.attempt.statuses["Permit"] = Code.WAIT.value
        run.clock.lap("Permit")
    if failed is not None:
        requests += unreserve(run.context, _Reserved(assumed, run.profile, run.attempt, run.states))
        assumptions.release(assumed.uid)
        return msgspec.structs.replace(failed, requests=tuple(requests)) if requests else failed
    run.attempt.node = node
    return Placed(assumed, run.states, run.unconcerned, waits, tuple(requests))


def _reserve(run: Decision, assumed: PodInfo, requests: list[PodRequest]) -> NotPlaced | None:
    def take(name: str, answer: Iterable[Effect | PluginRequest] | None) -> None:
        if answer:
            requests.extend(_carry_out(answer, name, run.context.assumptions))

    return _ask_in_turn(run, assumed, "Reserve", [(one.name, one.reserve) for one in run.reserve_plugins], take)


def _permit(run: Decision, assumed: PodInfo, waits: dict[str, float], requests: list[PodRequest]) -> NotPlaced | None:
    """``waits`` is filled with the plugins that say wait, and the seconds that they ask for."""

    def take(name: str, verdict: Wait | Permitted | None) -> None:
        if isinstance(verdict, Wait):
            waits[name] = min(verdict.timeout_seconds, MAX_PERMIT_WAIT_SECONDS)
        if verdict is not None:
            requests.extend([_signed(request, name) for request in verdict.requests])

    return _ask_in_turn(run, assumed, "Permit", [(one.name, one.permit) for one in run.permit_plugins], take)


def _ask_in_turn(
    run: Decision,
    assumed: PodInfo,
    point: str,
    plugins: Iterable[tuple[str, Callable[[State | None, PodInfo, View, str], Answer | Refusal]]],
    take: Callable[[str, Answer], None],
) -> NotPlaced | None:
    """Ask the plugins, by name and method, until one refuses or raises; ``take`` gets every other answer.

    What ``take`` raises is the fault of the plugin whose answer it is.
    """
    view, node = run.context.cache.view, assumed.node_name
    for name, method in plugins:
        try:
            ask = timed(run.attempt.plugin_times, method, name, point)
            answer = ask(state_of(run.states, name), assumed, view, node)
            if not isinstance(answer, Refusal):
                take(name, answer)
                continue
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
            run.attempt.statuses[point] = Code.ERROR.value
            run.attempt.failed += ((point, name),)
            return NotPlaced(failed_at(point, name, cause_of(error)), is_error=True)
        run.attempt.statuses[point] = answer.code.value
        if not answer.code.is_rejection:
            run.attempt.failed += ((point, name),)
        return _rejected(answer, name, point)
    return None


class _Reserved(Struct, frozen=True):
    pod: PodInfo
    profile: Profile
    attempt: Attempt
    states: States


class Reserved(Protocol):
    """A pod for which something may have been set aside."""

    @property
    def pod(self) -> PodInfo:
        """The pod, with ``node_name`` set."""
        ...

    @property
    def profile(self) -> Profile: ...

    @property
    def attempt(self) -> Attempt: ...

    @property
    def states(self) -> States: ...


def unreserve(context: CycleContext, reserved: Reserved) -> list[PodRequest]:
    """Ask every reserve plugin, in reverse order, to take back what it set aside; also those that never ran.

    One that raises does not keep the others from it. Returns what they ask about other pods.
    """
    requests: list[PodRequest] = []
    pod, view = reserved.pod, context.cache.view
    for plugin in reversed(reserved.profile.reserve_plugins):
        try:
            ask = timed(reserved.attempt.plugin_times, plugin.unreserve, plugin.name, "Unreserve")
            answer = ask(state_of(reserved.states, plugin.name), pod, view, pod.node_name)
            requests += _carry_out(answer, plugin.name, context.assumptions)
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
            context.report(f"{pod.key}: {failed_at('Unreserve', plugin.name, cause_of(error))}")
    return requests


def take_back(context: CycleContext, reserved: Reserved) -> list[ClaimCommand | PodRequest]:
    """Undo the reservation of a pod whose binding failed: the writes that undo earlier ones, then ``unreserve``."""
    steps: list[ClaimCommand | PodRequest] = []
    for plugin in reversed(reserved.profile.reserve_plugins):
        try:
            state = state_of(reserved.states, plugin.name)
            writes = plugin.release_writes(state, reserved.pod, context.cache.view)
            steps += [write.with_ticket(context.tickets.issue(ClaimTicket())) for write in writes]
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
            context.report(f"{reserved.pod.key}: {failed_at('Unreserve', plugin.name, cause_of(error))}")
    return [*steps, *unreserve(context, reserved)]


def _carry_out(answer: Iterable[Effect | PluginRequest], plugin: str, assumptions: Assumptions) -> list[PodRequest]:
    """Apply the effects; the requests are for the engine, after this step."""
    requests: list[PodRequest] = []
    for each in answer:
        if isinstance(each, PluginRequest):
            requests.append(_signed(each, plugin))
        else:
            assumptions.apply((each,))
    return requests


def _signed(request: PluginRequest, plugin: str) -> PodRequest:
    if isinstance(request, ActivatePods):
        return PodsActivated(request.keys)
    if isinstance(request, AllowWaiting):
        return PermitDecided(request.uid, plugin, True)
    if isinstance(request, AllowWaitingGroup):
        return GroupPermitted(request.group, plugin)
    return PermitDecided(request.uid, plugin, False, request.message)


def state_of(states: States, name: str) -> State | None:
    state = states.get(name)
    return None if isinstance(state, Skip) else state


def _rejected(refusal: Refusal, plugin: str, point: str) -> NotPlaced:
    """The outcome of a pod that Reserve or Permit refused."""
    return refused_on_one_node(refusal.by(plugin), point)


def refused_on_one_node(refusal: Refusal, point: str) -> NotPlaced:
    """The outcome of a signed refusal after the choice of the node: worded as by a cluster of this one node."""
    plugin = refusal.plugin
    if not refusal.code.is_rejection:
        return NotPlaced(failed_at(point, plugin, refusal.message), is_error=True)
    diagnosis = Diagnosis.of_rows({0: refusal}, 1)
    return NotPlaced(
        fit_error_text(1, diagnosis),
        unschedulable_plugins=frozenset({plugin}),
        pending_plugins=frozenset({plugin} if refusal.code is Code.PENDING else ()),
    )
