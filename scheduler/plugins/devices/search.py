"""The search for devices on one node: depth first, the first solution wins (docs/kube-scheduler/dra.md §6.4).

Claims, their requests and the devices of a request are decided one after the other; what fails later changes what was
chosen earlier. Which devices are taken follows from the order of pools, slices and devices alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Generator, Mapping
from enum import Enum
from itertools import islice
from typing import NamedTuple

from scheduler.cluster.devices.descriptions import Described
from scheduler.cluster.devices.pools import Pool, PoolState, ReachableDevice
from scheduler.cluster.devices.slices import Amounts, DeviceId, PoolKey
from scheduler.objects.steps import Pace, Steps
from scheduler.plugins.devices.candidates import (
    LOOKS_A_STEP,
    Admitted,
    SearchError,
    admitted,
    all_of,
    is_selected,
    measured,
    tolerates_all,
)
from scheduler.plugins.devices.capacity import consumption, leaves_room
from scheduler.plugins.devices.constraints import Constraints
from scheduler.plugins.devices.counters import Counters
from scheduler.plugins.devices.holders import Holders
from scheduler.plugins.devices.requests import MAX_RESULTS, ClaimNeeds, NamedExpression, Need, Request
from scheduler.plugins.devices.shortage import falls_short


class Chosen(NamedTuple):
    """One device for one request. ``consumed``: None for a device that can't be shared."""

    need: Need
    pool: PoolKey
    device: ReachableDevice
    consumed: Amounts | None


class Fault(Enum):
    """Why there is no solution."""

    NONE_FITS = "cannot allocate all claims"
    INVALID_POOLS = "invalid resource pools were encountered"
    OUT_OF_TIME = "timed out trying to allocate devices"


class _Found(Enum):
    YES = "yes"
    NO = "no"
    TOO_MANY = "too many"
    """The claim would hold more devices than it can."""


class OutOfSteps(Exception):
    """The search was longer than it may be."""


def allocate(
    claims: tuple[ClaimNeeds, ...], pools: tuple[Pool, ...], holders: Holders, max_steps: int, pace: Pace
) -> Steps[tuple[tuple[Chosen, ...], ...] | Fault]:
    """The devices that each claim gets, or why there are none. ``max_steps``: 0 for no limit. Raises SearchError."""
    if (yield from falls_short(claims, pools, holders, pace)):
        return no_solution(pools)
    try:
        found = yield from _Search(claims, pools, holders, max_steps, pace).run()
    except OutOfSteps:
        return Fault.OUT_OF_TIME
    return no_solution(pools) if found is None else found


def no_solution(pools: tuple[Pool, ...]) -> Fault:
    """Why a search of these pools has found none."""
    return Fault.INVALID_POOLS if any(pool.state is PoolState.INVALID for pool in pools) else Fault.NONE_FITS


_Call = Generator["_Call | None", _Found, _Found]
"""A function of the search. It yields what it calls, and None where the search may pause; it is sent what the call has
found. So a pause costs the same however deep the search is, and the depth is not limited."""

_Place = tuple[int, int]
"""Pool and device where the next candidate is."""


class _Search:
    def __init__(
        self, claims: tuple[ClaimNeeds, ...], pools: tuple[Pool, ...], holders: Holders, max_steps: int, pace: Pace
    ) -> None:
        self._claims = claims
        self._pools = pools
        self._usable = [pool if pool.state is PoolState.COMPLETE else None for pool in pools]
        self._holders = holders
        self._steps_left = max_steps or -1
        self._pace = pace
        self._looks_left = LOOKS_A_STEP
        self._all_devices: dict[tuple[int, str], list[tuple[Pool, ReachableDevice]]] = {}
        self._constraints = [Constraints(claim) for claim in claims]
        self._chosen: list[list[Chosen]] = [[] for _ in claims]
        self._in_use: dict[DeviceId, list[int]] = {}
        """Device → the claims that this search gave it to; more than one only for administration."""
        self._shares: dict[DeviceId, list[Amounts]] = {}
        self._counters = Counters(self._consuming)
        self._admitted: dict[tuple[tuple[NamedExpression, ...], int], Admitted] = {}
        """By selectors and the pool's place."""
        self._steps_of: dict[tuple[NamedExpression, ...], int] = {}
        """Selectors that may take longer than a step each time → steps."""
        self._evaluated: set[tuple[tuple[NamedExpression, ...], int]] = set()
        """Of those: with the device description (its identity) that they have been charged for."""

    def run(self) -> Steps[tuple[tuple[Chosen, ...], ...] | None]:
        for number, claim in enumerate(self._claims):
            yield from self._measure(number, claim)
        if (yield from self._called(self._from_claim(0))) is not _Found.YES:
            return None
        return tuple([tuple(chosen) for chosen in self._chosen])

    def _called(self, first: _Call) -> Steps[_Found | None]:
        """Run a function of the search and all that it calls."""
        calls, pace = [first], self._pace
        found: _Found | None = None
        while calls:
            try:
                call = next(calls[-1]) if found is None else calls[-1].send(found)
            except StopIteration as done:
                calls.pop()
                found = done.value
                continue
            found = None
            if call is not None:
                calls.append(call)
            if pace.left <= 0:
                yield from pace.pause()
        return found

    def _measure(self, number: int, claim: ClaimNeeds) -> Steps[None]:
        """Find the devices of "all devices" requests, and refuse claims that are too large in any case."""
        least = 0
        for request in claim.requests:
            counts = []
            for need in request.alternatives:
                steps = yield from measured(need.selectors, self._pace)
                if steps:
                    self._steps_of[need.selectors] = steps
                if need.takes_all:
                    devices = self._all_devices[number, need.name] = yield from all_of(
                        claim, need, self._pools, self._is_selected, self._room, self._pace
                    )
                    counts.append(len(devices))
                else:
                    counts.append(need.exact_count)
            least += min(counts)
        if least > MAX_RESULTS:
            raise SearchError(
                f"claim {claim.key}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
            )

    # --- going through ------------------------------------------------------------------------------------------------

    def _from_claim(self, number: int) -> _Call:
        if number >= len(self._claims):
            return _Found.YES
        found = yield self._from_request(number, 0)
        return _Found.YES if found is _Found.YES else _Found.NO

    def _from_request(self, claim: int, number: int) -> _Call:
        requests = self._claims[claim].requests
        if number >= len(requests):
            return (yield self._from_claim(claim + 1))
        request: Request = requests[number]
        is_always_too_many = True
        for need in request.alternatives:
            found = yield self._from_device(claim, number, need, 0, (0, 0))
            if found is _Found.YES:
                return found
            is_always_too_many = is_always_too_many and found is _Found.TOO_MANY
        return _Found.TOO_MANY if is_always_too_many else _Found.NO

    def _from_device(self, claim: int, request: int, need: Need, number: int, place: _Place) -> _Call:
        """Find device ``number`` of a request and everything behind it."""
        self._step()
        all_devices = self._all_devices[claim, need.name] if need.takes_all else None
        wanted = need.exact_count if all_devices is None else len(all_devices)
        if all_devices is not None and not wanted:
            return _Found.NO
        if number >= wanted:
            behind = self._from_request(claim, request + 1)
        elif len(self._chosen[claim]) + wanted - number > MAX_RESULTS:
            return _Found.TOO_MANY
        elif all_devices is not None:
            behind = self._next_of_all(claim, request, need, number, all_devices)
        else:
            behind = self._next_of_count(claim, request, need, number, place)
        return (yield behind)

    def _next_of_all(
        self, claim: int, request: int, need: Need, number: int, devices: list[tuple[Pool, ReachableDevice]]
    ) -> _Call:
        pool, one = devices[number]
        if self._is_in_use(claim, need, pool, one.device.id):
            return _Found.NO
        if not self._take(claim, need, pool, one, self._room(need, one), must_be=True):
            return _Found.NO
        found = yield self._from_device(claim, request, need, number + 1, (0, 0))
        if found is not _Found.YES:
            self._give_back(claim, need, pool, one)
        return found

    def _next_of_count(self, claim: int, request: int, need: Need, number: int, place: _Place) -> _Call:
        first_pool, first_device = place
        for pool_number in range(first_pool, len(self._usable)):
            pool = self._usable[pool_number]
            if pool is None:
                continue
            devices = pool.devices
            taken = () if need.is_admin else self._holders.of_pool(pool.key).taken
            candidates = yield from self._candidates(need, pool_number, pool)
            first = bisect_left(candidates, (first_device, "")) if pool_number == first_pool else 0
            for device_number, fault in islice(candidates, first, None):
                one = devices[device_number]
                self._looks_left -= 1
                if not self._looks_left:
                    self._looks_left = LOOKS_A_STEP
                    self._step()
                    if self._pace.left <= 0:
                        yield None
                if one.device.id[2] in taken or self._is_used_here(claim, need, one.device.id):
                    continue
                if fault:
                    raise SearchError(fault)
                if need.selectors in self._steps_of and not self._is_selected(need, one.device.described):
                    continue
                consumed = self._room(need, one)
                if consumed is None or not self._take(claim, need, pool, one, consumed, must_be=False):
                    continue
                found = yield self._from_device(claim, request, need, number + 1, (pool_number, device_number + 1))
                if found is _Found.YES:
                    return found
                self._give_back(claim, need, pool, one)
                if found is _Found.TOO_MANY:
                    return found
                self._step()
        return _Found.NO

    def _candidates(self, need: Need, pool_number: int, pool: Pool) -> Steps[Admitted]:
        """The places of the devices to be tried: all of them, where an expensive selector has to be asked."""
        key = need.selectors, pool_number
        found = self._admitted.get(key)
        if found is None:
            if need.selectors in self._steps_of:
                found = tuple([(place, "") for place in range(len(pool.devices))])
            else:
                found = yield from admitted(need.selectors, pool, self._pace)
            self._admitted[key] = found
        return found

    def _step(self, steps: int = 1) -> None:
        self._pace.left -= steps
        if self._steps_left < 0:
            return
        self._steps_left -= steps
        if self._steps_left < 0:
            raise OutOfSteps

    # --- one device ---------------------------------------------------------------------------------------------------

    def _is_in_use(self, claim: int, need: Need, pool: Pool, device: DeviceId) -> bool:
        if self._is_used_here(claim, need, device):
            return True
        return not need.is_admin and device[2] in self._holders.of_pool(pool.key).taken

    def _is_used_here(self, claim: int, need: Need, device: DeviceId) -> bool:
        """Whether this search has given the device away."""
        used_by = self._in_use.get(device)
        return used_by is not None and (claim in used_by or not need.is_admin)

    def _is_selected(self, need: Need, described: Described) -> bool:
        """Whether the selectors admit the device. Raises SearchError. Expensive selectors cost steps, whether or not
        their answer is known already."""
        steps = self._steps_of.get(need.selectors) if self._steps_of else None
        if steps and (need.selectors, id(described)) not in self._evaluated:
            self._evaluated.add((need.selectors, id(described)))
            self._step(steps)
        return is_selected(need, described)

    def _consuming(self, pool: PoolKey) -> Container[str]:
        held = self._holders.of_pool(pool)
        return (
            held.taken.keys() | held.shared.keys()
            if isinstance(held.taken, Mapping)
            else held.taken | held.shared.keys()
        )

    def _room(self, need: Need, one: ReachableDevice) -> Amounts | None:
        """What the request would consume of the device; None where the device can't be reached or has not so much."""
        if not one.is_reachable:
            return None
        fields = one.device.fields
        consumed = consumption(need, fields)
        if not consumed:
            return consumed
        held = [*self._shares.get(one.device.id, ())]
        driver, pool, name = one.device.id
        shared = self._holders.of_pool((driver, pool)).shared.get(name)
        if shared:
            held.append(shared)
        return consumed if leaves_room(fields, consumed, *held) else None

    def _take(
        self, claim: int, need: Need, pool: Pool, one: ReachableDevice, consumed: Amounts | None, *, must_be: bool
    ) -> bool:
        """Give the device to the claim, if counters, taints, constraints and, last, capacity allow it; returns whether
        they do. ``consumed`` None: it has not enough room. Raises SearchError."""
        device = one.device
        counts = self._is_counted(one)
        if counts and not self._counters.take(pool, device):
            return False
        if device.fields.taints and not tolerates_all(need.tolerations, device.fields.taints):
            if counts:
                self._counters.give_back(pool, device)
            return False
        if not self._constraints[claim].add(need, device):
            if counts:
                self._counters.give_back(pool, device)
            if must_be:
                raise SearchError(
                    f"claim {self._claims[claim].key}, request {need.own_name}: cannot add device "
                    f"{'/'.join(device.id)} because a claim constraint would not be satisfied"
                )
            return False
        if consumed is None:
            self._constraints[claim].remove(need, device)
            if counts:
                self._counters.give_back(pool, device)
            return False
        if device.fields.allow_multiple_allocations:
            self._shares.setdefault(device.id, []).append(consumed)
            self._chosen[claim].append(Chosen(need, pool.key, one, consumed))
        else:
            self._in_use.setdefault(device.id, []).append(claim)
            self._chosen[claim].append(Chosen(need, pool.key, one, None))
        return True

    def _give_back(self, claim: int, need: Need, pool: Pool, one: ReachableDevice) -> None:
        """Undo the last ``_take``."""
        device = one.device
        self._chosen[claim].pop()
        if device.fields.allow_multiple_allocations:
            shares = self._shares[device.id]
            shares.pop()
            if not shares:
                del self._shares[device.id]
        else:
            used_by = self._in_use[device.id]
            used_by.pop()
            if not used_by:
                del self._in_use[device.id]
        self._constraints[claim].remove(need, device)
        if self._is_counted(one):
            self._counters.give_back(pool, device)

    def _is_counted(self, one: ReachableDevice) -> bool:
        """Whether the device takes from its counters now. Its first share takes for all; the share of another claim
        counts as the first only if it holds some capacity, as in kube-scheduler 1.36."""
        device = one.device
        if not device.consumes:
            return False
        if not device.fields.allow_multiple_allocations:
            return True
        driver, pool, name = device.id
        return device.id not in self._shares and not self._holders.of_pool((driver, pool)).shared.get(name)
