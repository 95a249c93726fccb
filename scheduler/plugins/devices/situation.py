"""What one attempt at a pod has to do with devices, worked out once in PreFilter (docs/kube-scheduler/dra.md §4)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import msgspec
from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import State
from scheduler.messages.status import Refusal, failure, unresolvable
from scheduler.objects.devices import DeviceClass
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import controller_of
from scheduler.objects.node_selectors import NodeSelector, parse_node_selector
from scheduler.objects.pod import Container
from scheduler.objects.resource_claims import EXTENDED_RESOURCE_CLAIM_ANNOTATION, ClaimConsumer, ResourceClaim
from scheduler.plugins.devices.claims import claims_of, consumer_of, group_with_claims, used_claims
from scheduler.plugins.devices.extended import SPECIAL_CLAIM_NAME, may_be_mapped
from scheduler.plugins.devices.requests import ClaimNeeds, InvalidClaim, needs_of

SUBREQUEST_POINTS = 8
"""Points of the first alternative; each further one is worth one less."""


class AllocatedClaim(Struct, frozen=True):
    claim: ResourceClaim
    selector: NodeSelector | None
    """The nodes where its devices can be used; None: everywhere."""
    unwritten: ResourceClaim | None = None
    """The claim as it is stored, where its devices are being written for another pod of the same group."""


class ExtendedResources(Struct, frozen=True):
    """Extended resources of the pod that some class stands for, and the others that it asks for."""

    names: tuple[str, ...]
    """All that the pod requests, sorted."""
    classes: tuple[tuple[str, str], ...]
    """(resource, class), of those that are mapped."""
    existing: ResourceClaim | None
    """The claim that an earlier attempt left."""

    def class_of(self, name: str) -> str | None:
        return dict(self.classes).get(name)


class Situation(Struct, State, frozen=True):
    """Claims in the pod's order. ``waiting`` are to be allocated, as the search takes them: under made-up names, which
    pods of one template share; ``fault`` is why they can't be (under the same names)."""

    claims: tuple[ResourceClaim, ...]
    consumers: Mapping[str, ClaimConsumer]
    """Claim UID → the consumer that it is to be reserved for."""
    allocated: tuple[AllocatedClaim, ...]
    unallocated: tuple[ResourceClaim, ...]
    waiting: tuple[ClaimNeeds, ...]
    fault: str
    extended: ExtendedResources | None
    shape: Hashable
    """Equal for pods that any node answers alike."""

    @property
    def searches(self) -> bool:
        return bool(self.unallocated) or self.extended is not None

    def named(self, text: str) -> str:
        """A text of the search with the claims' own names."""
        for number, claim in enumerate(self.unallocated):
            text = text.replace(placeholder(number), claim.key)
        return text

    @property
    def allocated_points(self) -> int:
        """What the claims that have their devices add to every node's score."""
        return sum(_points(entry.claim) for entry in self.allocated)


def placeholder(number: int) -> str:
    return f"\x00{number}\x00"


def situation_of(pod: PodInfo, view: View) -> Situation | Refusal | None:
    """What an attempt at the pod has to do with devices; None if nothing, a Refusal if the pod can't be tried."""
    used = used_claims(pod, view.groups, lambda key: view.find(ResourceClaim, key))
    if isinstance(used, str):
        return unresolvable(used)
    extended = _extended_of(pod, view)
    if not used and extended is None:
        return None
    group = group_with_claims(pod, view.groups)
    if isinstance(group, str):
        return unresolvable(group)
    consumers = {one.claim.uid: consumer_of(one, pod, group) for one in used}
    claims = tuple([one.claim for one in used])
    allocated, unallocated = [], []
    for claim in claims:
        if claim.allocation is not None:
            written = claim.allocation.node_selector
            allocated.append(AllocatedClaim(claim, parse_node_selector(written) if written is not None else None))
            continue
        holders = view.devices.pods_with_claim_in_flight(claim.uid)
        if holders is not None and holders != (pod.uid,):
            shared = _shared(claim, holders, pod, view)
            if shared is None:
                return unresolvable(f"resource claim {claim.key} is in the process of being allocated")
            allocated.append(shared)
            continue
        problem = _class_problem(claim, view)
        if problem is not None:
            return problem
        unallocated.append(claim)
    specs = tuple([_spec_of(claim) for claim in unallocated])
    waiting, fault = _waiting(unallocated, specs, view)
    shape = (
        specs,
        (extended.names, extended.classes, extended.existing is not None, _asked(pod)) if extended else None,
    )
    return Situation(claims, consumers, tuple(allocated), tuple(unallocated), waiting, fault, extended, shape)


def _shared(claim: ResourceClaim, holders: tuple[str, ...], pod: PodInfo, view: View) -> AllocatedClaim | None:
    """The claim with the devices that it is about to get for pods of the same group; None if another pod gets them."""
    key = view.groups.key_of(pod)
    allocation = view.devices.allocation_in_flight(claim.uid)
    if not key or not holders or allocation is None:
        return None
    siblings = view.groups.members(key).placed
    if not all(uid in siblings for uid in holders if uid != pod.uid):
        return None
    as_written = msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, allocation=allocation))
    written = allocation.node_selector
    return AllocatedClaim(as_written, parse_node_selector(written) if written is not None else None, unwritten=claim)


def is_ranked(pod: PodInfo, view: View) -> bool:
    """Whether nodes may score differently: some request of the pod's claims has alternatives."""
    claims = claims_of(pod, view.groups, lambda key: view.find(ResourceClaim, key))
    return not isinstance(claims, str) and any(
        request.first_available for claim in claims for request in claim.spec.devices.requests
    )


def _waiting(claims: list[ResourceClaim], specs: tuple[bytes, ...], view: View) -> tuple[tuple[ClaimNeeds, ...], str]:
    """Pods of one template ask for the same, so what was worked out for one holds for all."""
    version = view.version(Kind.DEVICE_CLASS)
    found: tuple[tuple[ClaimNeeds, ...], str] | None = view.devices.needs.get(version, specs)
    if found is None:
        found = _needs_of_all(claims, lambda name: view.find(DeviceClass, name))
        view.devices.needs.put(specs, found)
    return found


def _needs_of_all(
    claims: list[ResourceClaim], find_class: Callable[[str], DeviceClass | None]
) -> tuple[tuple[ClaimNeeds, ...], str]:
    waiting = []
    for number, claim in enumerate(claims):
        alias = msgspec.structs.replace(
            claim, metadata=msgspec.structs.replace(claim.metadata, namespace="", name=placeholder(number))
        )
        try:
            waiting.append(needs_of(alias, find_class))
        except InvalidClaim as error:
            return tuple(waiting), str(error)
    return tuple(waiting), ""


def _class_problem(claim: ResourceClaim, view: View) -> Refusal | None:
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            asked = [(request.name, request.exactly.device_class_name)]
        elif request.first_available:
            asked = [(f"{request.name}/{one.name}", one.device_class_name) for one in request.first_available]
        else:
            return unresolvable(f"resource claim {claim.key}, request {request.name}: unknown request type")
        for name, device_class in asked:
            if not device_class:
                return failure(f"request {name}: unsupported request type")
            if view.find(DeviceClass, device_class) is None:
                return unresolvable(f"request {name}: device class {device_class} does not exist")
    return None


def _spec_of(claim: ResourceClaim) -> bytes:
    return msgspec.json.encode(claim.spec)


def _points(claim: ResourceClaim) -> int:
    """By the alternatives that an allocation was made with."""
    results = claim.allocation.devices.results if claim.allocation is not None else ()
    used = {result.request for result in results}
    points = 0
    for request in claim.spec.devices.requests:
        for place, one in enumerate(request.first_available):
            if f"{request.name}/{one.name}" in used:
                points += SUBREQUEST_POINTS - place
    return points


# --- extended resources -----------------------------------------------------------------------------------------------


def _extended_of(pod: PodInfo, view: View) -> ExtendedResources | None:
    scalars = pod.requests.scalars
    if not scalars:
        return None
    classes = view.devices.classes
    if not classes.mapped(scalars):
        return None
    names = tuple(sorted([name for name, amount in scalars.items() if amount and may_be_mapped(name)]))
    mapped = tuple([(name, found) for name in names if (found := classes.get(name)) is not None])
    if not mapped:
        return None
    return ExtendedResources(names, mapped, _existing_claim(pod, view))


def _existing_claim(pod: PodInfo, view: View) -> ResourceClaim | None:
    for claim in view.devices.special_claims_of(pod.uid):
        owner = controller_of(claim.metadata)
        is_own = owner is not None and owner.uid == pod.uid and owner.name == pod.name
        if (
            is_own
            and claim.namespace == pod.namespace
            and claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true"
        ):
            return claim
    return None


def _asked(pod: PodInfo) -> Hashable:
    """What the containers ask for, by their order."""

    def of(containers: tuple[Container, ...]) -> Hashable:
        return tuple([(one.name, one.is_sidecar, tuple(sorted(one.resources.requests.items()))) for one in containers])

    return of(pod.pod.spec.init_containers), of(pod.pod.spec.containers)


def special_claim_key(pod: PodInfo) -> str:
    return f"{pod.namespace}/{SPECIAL_CLAIM_NAME}"
