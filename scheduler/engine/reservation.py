"""From a chosen node to a pod that counts there: assume, Reserve, Permit, and how all of it is taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.error_texts import cause_of, failed_at
from scheduler.engine.outcome import CycleOutcome, NotPlaced, Placed
from scheduler.framework.diagnosis import Diagnosis, fit_error_text
from scheduler.framework.plugin import State, Wait
from scheduler.framework.plugin_times import PluginTimes, timed
from scheduler.framework.profile import Profile
from scheduler.messages.status import Code, Refusal, Skip

if TYPE_CHECKING:
    from scheduler.engine.scheduling_cycle import CycleContext

MAX_PERMIT_WAIT_SECONDS = 15 * 60.0

States = dict[str, State | Skip]


def assume_and_reserve(
    context: CycleContext,
    profile: Profile,
    pod: PodInfo,
    node: str,
    states: States,
    unconcerned: frozenset[str],
    attempt: Attempt,
    lap: Callable[[str], None],
) -> CycleOutcome:
    """The pod counts on its node and its plugins have set aside what it needs; or nothing of it has happened.

    ``unconcerned`` plugins are not asked. ``lap`` is told when a point is through. Raises InvariantViolation if the pod
    is placed already.
    """
    assumed = pod.on_node(node)
    context.cache.assume(assumed)
    context.nominator.delete(pod.uid)
    waits: dict[str, float] = {}
    times = attempt.plugin_times
    failed = _reserve(context, profile, assumed, states, unconcerned, times)
    lap("Reserve")
    if failed is None:
        failed = _permit(context, profile, assumed, states, unconcerned, waits, times)
        lap("Permit")
    if failed is not None:
        unreserve(context, profile, assumed, states, times)
        context.cache.forget(pod.uid)
        return failed
    attempt.node = node
    return Placed(assumed, states, unconcerned, waits)


def _reserve(
    context: CycleContext,
    profile: Profile,
    assumed: PodInfo,
    states: States,
    unconcerned: frozenset[str],
    times: PluginTimes | None,
) -> NotPlaced | None:
    view, node = context.cache.view, assumed.node_name
    for plugin in profile.reserve_plugins:
        if plugin.name in unconcerned:
            continue
        try:
            answer = timed(times, plugin.reserve, plugin.name, "Reserve")(
                state_of(states, plugin.name), assumed, view, node
            )
            if not isinstance(answer, Refusal):
                if answer:
                    context.apply_effects(answer)
                continue
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
            return NotPlaced(failed_at("Reserve", plugin.name, cause_of(error)), is_error=True)
        return _rejected(answer, plugin.name, "Reserve")
    return None


def _permit(
    context: CycleContext,
    profile: Profile,
    assumed: PodInfo,
    states: States,
    unconcerned: frozenset[str],
    waits: dict[str, float],
    times: PluginTimes | None,
) -> NotPlaced | None:
    for plugin in profile.permit_plugins:
        if plugin.name in unconcerned:
            continue
        try:
            ask = timed(times, plugin.permit, plugin.name, "Permit")
            verdict = ask(state_of(states, plugin.name), assumed, context.cache.view, assumed.node_name)
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
            return NotPlaced(failed_at("Permit", plugin.name, cause_of(error)), is_error=True)
        if isinstance(verdict, Refusal):
            return _rejected(verdict, plugin.name, "Permit")
        if isinstance(verdict, Wait):
            waits[plugin.name] = min(verdict.timeout_seconds, MAX_PERMIT_WAIT_SECONDS)
    return None


def unreserve(
    context: CycleContext, profile: Profile, assumed: PodInfo, states: States, times: PluginTimes | None
) -> None:
    """Ask every reserve plugin, in reverse order, to take back what it set aside; also those that never ran.

    One that raises does not keep the others from it.
    """
    for plugin in reversed(profile.reserve_plugins):
        try:
            ask = timed(times, plugin.unreserve, plugin.name, "Unreserve")
            context.apply_effects(ask(state_of(states, plugin.name), assumed, context.cache.view, assumed.node_name))
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own fault, and is named
            context.report(f"{assumed.key}: {failed_at('Unreserve', plugin.name, cause_of(error))}")


def state_of(states: States, name: str) -> State | None:
    state = states.get(name)
    return None if isinstance(state, Skip) else state


def _rejected(refusal: Refusal, plugin: str, point: str) -> NotPlaced:
    """Reserve or Permit said no: worded as a refusal by a cluster of this one node."""
    if not refusal.code.is_rejection:
        return NotPlaced(failed_at(point, plugin, refusal.message), is_error=True)
    diagnosis = Diagnosis.of_rows({0: refusal.by(plugin)}, 1)
    return NotPlaced(
        fit_error_text(1, diagnosis),
        unschedulable_plugins=frozenset({plugin}),
        pending_plugins=frozenset({plugin} if refusal.code is Code.PENDING else ()),
    )
