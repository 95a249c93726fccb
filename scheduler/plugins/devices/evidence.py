"""Why a pod does not get the devices that it asks for, node group by node group; and which ones it got.

kube-scheduler says only ``cannot allocate all claims``. Nothing is decided in here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from scheduler.cluster.devices.descriptions import Described
from scheduler.cluster.devices.pools import Pool, PoolState, ReachableDevice
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import Finding
from scheduler.messages.status import Refusal
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.objects.steps import Pace, run_to_end
from scheduler.plugins.devices.candidates import SearchError, first_false, tolerates_all
from scheduler.plugins.devices.capacity import consumption
from scheduler.plugins.devices.claims import claims_of
from scheduler.plugins.devices.one_node import Held, asked_for, find, outcome_of, resources_by_devices
from scheduler.plugins.devices.requests import ClaimNeeds, NamedExpression, Need
from scheduler.plugins.devices.search import Fault, allocate
from scheduler.plugins.devices.selectors.rewriting import conjuncts
from scheduler.plugins.devices.situation import Situation, situation_of

MAX_GROUPS = 20
"""Groups of nodes that are listed."""
NO_ROOM_IS_MADE = "preemption makes no room here: devices stay with their claims until the pods that use them are gone"
MAX_PARTS = 16
"""Conditions joined by ``&&`` that are tried one by one."""
MAX_NAMES = 10
"""Nodes named of a group, and holders named of its devices."""


def findings(pod: PodInfo, view: View, max_steps: int) -> tuple[Finding, ...]:
    """What ``tandem why`` shows about devices: those that a placed pod has, or why groups of nodes can't give them.
    ``max_steps``: of each search."""
    view.devices.catch_up()
    if pod.node_name:
        lines = tuple(_devices_of(pod, view))
        return (Finding(1, (pod.node_name,), lines),) if lines else ()
    situation = situation_of(pod, view)
    if situation is None or isinstance(situation, Refusal) or not situation.searches:
        return ()
    groups: dict[Hashable, list[int]] = {}
    for row in view.ordered_rows.tolist():
        look = (view.devices.signature(row), resources_by_devices(situation, view.table, row))
        groups.setdefault(look, []).append(row)
    found = []
    # Nodes without any device come last, however many they are: they explain the least.
    has_devices = {rows[0]: any(pool.devices for pool in view.devices.pools(rows[0])) for rows in groups.values()}
    ordered = sorted(groups.values(), key=lambda rows: (has_devices[rows[0]], len(rows)), reverse=True)
    for rows in ordered[:MAX_GROUPS]:
        lines = tuple(_why_not(situation, pod, view, rows[0], max_steps))
        if lines:
            names = tuple([view.table.names[row] for row in rows[:MAX_NAMES]])
            found.append(Finding(len(rows), names, lines))
    return tuple(found)


def _devices_of(pod: PodInfo, view: View) -> Iterator[str]:
    claims = claims_of(pod, view.groups, lambda key: view.find(ResourceClaim, key))
    own = claims if not isinstance(claims, str) else ()
    for claim in (*own, *view.devices.special_claims_of(pod.uid)):
        for result in claim.allocation.devices.results if claim.allocation is not None else ():
            yield f"claim {claim.key}, request {result.request}: {'/'.join(result.device_id)}"


def _why_not(situation: Situation, pod: PodInfo, view: View, row: int, max_steps: int) -> Iterator[str]:
    """The lines about why the node can't give the devices; none where it can give all."""
    by_devices = resources_by_devices(situation, view.table, row)
    if by_devices is None:
        return
    if isinstance(by_devices, Refusal):
        yield by_devices.message
        return
    outcome = outcome_of(run_to_end(find(asked_for(situation, pod, view, by_devices), view, row, max_steps, Pace())))
    if outcome.refusal is None:
        return
    if not outcome.refusal.code.is_rejection:
        yield situation.named(outcome.refusal.message)
        return
    pools = view.devices.pools(row)
    yield from _pools_in_trouble(pools)
    held = Held(view.devices)
    is_short = is_taken = False
    for claim in situation.waiting:
        for request in claim.requests:
            texts = [_request(situation, claim, need, pools, held, view) for need in request.alternatives]
            is_short = is_short or all(one.is_short for one in texts)
            is_taken = is_taken or any(one.is_taken for one in texts)
            yield from (one.text for one in texts)
    if not is_short:
        yield _together(situation.waiting, pools, held, max_steps)
    if is_taken:
        yield NO_ROOM_IS_MADE


def _pools_in_trouble(pools: Iterable[Pool]) -> Iterator[str]:
    for pool in pools:
        if pool.state is PoolState.INCOMPLETE:
            yield f"pool {'/'.join(pool.key)} is being updated: its devices can't be had"
        elif pool.state is PoolState.INVALID:
            yield f"pool {'/'.join(pool.key)} is invalid ({pool.fault}): its devices can't be had"


class _Said(NamedTuple):
    text: str
    is_short: bool
    """Too few devices are left for this request alone."""
    is_taken: bool
    """Others hold some devices that the request could have."""


def _request(
    situation: Situation, claim: ClaimNeeds, need: Need, pools: tuple[Pool, ...], held: Held, view: View
) -> _Said:
    """What excludes the node's devices from a request, and whether too few are left."""
    devices = [one for pool in pools if pool.state is PoolState.COMPLETE for one in pool.devices]
    failed: Counter[str] = Counter()
    passing = []
    for one in devices:
        fault = first_false(need.selectors, one.device.described)
        if fault is None:
            passing.append(one)
        else:
            failed[_selector(fault, one.device.described)] += 1
    lost: Counter[str] = Counter()
    holders: Counter[str] = Counter()
    free = 0
    for one in passing:
        reason = _in_the_way(need, one, held)
        lost[reason] += bool(reason)
        free += not reason
        holder = held.holder(one.device.id) if reason == "taken" else ""
        holders[holder] += bool(holder)
    wanted = "all devices" if need.takes_all else f"{need.exact_count} device{'s' * (need.exact_count != 1)}"
    parts = [f"{len(devices)} on the node"]
    parts += [f"{count} fail {selector}" for selector, count in failed.most_common()]
    for reason in ("out of reach", "too small", "taken", "tainted"):
        if lost[reason]:
            some = [name for name, _ in holders.most_common(MAX_NAMES) if name] if reason == "taken" else []
            names = ", ".join(_with_pods(name, view) for name in some)
            parts.append(f"{lost[reason]} {reason}" + (f" (by {names})" if names else ""))
    parts.append(f"{free} free")
    where = situation.named(f"claim {claim.key}, request {need.name}")
    text = f"{where}: {wanted} of class {need.device_class.name}; {', '.join(parts)}"
    return _Said(text, free < (len(passing) or 1 if need.takes_all else need.exact_count), bool(lost["taken"]))


def _with_pods(claim: str, view: View) -> str:
    """A claim that holds devices, with the pods that it is reserved for."""
    found = view.find(ResourceClaim, claim)
    pods = [one.name for one in found.status.reserved_for[:MAX_NAMES]] if found is not None else []
    return f"{claim} for {' and '.join(pods)}" if pods else claim


def _selector(fault: NamedExpression | str, described: Described) -> str:
    if isinstance(fault, str):
        return "with an error"
    owner = "the class's" if fault.place.startswith("class ") else "the request's"
    return f"{owner} {_false_part(fault.expression, described)}"


def _false_part(expression: str, described: Described) -> str:
    """The first of the conditions joined by ``&&`` that is false, alone; else the whole expression."""
    parts = conjuncts(expression)
    if 1 < len(parts) <= MAX_PARTS:
        for part in parts:
            if isinstance(first_false((NamedExpression("", part),), described), NamedExpression):
                return part
    return expression


def _in_the_way(need: Need, one: ReachableDevice, held: Held) -> str:
    if not one.is_reachable:
        return "out of reach"
    if consumption(need, one.device.fields) is None:
        return "too small"
    driver, pool, name = one.device.id
    if not need.is_admin and name in held.of_pool((driver, pool)).taken:
        return "taken"
    return "" if tolerates_all(need.tolerations, one.device.fields.taints) else "tainted"


def _together(claims: tuple[ClaimNeeds, ...], pools: tuple[Pool, ...], held: Held, max_steps: int) -> str:
    """Why requests that could each be met alone can't be met together."""
    try:
        without = tuple([claim._replace(constraints=()) for claim in claims])
        if any(claim.constraints for claim in claims) and not isinstance(
            run_to_end(allocate(without, pools, held, max_steps, Pace())), Fault
        ):
            names = [
                f"matchAttribute {one.match_attribute}"
                if one.match_attribute is not None
                else f"distinctAttribute {one.distinct_attribute}"
                for claim in claims
                for one in claim.constraints
            ]
            return f"no choice of devices keeps to {' and '.join(names)}"
    except SearchError:
        pass
    if any(one.device.consumes for pool in pools for one in pool.devices):
        return "the counters that the devices share do not suffice for all requests together"
    return "there are too few devices for all requests together"
