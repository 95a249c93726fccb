"""What is written before a pod with devices is bound, what is waited for, and what undoes it.

Source: docs/kube-scheduler/dra.md §9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.cluster.groups.facts import Groups
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import PreFlight, Waiting
from scheduler.messages.claim_commands import (
    ClaimCommand,
    CreateClaim,
    DeleteClaim,
    ReserveClaim,
    UnreserveClaim,
)
from scheduler.messages.references import ClaimReference, PodReference
from scheduler.messages.status import SKIP, Refusal, Skip, failure
from scheduler.objects.resource_claims import Allocation, ClaimConsumer, ResourceClaim
from scheduler.plugins.devices.allocated import Readiness, has_conditions, is_late, readiness
from scheduler.plugins.devices.claims import is_reserved, pod_consumer
from scheduler.plugins.devices.reservation import Decision
from scheduler.plugins.devices.situation import special_claim_key

FAILED = "device binding failed"
TIMEOUT = "device binding timeout"
ENDINGS = ((FAILED, "failure"), (TIMEOUT, "timeout"))


def pre_flight(decision: Decision, pod: PodInfo, groups: Groups, binding_seconds: float) -> PreFlight | Skip:
    """Reserve every claim for the pod or its group, with its devices where it gets them now."""
    reference = PodReference(pod.namespace, pod.name, pod.uid)
    writes: list[ReserveClaim | CreateClaim] = [
        _reserve(claim, decision.consumers[claim.uid], allocation) for claim, allocation in decision.allocated
    ]
    writes += [
        _reserve(claim, decision.consumers[claim.uid], None)
        for claim in decision.reserved
        if not is_reserved(claim, pod, groups)
    ]
    special = decision.special
    if special is not None and special.requests.requests:
        writes.append(
            CreateClaim(
                0,
                ClaimReference(pod.namespace, "", ""),
                reference,
                special.allocation,
                special.requests.requests,
                special.requests.mappings,
                pod.node_name if pod.pod.status.nominated_node_name != pod.node_name else "",
            )
        )
    allocations = decision.allocations
    waits = any(has_conditions(allocation) for allocation in allocations)
    if not writes and not waits:
        return SKIP
    return PreFlight(
        is_parallel=True,
        writes=tuple(writes),
        wait_seconds=binding_seconds,
        asks_at_once=True,
        doing=TIMEOUT,
        waiting=_waiting(allocations, pod.node_name) if waits else None,
    )


def _waiting(allocations: tuple[Allocation, ...], node: str) -> Waiting:
    results = [result for allocation in allocations for result in allocation.devices.results]
    return Waiting(
        reason="BindingConditionsPending",
        note=f"waiting for binding conditions for device on node {node}",
        drivers=tuple([result.driver for result in results]),
        awaited=tuple([result.driver for result in results if result.binding_conditions]),
        endings=ENDINGS,
    )


def _reserve(claim: ResourceClaim, consumer: ClaimConsumer, allocation: Allocation | None) -> ReserveClaim:
    return ReserveClaim(0, ClaimReference(claim.namespace, claim.name, claim.uid), consumer, claim, allocation)


def progress(
    known: Iterable[ResourceClaim], decision: Decision | None, pod: PodInfo, view: View, timeout_nanoseconds: int
) -> bool | Refusal:
    """Whether all devices with binding conditions are ready; a Refusal if one failed or was not ready in time. The
    first claim that is not ready decides, as in kube-scheduler 1.36. ``known``: the pod's claims as they were when it
    was tried; one that has lost its devices since then is not ready."""
    if decision is not None and not _wait(known, decision, view):
        return True
    for claim in _as_they_are(known, decision, pod, view):
        if isinstance(claim, str):
            return failure(f'could not find ResourceClaim "{claim}"')
        allocation = claim.allocation
        if allocation is None:
            return False
        state, failed = readiness(claim, allocation)
        if failed is not None:
            return failure(f'{FAILED}: claim={claim.name}, reason={failed.reason}, message="{failed.message}"')
        if state is Readiness.WAITING:
            if is_late(allocation, timeout_nanoseconds, view.devices.now_nanoseconds):
                return failure(f"{TIMEOUT}: claim={claim.name}")
            return False
    return True


def _wait(known: Iterable[ResourceClaim], decision: Decision, view: View) -> bool:
    """Whether there is something to wait for: with the devices that were decided, or with others that a claim has got
    since then and is reserved with. A claim that had devices and has none is waited for until it has some."""
    if any(map(has_conditions, decision.allocations)):
        return True
    for one in known:
        now = view.find(ResourceClaim, one.key)
        has, had = (None, None) if now is None else (now.allocation, one.allocation)
        if (had is not None and has is None) or (has is not None and has_conditions(has)):
            return True
    return False


def _as_they_are(
    known: Iterable[ResourceClaim], decision: Decision | None, pod: PodInfo, view: View
) -> Iterator[ResourceClaim | str]:
    """The pod's claims as they are by now, one that is gone by its key; the claim that was made for the pod is last."""
    for one in known:
        yield view.find(ResourceClaim, one.key) or one.key
    made = view.devices.special_claims_of(pod.uid)
    yield from made
    if not made and decision is not None and decision.special is not None and decision.special.requests.requests:
        yield special_claim_key(pod)


def release_writes(claims: Iterable[ResourceClaim], pod: PodInfo, view: View) -> tuple[ClaimCommand, ...]:
    """The pod is not coming: its claims keep their devices, but are not reserved for it any more; the claim that the
    scheduler made goes. ``claims``: as they were when the pod was tried; what became of one leaves the others alone."""
    writes: list[ClaimCommand] = []
    for known in claims:
        claim = view.find(ResourceClaim, known.key)
        if claim is None or claim.uid != known.uid:
            continue
        if claim.allocation is not None and claim.is_reserved_for(pod.uid):
            writes.append(UnreserveClaim(0, ClaimReference(claim.namespace, claim.name, claim.uid), pod_consumer(pod)))
    for claim in view.devices.special_claims_of(pod.uid):
        writes.append(DeleteClaim(0, ClaimReference(claim.namespace, claim.name, claim.uid)))
    return tuple(writes)
