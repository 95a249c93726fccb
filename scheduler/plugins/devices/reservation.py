"""What Reserve sets aside for a pod on its node (docs/kube-scheduler/dra.md §9)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from uuid import UUID, uuid5

from msgspec import Struct

from scheduler.cluster.devices.reserved import ClaimInFlight, SetAside
from scheduler.cluster.devices.special_claims import special_claim_uid
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.errors import SchedulerError
from scheduler.messages.status import Refusal
from scheduler.objects.kinds import Kind
from scheduler.objects.resource_claims import Allocation, ClaimConsumer, ResourceClaim
from scheduler.objects.steps import Pace, Steps, run_to_end
from scheduler.plugins.devices.extended import ExtendedRequests
from scheduler.plugins.devices.one_node import Found, asked_for, find, resources_by_devices
from scheduler.plugins.devices.results import allocation_of
from scheduler.plugins.devices.search import Chosen, Fault
from scheduler.plugins.devices.situation import Situation

_AnyFound = Found | Fault | str

_SHARES = UUID("7be1f3f5-51f1-4b1b-9d55-3e4e31b0ac4f")
"""The namespace of the UUIDs of shares."""


class NothingFound(SchedulerError):
    """The cluster has changed since the filter, and the node can't give what it could."""


class SpecialClaim(Struct, frozen=True):
    """The claim for extended resources that is to be made, or was made by an earlier attempt."""

    requests: ExtendedRequests
    allocation: Allocation
    existing: ResourceClaim | None


class Decision(Struct, frozen=True):
    """What is to be written: claims that get devices now, claims that have theirs, and the special one. ``consumers``:
    claim UID → the consumer that it is reserved for."""

    allocated: tuple[tuple[ResourceClaim, Allocation], ...]
    reserved: tuple[ResourceClaim, ...]
    special: SpecialClaim | None
    consumers: Mapping[str, ClaimConsumer]

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """The allocations of all claims that the pod will have."""
        known = [claim.allocation for claim in self.reserved if claim.allocation is not None]
        special = [self.special.allocation] if self.special is not None else []
        return (*[allocation for _, allocation in self.allocated], *known, *special)


def look_ahead(situation: Situation, pod: PodInfo, view: View, node: str, max_steps: int) -> Steps[None]:
    """Search the node that the pod is about to get, so that ``set_aside`` has the answer."""
    if not situation.searches:
        return
    row = view.devices.row_of(node)
    by_devices = resources_by_devices(situation, view.table, row) if row is not None else None
    if row is None or by_devices is None or isinstance(by_devices, Refusal):
        return
    found = yield from find(asked_for(situation, pod, view, by_devices), view, row, max_steps, Pace())
    view.devices.answers.ahead = _Ahead(_basis(situation, view, row, max_steps), found)


class _Ahead(Struct, frozen=True):
    """What a search has found, and all that it depends on."""

    basis: Hashable
    found: _AnyFound


def _basis(situation: Situation, view: View, row: int, max_steps: int) -> Hashable:
    devices = view.devices
    versions = devices.common_version, int(devices.row_versions()[row]), view.version(Kind.DEVICE_CLASS)
    return situation.shape, max_steps, row, versions


def _found(situation: Situation, pod: PodInfo, view: View, row: int, way: tuple[str, ...], max_steps: int) -> _AnyFound:
    ahead, view.devices.answers.ahead = view.devices.answers.ahead, None
    if isinstance(ahead, _Ahead) and ahead.basis == _basis(situation, view, row, max_steps):
        return ahead.found
    return run_to_end(find(asked_for(situation, pod, view, way), view, row, max_steps, Pace()))


def decide(situation: Situation, pod: PodInfo, view: View, node: str, max_steps: int) -> Decision:
    """The devices for the pod's claims on the node. ``max_steps``: of the search. Raises NothingFound."""
    reserved = tuple([entry.claim for entry in situation.allocated if entry.unwritten is None])
    shared = tuple(
        [
            (entry.unwritten, entry.claim.allocation)
            for entry in situation.allocated
            if entry.unwritten is not None and entry.claim.allocation is not None
        ]
    )
    if not situation.searches:
        return Decision(shared, reserved, None, situation.consumers)
    row = view.devices.row_of(node)
    by_devices = resources_by_devices(situation, view.table, row) if row is not None else None
    if row is None or isinstance(by_devices, Refusal):
        raise NothingFound
    if by_devices is None:
        return Decision(shared, reserved, None, situation.consumers)
    found = _found(situation, pod, view, row, by_devices, max_steps)
    if not isinstance(found, Found):
        raise NothingFound
    uids = [claim.uid for claim in situation.unallocated]
    if found.extended is not None:
        uids.append(special_claim_uid(pod.uid))
    allocations = [
        allocation_of(needs, chosen, node, _numbering(pod, uid))
        for (needs, chosen), uid in zip(found.claims, uids, strict=True)
    ]
    special = None
    if found.extended is not None:
        existing = situation.extended.existing if situation.extended is not None else None
        special = SpecialClaim(found.extended, allocations.pop(), existing)
    allocated = (*shared, *zip(situation.unallocated, allocations, strict=True))
    return Decision(allocated, reserved, special, situation.consumers)


def set_aside(situation: Situation, pod: PodInfo, view: View, node: str, max_steps: int) -> SetAside:
    """What is to be set aside for the pod on the node. ``max_steps``: of the search. Raises NothingFound."""
    decision = decide(situation, pod, view, node, max_steps)
    claims = [ClaimInFlight(claim.uid, claim.key, allocation) for claim, allocation in decision.allocated]
    if decision.special is not None and decision.special.allocation.devices.results:
        claims.append(
            ClaimInFlight(special_claim_uid(pod.uid), f"{pod.key} (extended resources)", decision.special.allocation)
        )
    return SetAside(pod.uid, node, tuple(claims), decision)


def _numbering(pod: PodInfo, claim_uid: str) -> Callable[[Chosen], str]:
    """Makes share ids: UUIDs, the same ones again for the same decision. They do not go by the claim's place among
    those that get devices: another attempt may have another one there, and two claims with one id would count as one
    share."""
    count = 0

    def number(one: Chosen) -> str:
        nonlocal count
        count += 1
        return str(uuid5(_SHARES, f"{pod.uid}/{claim_uid}/{count}/{'/'.join(one.device.device.id)}"))

    return number
