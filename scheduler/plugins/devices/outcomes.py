"""What each node says to a pod's claims, searched once for nodes whose devices look alike."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.cluster.devices.answers import UNKNOWN, NodeAnswers
from scheduler.cluster.devices.facts import Devices
from scheduler.cluster.devices.slices import DeviceId, PoolKey
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.messages.status import Refusal, failure, unresolvable
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.resource_claims import DeviceClaim, DeviceRequest, ResourceClaim, ResourceClaimSpec
from scheduler.plugins.devices.candidates import SearchError
from scheduler.plugins.devices.extended import ExtendedRequests, extended_requests
from scheduler.plugins.devices.holders import NOTHING_HELD, PoolHoldings
from scheduler.plugins.devices.requests import ClaimNeeds, InvalidClaim, needs_of
from scheduler.plugins.devices.search import Chosen, Fault, allocate, no_solution
from scheduler.plugins.devices.shortage import falls_short
from scheduler.plugins.devices.situation import SUBREQUEST_POINTS, ExtendedResources, Situation, placeholder

FEW_ROWS = 16
"""Changed since the last pod of the shape: numpy's sort costs as much as this number of rows one by one."""

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
    """The search has run out of time on this node, which makes the whole attempt an error. Other nodes are not searched
    any more and say the same: each would cost as much, and change nothing."""
    return Outcome(failure(f"node {node}: {Fault.OUT_OF_TIME.value}"), is_recorded=is_searched, is_out_of_time=True)


class Held:
    """Which devices claims hold by now. Of no use any more when a claim has changed."""

    def __init__(self, devices: Devices) -> None:
        self._holdings = (devices.stored, devices.in_flight)
        self._of_pool: dict[PoolKey, PoolHoldings] = {}

    def of_pool(self, pool: PoolKey) -> PoolHoldings:
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


# --- one node ---------------------------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """What is searched for on a node, claim by claim; the claim for extended resources, if any, is last."""

    claims: tuple[ClaimNeeds, ...]
    extended: ExtendedRequests | None


def asked_for(situation: Situation, pod: PodInfo, view: View, by_devices: tuple[str, ...]) -> Asked | str:
    """The same on all nodes with these ``by_devices``: extended resources that are to be given by devices there. A text
    is an error."""
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


def find(asked: Asked | str, view: View, row: int, max_steps: int, held: Held | None = None) -> Found | Fault | str:
    """The search on the node of a row of the cluster; a text is an error. ``held``: as of now, where several rows are
    searched."""
    if isinstance(asked, str):
        return asked
    try:
        chosen = allocate(asked.claims, view.devices.pools(row), held or Held(view.devices), max_steps)
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
    return needs_of(claim, lambda name: view.get(Kind.DEVICE_CLASS, name))


def outcome_of(found: Found | Fault | str) -> Outcome:
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
    answers = devices.answers.of((situation.shape, max_steps))
    stamp = (devices.common_version, view.version(Kind.DEVICE_CLASS), devices.looks_epoch())
    if answers.stamp != stamp:
        answers.reset(stamp)
    if not devices.is_of(table):
        return _one_by_one(situation, pod, view, listed, answers, max_steps)
    answers.grow(table.size)
    versions = devices.row_versions()
    stale = listed[answers.versions[listed] != versions[listed]]
    stale = stale[table.exists[stale]]
    late = answers.late_row(versions) if len(stale) else None
    if late is not None:
        answers.codes[stale] = answers.number(timed_out(table.names[late], is_searched=False))
    elif len(stale):
        searched = _answer(situation, pod, view, stale, answers, max_steps)
        answers.versions[searched] = versions[searched]
    if not answers.outcomes:
        answers.number(FITS)
    return answers.codes[listed], answers.outcomes


def _answer(
    situation: Situation,
    pod: PodInfo,
    view: View,
    rows: npt.NDArray[np.int64],
    answers: NodeAnswers,
    max_steps: int,
) -> npt.NDArray[np.int64]:
    """Put the codes of these rows' outcomes into ``answers``: one search for all rows whose devices look alike, and
    none after one that has run out of time. Returns the rows that were searched."""
    kinds, ways = _ways(situation, view.table, rows)
    looks = view.devices.signatures(rows) * len(ways) + kinds
    shared = _Round(view.devices)

    def code_of(look: int, row: int) -> int:
        signature, kind = divmod(look, len(ways))
        by_devices = ways[kind]
        code = answers.of_signature.get((signature, by_devices))
        if code is None:
            code = bare_code_of(view.devices.bare_signature(signature), row, by_devices)
            if code == UNKNOWN:
                outcome = _outcome(situation, pod, view, row, by_devices, max_steps, shared)
                code = answers.number(timed_out(view.table.names[row]) if outcome.is_out_of_time else outcome)
            answers.of_signature[signature, by_devices] = code
        return code

    def bare_code_of(bare: int, row: int, by_devices: Way) -> int:
        """Where a node lacks devices of the kind that is asked for, it makes no difference which of them are free."""
        code = answers.of_bare.get((bare, by_devices))
        if code is None:
            asked = shared.asked_for(situation, pod, view, by_devices)
            pools, code = view.devices.pools(row), UNKNOWN
            if isinstance(asked, Asked) and falls_short(asked.claims, pools, NOTHING_HELD):
                code = answers.number(outcome_of(no_solution(pools)))
            answers.of_bare[bare, by_devices] = code
        return code

    if len(rows) <= FEW_ROWS:
        first, places = rows, np.arange(len(rows))
        distinct = looks
    else:
        distinct, indices, places = np.unique(looks, return_index=True, return_inverse=True)
        first = rows[indices]
    codes = np.zeros(len(distinct), np.int16)
    for place, (look, row) in enumerate(zip(distinct.tolist(), first.tolist(), strict=True)):
        codes[place] = code = code_of(look, row)
        if answers.outcomes[code].is_out_of_time:
            answers.late[row] = int(view.devices.row_versions()[row])
            codes[place + 1 :] = answers.number(timed_out(view.table.names[row], is_searched=False))
            answers.codes[rows] = codes[places]
            return rows[places <= place]
    answers.codes[rows] = codes[places]
    return rows


class _Round:
    """What the searches of one question share."""

    __slots__ = ("_asked", "held")

    def __init__(self, devices: Devices) -> None:
        self._asked: dict[tuple[str, ...], Asked | str] = {}
        self.held = Held(devices)

    def asked_for(self, situation: Situation, pod: PodInfo, view: View, by_devices: Way) -> Asked | str | None:
        """What is asked for where these resources are given by devices; None where devices have no say."""
        if by_devices is None or isinstance(by_devices, Refusal):
            return None
        found = self._asked.get(by_devices)
        if found is None:
            found = self._asked[by_devices] = asked_for(situation, pod, view, by_devices)
        return found


Way = tuple[str, ...] | Refusal | None
"""An answer of ``resources_by_devices``."""


def _ways(
    situation: Situation, table: NodeTable, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], list[Way]]:
    """``resources_by_devices`` of these rows, as places in the list of different answers."""
    extended = situation.extended
    kinds = np.zeros(len(rows), np.int64)
    if extended is None:
        return kinds, [()]
    # Most clusters have a resource on all of their nodes or on none, and then one row answers for all.
    is_absent = [table.allocatable(name)[rows] == 0 for name in extended.names]
    if all(
        bool(absent.all()) if extended.class_of(name) is not None else not absent.any()
        for name, absent in zip(extended.names, is_absent, strict=True)
    ):
        return kinds, [resources_by_devices(situation, table, int(rows[0]))]
    ways: dict[Way, int] = {}
    for place, row in enumerate(rows.tolist()):
        kinds[place] = ways.setdefault(resources_by_devices(situation, table, row), len(ways))
    return kinds, list(ways)


def _outcome(
    situation: Situation,
    pod: PodInfo,
    view: View,
    row: int,
    by_devices: Way,
    max_steps: int,
    shared: _Round,
) -> Outcome:
    if isinstance(by_devices, Refusal):
        return Outcome(by_devices)
    asked = shared.asked_for(situation, pod, view, by_devices)
    return NOTHING_RECORDED if asked is None else outcome_of(find(asked, view, row, max_steps, shared.held))


def _one_by_one(
    situation: Situation,
    pod: PodInfo,
    view: View,
    listed: npt.NDArray[np.int64],
    answers: NodeAnswers,
    max_steps: int,
) -> tuple[npt.NDArray[np.int16], list[Outcome]]:
    """Where the table is a private one: its rows are found in the cluster by their names."""
    found: list[Outcome] = []
    shared = _Round(view.devices)
    versions = view.devices.row_versions()
    late_row = answers.late_row(versions)
    late = None if late_row is None else timed_out(view.devices.name_of(late_row), is_searched=False)
    for row in listed.tolist():
        own_row = view.devices.row_of(view.table.names[row])
        if own_row is None or view.table.nodes[row] is None:
            found.append(FITS)
            continue
        if late is not None:
            found.append(late)
            continue
        by_devices = resources_by_devices(situation, view.table, row)
        outcome = _outcome(situation, pod, view, own_row, by_devices, max_steps, shared)
        if outcome.is_out_of_time:
            outcome = timed_out(view.table.names[row])
            late = timed_out(view.table.names[row], is_searched=False)
            answers.late[own_row] = int(versions[own_row])
        found.append(outcome)
    return np.arange(len(found), dtype=np.int16), found
