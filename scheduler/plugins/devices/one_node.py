"""What the node of one row says to a pod's claims, and which devices the pod would get there."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.cluster.devices.facts import Devices
from scheduler.cluster.devices.slices import DeviceId, PoolKey
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.messages.status import Refusal, failure, unresolvable
from scheduler.objects.devices import DeviceClass
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.resource_claims import DeviceClaim, DeviceRequest, ResourceClaim, ResourceClaimSpec
from scheduler.objects.steps import Pace, Steps
from scheduler.plugins.devices.candidates import SearchError
from scheduler.plugins.devices.extended import ExtendedRequests, extended_requests
from scheduler.plugins.devices.holders import PoolHoldings
from scheduler.plugins.devices.requests import ClaimNeeds, InvalidClaim, needs_of
from scheduler.plugins.devices.search import Chosen, Fault, allocate
from scheduler.plugins.devices.situation import SUBREQUEST_POINTS, ExtendedResources, Situation, placeholder

CANNOT_SCHEDULE_EXTENDED = unresolvable("cannot schedule extended resource claim")
CANNOT_FIT = unresolvable("cannot fit resource")
NO_SOLUTION = unresolvable(Fault.NONE_FITS.value)
INVALID_POOLS = unresolvable(Fault.INVALID_POOLS.value)


class Outcome(NamedTuple):
    """``refusal`` None: the node can give what is asked for. Claims have made-up names in it."""

    refusal: Refusal | None = None
    points: int = 0
    is_recorded: bool = True
    """False where there was nothing to be allocated."""
    is_out_of_time: bool = False


class Found(NamedTuple):
    """What the pod would get on a node, claim by claim; the one for extended resources, if any, is last."""

    claims: tuple[tuple[ClaimNeeds, tuple[Chosen, ...]], ...]
    extended: ExtendedRequests | None


FITS = Outcome()
NOTHING_RECORDED = Outcome(is_recorded=False)
OUT_OF_TIME = Outcome(failure(Fault.OUT_OF_TIME.value), is_out_of_time=True)


def timed_out(node: str, *, is_searched: bool = True) -> Outcome:
    """The refusal where the search has run out of time on this node, which makes the whole attempt an error. Other
    nodes are not searched any more and get the same refusal: each would cost as much, and change nothing."""
    return Outcome(failure(f"node {node}: {Fault.OUT_OF_TIME.value}"), is_recorded=is_searched, is_out_of_time=True)


class Held:
    """The devices that claims hold. No longer valid when a claim has changed."""

    def __init__(self, devices: Devices) -> None:
        self._holdings = (devices.stored, devices.in_flight)
        self._of_pool: dict[PoolKey, PoolHoldings] = {}

    def of_pool(self, pool: PoolKey) -> PoolHoldings:
        """What claims hold of this pool, stored or in flight."""
        found = self._of_pool.get(pool)
        if found is None:
            taken, others = (holdings.taken_in(pool) for holdings in self._holdings)
            found = PoolHoldings(taken.keys() | others.keys() if taken and others else taken or others, {})
            for holdings in self._holdings:
                for device, shares in holdings.shares_in(pool).items():
                    total = found.shared.setdefault(device, {})
                    for amounts in shares.values():
                        for capacity, amount in amounts.items():
                            total[capacity] = total.get(capacity, 0) + amount
            self._of_pool[pool] = found
        return found

    def holder(self, device: DeviceId) -> str:
        """The claim and pods that have all of it, for people; "" if it is free."""
        driver, pool, name = device
        return next((found for one in self._holdings if (found := one.taken_in((driver, pool)).get(name))), "")


class Asked(NamedTuple):
    """What is searched for on a node, claim by claim; the claim for extended resources, if any, is last."""

    claims: tuple[ClaimNeeds, ...]
    extended: ExtendedRequests | None


def asked_for(situation: Situation, pod: PodInfo, view: View, by_devices: tuple[str, ...]) -> Asked | str:
    """The devices to be searched for, the same on all nodes with these ``by_devices``: extended resources that devices
    must give there. A text is an error."""
    if situation.fault:
        return situation.fault
    if situation.extended is None or not (by_devices or situation.claims):
        return Asked(situation.waiting, None)
    # Pods of one template ask for the same, so what was worked out for one holds for all.
    key = situation.shape, by_devices
    found: Asked | str | None = view.devices.needs.get(view.version(Kind.DEVICE_CLASS), key)
    if found is None:
        found = _with_extended(situation, situation.extended, pod, view, by_devices)
        view.devices.needs.put(key, found)
    return found


def _with_extended(
    situation: Situation, resources: ExtendedResources, pod: PodInfo, view: View, by_devices: tuple[str, ...]
) -> Asked | str:
    classes = [(name, resources.class_of(name) or "") for name in by_devices]
    extended = extended_requests(pod.pod, classes)
    try:
        special = _special_needs(extended.requests, len(situation.waiting), view)
    except InvalidClaim as error:
        return str(error)
    return Asked((*situation.waiting, special), extended)


def find(
    asked: Asked | str, view: View, row: int, max_steps: int, pace: Pace, held: Held | None = None
) -> Steps[Found | Fault | str]:
    """The result of the search on the node of a row of the cluster; a text is an error. ``held``: the present state,
    where several rows are searched."""
    if isinstance(asked, str):
        return asked
    try:
        chosen = yield from allocate(asked.claims, view.devices.pools(row), held or Held(view.devices), max_steps, pace)
    except SearchError as error:
        return str(error)
    if isinstance(chosen, Fault):
        return chosen
    return Found(tuple(zip(asked.claims, chosen, strict=True)), asked.extended)


def _special_needs(requests: tuple[DeviceRequest, ...], number: int, view: View) -> ClaimNeeds:
    claim = ResourceClaim(
        metadata=ObjectMeta(name=placeholder(number)),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)),
    )
    return needs_of(claim, lambda name: view.find(DeviceClass, name))


def outcome_of(found: Found | Fault | str) -> Outcome:
    """The outcome for what a search has found, with the points of the alternatives that were chosen."""
    if isinstance(found, str):
        return Outcome(failure(found))
    if isinstance(found, Fault):
        if found is Fault.OUT_OF_TIME:
            return OUT_OF_TIME
        return Outcome(NO_SOLUTION if found is Fault.NONE_FITS else INVALID_POOLS)
    points = 0
    for claim, chosen in found.claims:
        used = {one.need.name for one in chosen}
        for request in claim.requests:
            if request.is_ranked:
                place = next(place for place, need in enumerate(request.alternatives) if need.name in used)
                points += SUBREQUEST_POINTS - place
    return Outcome(points=points) if points else FITS


def resources_by_devices(situation: Situation, table: NodeTable, row: int) -> tuple[str, ...] | Refusal | None:
    """Which extended resources devices must give on a row; None: the node gives all of them itself."""
    if situation.extended is None:
        return ()
    if situation.extended.existing is not None and situation.extended.existing.spec.devices.requests:
        return CANNOT_SCHEDULE_EXTENDED
    found = []
    for name in situation.extended.names:
        if table.allocatable(name).item(row):
            continue
        if situation.extended.class_of(name) is not None:
            found.append(name)
            continue
        node = table.nodes[row]
        if node is None or name not in node.status.allocatable:
            # A resource of which the node has 0 is full rather than absent.
            return CANNOT_FIT
    if not found and not situation.claims:
        return None
    return tuple(found)


Way = tuple[str, ...] | Refusal | None
"""An answer of ``resources_by_devices``."""
