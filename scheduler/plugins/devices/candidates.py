"""Which devices a request may have, before anything is said about others (docs/kube-scheduler/dra.md §6.3, §6.4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from scheduler.cluster.devices.descriptions import Described
from scheduler.cluster.devices.pools import Pool, PoolState, ReachableDevice
from scheduler.cluster.devices.slices import Amounts
from scheduler.errors import SchedulerError
from scheduler.objects.node import Taint
from scheduler.objects.pod import Toleration
from scheduler.objects.steps import Pace, Steps
from scheduler.objects.taints import repels, tolerated
from scheduler.plugins.devices.requests import ClaimNeeds, NamedExpression, Need


class SearchError(SchedulerError):
    """An error that ends the attempt, on whichever node the search met it."""


def load_selectors() -> None:
    """Import CEL and make its environments, ahead of the first selector. May run in a thread of its own."""
    from scheduler.plugins.devices.selectors.selector import load

    load()


def is_selected(need: Need, described: Described) -> bool:
    """Whether the device passes the class's and the request's selectors. Raises SearchError."""
    fault = first_false(need.selectors, described)
    if fault is None:
        return True
    if isinstance(fault, NamedExpression):
        return False
    raise SearchError(fault)


@lru_cache(maxsize=65_536)
def first_false(selectors: tuple[NamedExpression, ...], described: Described) -> NamedExpression | str | None:
    """The first selector that does not hold; a text if one could not be evaluated; None where all hold."""
    # Imported with the first selector: most clusters have none, and CEL with protobuf is a twentieth of the start.
    from scheduler.plugins.devices.selectors.selector import SelectorError, matches

    for selector in selectors:
        answer = matches(selector.expression, described)
        if isinstance(answer, SelectorError):
            return f"{selector.place}: {answer}"
        if not answer:
            return selector
    return None


Admitted = tuple[tuple[int, str], ...]
"""Places of devices, each with what went wrong with a selector on it, "" for a device that passes all of them."""


def admitted(selectors: tuple[NamedExpression, ...], pool: Pool, pace: Pace) -> Steps[Admitted]:
    """The pool's devices that no selector refuses. For selectors that take less than a step: all are evaluated, those
    of devices that the search does not come to included."""
    found: list[tuple[int, str]] = []
    before = 0
    for part in pool.parts:
        evaluated = _admitted.cache_info().misses
        of_part = _admitted(selectors, part.descriptions)
        if _admitted.cache_info().misses != evaluated:
            devices = len(part.descriptions)
            pace.left -= devices // LOOKS_A_STEP + devices * units_of(selectors) // UNITS_A_STEP
        pace.left -= 1
        if pace.left <= 0:
            yield from pace.pause()
        if len(pool.parts) == 1:
            return of_part
        found += [(before + place, fault) for place, fault in of_part]
        before += len(part.devices)
    return tuple(found)


@lru_cache(maxsize=16_384)
def _admitted(selectors: tuple[NamedExpression, ...], descriptions: tuple[Described, ...]) -> Admitted:
    faults = [first_false(selectors, described) for described in descriptions]
    return tuple([(place, one or "") for place, one in enumerate(faults) if not isinstance(one, NamedExpression)])


UNITS_A_STEP = 1000
"""Units of 0.05 µs that a step of a search stands for."""

LOOKS_A_STEP = 16
"""Devices that are looked at and not taken for the time of a step: 1 to 2 µs each."""

STEPS_A_SELECTOR = 4
"""Steps of a slice, and of no time limit, that a new selector counts: it is compiled, in some 0.2 ms."""


@lru_cache(maxsize=4096)
def units_of(selectors: tuple[NamedExpression, ...]) -> int:
    """Units that the selectors may take for one device."""
    from scheduler.plugins.devices.selectors.selector import cost_of

    return sum(cost_of(selector.expression) for selector in selectors)


def measured(selectors: tuple[NamedExpression, ...], pace: Pace) -> Steps[int]:
    """Steps of a search that the selectors may take for one device, 0 for what takes less than one."""
    for selector in selectors:
        # Compiled here, so that a thousand of them are not one step.
        compiled = units_of.cache_info().misses
        units_of((selector,))
        pace.left -= STEPS_A_SELECTOR * (units_of.cache_info().misses - compiled)
        if pace.left <= 0:
            yield from pace.pause()
    return units_of(selectors) // UNITS_A_STEP


@lru_cache(maxsize=16_384)
def tolerates_all(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]) -> bool:
    """Whether no taint keeps the request from the device."""
    return all(not repels(taint) or tolerated(taint, tolerations) for taint in taints)


def all_of(
    claim: ClaimNeeds,
    need: Need,
    pools: tuple[Pool, ...],
    selected: Callable[[Need, Described], bool],
    room: Callable[[Need, ReachableDevice], Amounts | None],
    pace: Pace,
) -> Steps[list[tuple[Pool, ReachableDevice]]]:
    """The devices of an "all devices" request: those in use whole are included, those whose shares leave too little
    are not. ``selected``: ``is_selected``, counted. ``room``: what the request would consume of a device, None where
    there is too little. Raises SearchError."""
    where = f"claim {claim.key}, request {need.own_name}"
    found = []
    for pool in pools:
        name = "/".join(pool.key)
        if pool.state is PoolState.INCOMPLETE:
            raise SearchError(f"{where}: asks for all devices, but resource pool {name} is currently being updated")
        if pool.state is PoolState.INVALID:
            raise SearchError(f"{where}: asks for all devices, but resource pool {name} is currently invalid")
        for number, one in enumerate(pool.devices):
            if not number % LOOKS_A_STEP:
                pace.left -= 1 + LOOKS_A_STEP * units_of(need.selectors) // UNITS_A_STEP
                if pace.left <= 0:
                    yield from pace.pause()
            if selected(need, one.device.described) and room(need, one) is not None:
                found.append((pool, one))
    return found
