"""What each node says to a pod's claims, searched once for nodes whose devices look alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.cluster.devices.slices import Amounts, DeviceId
from scheduler.messages.status import Refusal, failure, unresolvable
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.resource_claims import DeviceClaim, DeviceRequest, ResourceClaim, ResourceClaimSpec
from scheduler.plugins.devices.candidates import SearchError
from scheduler.plugins.devices.extended import ExtendedRequests, extended_requests
from scheduler.plugins.devices.requests import ClaimNeeds, InvalidClaim, needs_of
from scheduler.plugins.devices.search import Chosen, Fault, allocate
from scheduler.plugins.devices.situation import SUBREQUEST_POINTS, Situation, placeholder

if TYPE_CHECKING:
    from scheduler.cluster.devices.facts import Devices
    from scheduler.cluster.pod_info import PodInfo
    from scheduler.cluster.table import NodeTable
    from scheduler.cluster.view import View

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


class Held:
    """Which devices claims hold by now."""

    def __init__(self, devices: Devices) -> None:
        self._holdings = (devices.stored, devices.in_flight)

    def is_taken(self, device: DeviceId) -> bool:
        driver, pool, name = device
        return any(name in holdings.taken_in((driver, pool)) for holdings in self._holdings)

    def shared(self, device: DeviceId) -> Amounts | None:
        driver, pool, name = device
        total: Amounts | None = None
        for holdings in self._holdings:
            shares = holdings.shares_in((driver, pool)).get(name)
            for amounts in shares.values() if shares else ():
                total = dict(total or {})
                for capacity, amount in amounts.items():
                    total[capacity] = total.get(capacity, 0) + amount
        return total

    def holder(self, device: DeviceId) -> str:
        """Who has all of it, for people; "" if nobody."""
        driver, pool, name = device
        return next((found for one in self._holdings if (found := one.taken_in((driver, pool)).get(name))), "")

    def is_consuming(self, device: DeviceId) -> bool:
        return self.is_taken(device) or self.shared(device) is not None


# --- one node ---------------------------------------------------------------------------------------------------------


def find(
    situation: Situation, pod: PodInfo, view: View, row: int, by_devices: tuple[str, ...], max_steps: int
) -> Found | Fault | str:
    """The search on the node of a row of the cluster; a text is an error. ``by_devices``: extended resources that are
    to be given by devices there."""
    if situation.fault:
        return situation.fault
    claims = list(situation.waiting)
    extended = None
    if situation.extended is not None and (by_devices or claims or situation.allocated):
        classes = [(name, situation.extended.class_of(name) or "") for name in by_devices]
        extended = extended_requests(pod.pod, classes)
        try:
            claims.append(_special_needs(extended.requests, len(claims), view))
        except InvalidClaim as error:
            return str(error)
    try:
        chosen = allocate(tuple(claims), view.devices.pools(row), Held(view.devices), max_steps)
    except SearchError as error:
        return str(error)
    if isinstance(chosen, Fault):
        return chosen
    return Found(tuple(zip(claims, chosen, strict=True)), extended)


def _special_needs(requests: tuple[DeviceRequest, ...], number: int, view: View) -> ClaimNeeds:
    claim = ResourceClaim(
        metadata=ObjectMeta(name=placeholder(number)),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)),
    )
    return needs_of(claim, lambda name: view.get(Kind.DEVICE_CLASS, name))


def outcome_of(found: Found | Fault | str) -> Outcome:
    if isinstance(found, str):
        return Outcome(failure(found))
    if isinstance(found, Fault):
        if found is Fault.OUT_OF_TIME:
            return Outcome(failure(found.value), is_out_of_time=True)
        return Outcome(NO_SOLUTION if found is Fault.NONE_FITS else INVALID_POOLS)
    points = 0
    for claim, chosen in found.claims:
        used = {one.need.name for one in chosen}
        for request in claim.requests:
            if request.is_ranked:
                place = next(place for place, need in enumerate(request.alternatives) if need.name in used)
                points += SUBREQUEST_POINTS - place
    return Outcome(points=points) if points else FITS


# --- all nodes --------------------------------------------------------------------------------------------------------


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


def outcomes(
    situation: Situation, pod: PodInfo, view: View, listed: npt.NDArray[np.int64], max_steps: int
) -> tuple[npt.NDArray[np.int16], list[Outcome]]:
    """By row asked the place of its outcome in the list."""
    devices, table = view.devices, view.table
    devices.catch_up()
    if not devices.is_of(table):
        return _one_by_one(situation, pod, view, listed, max_steps)
    answers = devices.answers.of((situation.shape, max_steps))
    stamp = (devices.common_version, view.version(Kind.DEVICE_CLASS))
    if answers.stamp != stamp:
        answers.reset(stamp)
    answers.grow(table.size)
    versions = devices.row_versions(table.size)[: table.size]
    stale = listed[answers.versions[listed] != versions[listed]]
    for row in stale.tolist():
        if table.nodes[row] is None:
            continue
        by_devices = resources_by_devices(situation, table, row)
        look = (devices.signature(row), by_devices)
        if devices.common_version != stamp[0]:
            # Signatures are numbered again: start again, too.
            return outcomes(situation, pod, view, listed, max_steps)
        code = answers.of_signature.get(look)
        if code is None:
            outcome = _outcome(situation, pod, view, row, by_devices, max_steps)
            code = answers.of_signature[look] = answers.number(outcome)
        answers.codes[row] = code
        answers.versions[row] = versions[row]
    if not answers.outcomes:
        answers.number(FITS)
    return answers.codes[listed], answers.outcomes


def _outcome(
    situation: Situation,
    pod: PodInfo,
    view: View,
    row: int,
    by_devices: tuple[str, ...] | Refusal | None,
    max_steps: int,
) -> Outcome:
    if isinstance(by_devices, Refusal):
        return Outcome(by_devices)
    if by_devices is None:
        return NOTHING_RECORDED
    return outcome_of(find(situation, pod, view, row, by_devices, max_steps))


def _one_by_one(
    situation: Situation, pod: PodInfo, view: View, listed: npt.NDArray[np.int64], max_steps: int
) -> tuple[npt.NDArray[np.int16], list[Outcome]]:
    """Where the table is a private one: its rows are found in the cluster by their names."""
    found: list[Outcome] = []
    for row in listed.tolist():
        own_row = view.devices.row_of(view.table.names[row])
        if own_row is None or view.table.nodes[row] is None:
            found.append(FITS)
            continue
        by_devices = resources_by_devices(situation, view.table, row)
        found.append(_outcome(situation, pod, view, own_row, by_devices, max_steps))
    return np.arange(len(found), dtype=np.int16), found
