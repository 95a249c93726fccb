"""The requests that reserve a claim for a pod, one after the other, without a task where each is answered with a
success (docs/kube-scheduler/dra.md §9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from scheduler.controller.write.begun import BegunWrite, WriteEnd
from scheduler.controller.write.binary import field, integer
from scheduler.controller.write.client import JSON_PATCH, MERGE_PATCH, ApiClient
from scheduler.controller.write.direct import Outgoing
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.http_exchange import Answer
from scheduler.errors import ApiError, InvalidObject
from scheduler.messages.claim_commands import ReserveClaim
from scheduler.messages.references import ClaimReference
from scheduler.objects.devices import DeviceConfiguration
from scheduler.objects.kinds import Kind, decode_as
from scheduler.objects.resource_claims import (
    CLAIM_FINALIZER,
    AllocatedConfiguration,
    Allocation,
    ClaimConsumer,
    ResourceClaim,
)
from scheduler.objects.timestamps import parse_time

DECIDED: Final = "NoLongerHolds"
"""The reason of an error that no retry can resolve."""
FINALIZED: Final = field(1, field(14, CLAIM_FINALIZER))
"""In binary form: a finalizer more."""

_encode = msgspec.json.Encoder().encode


class ClaimPatch(Struct, frozen=True):
    """A patch of this version of the claim. ``addition`` is what it adds, in binary form, for claims that JSON would
    damage; b"" where it is known to damage none."""

    doing: str
    claim: ResourceClaim
    subresource: str
    body: bytes
    addition: bytes = b""
    content_type: str = MERGE_PATCH

    @property
    def is_last(self) -> bool:
        """Whether the claim is reserved once it is written."""
        return bool(self.subresource)

    def worded(self, error: ApiError) -> ApiError:
        """The error of its answer, which says what was being done."""
        return ApiError(error.status, error.reason, f"{self.doing}: {error}", retry_after=error.retry_after)


def next_write(
    command: ReserveClaim, claim: ResourceClaim, wall_time: Callable[[], str], before: ClaimPatch | None = None
) -> ClaimPatch | None:
    """What is to be written next; None where the claim is reserved as it is. ``before``: what the claim is the answer
    of, so that a finalizer that is taken away again is written once. Raises ApiError where the decision does not hold
    for the claim any more."""
    if before is not None and before.is_last:
        return None
    key = command.claim.key
    if claim.is_terminating:
        raise ApiError(409, DECIDED, f"claim {key} got deleted in the meantime")
    allocation, decided = claim.allocation, command.allocation
    if decided is None and allocation is None:
        raise ApiError(409, DECIDED, f"claim {key} got deallocated elsewhere in the meantime")
    if decided is not None and allocation is not None and not _is_same(allocation, decided):
        raise ApiError(409, DECIDED, f"claim {key} got allocated elsewhere in the meantime")
    if claim.is_reserved_for(command.consumer.uid) and allocation is not None:
        return None
    if before is None and decided is not None and CLAIM_FINALIZER not in claim.metadata.finalizers:
        return _finalizing(command, claim)
    return _reserving(command, claim, wall_time)


class _Version(Struct, frozen=True, rename="camel"):
    """Of which claim and version a patch is; the finalizers are written where they are given."""

    uid: str
    resource_version: str
    finalizers: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class _NewTime(Struct, frozen=True, rename="camel"):
    allocation_timestamp: str


class _Reserved(Struct, frozen=True, rename="camel"):
    reserved_for: tuple[ClaimConsumer, ...]
    allocation: Allocation | _NewTime | msgspec.UnsetType = msgspec.UNSET


class _Patch(Struct, frozen=True):
    metadata: _Version
    status: _Reserved | msgspec.UnsetType = msgspec.UNSET


class _Operation(Struct, frozen=True):
    """One operation of a JSON patch."""

    path: str
    value: str | _Reserved
    op: str = "add"


def _finalizing(command: ReserveClaim, claim: ResourceClaim) -> ClaimPatch:
    finalizers = (*claim.metadata.finalizers, CLAIM_FINALIZER)
    body = _encode(_Patch(_Version(command.claim.uid, claim.resource_version, finalizers)))
    addition = FINALIZED if _has_parameters(claim.spec.devices.config) else b""
    return ClaimPatch(f"add finalizer to claim {command.claim.key}", claim, "", body, addition)


def _reserving(command: ReserveClaim, claim: ResourceClaim, wall_time: Callable[[], str]) -> ClaimPatch:
    others = [one for one in claim.status.reserved_for if one.uid != command.consumer.uid]
    status = _Reserved((*others, command.consumer))
    allocation, addition = claim.allocation, b""
    if allocation is None:
        assert command.allocation is not None
        # The timestamp is when drivers' time to prepare the devices begins.
        status = replace(status, allocation=replace(command.allocation, allocation_timestamp=wall_time()))
    elif allocation.allocation_timestamp is None:
        # Only the timestamp is patched: the allocation may have fields that are not read here.
        status = replace(status, allocation=_NewTime(wall_time()))
    if allocation is not None and _has_parameters(allocation.devices.config):
        addition = _addition(allocation, command.consumer, wall_time)
    what = "add reservation" if command.allocation is None else "add allocation and reservation"
    doing, version = f"{what} to claim {command.claim.key}", _Version(command.claim.uid, claim.resource_version)
    if allocation is None and command.allocation is not None and _has_nulls(command.allocation.devices.config):
        # A merge patch would remove the nulls from the parameters. Without an allocation the status held nothing else.
        return ClaimPatch(doing, claim, "/status", _operations(version, status), content_type=JSON_PATCH)
    return ClaimPatch(doing, claim, "/status", _encode(_Patch(version, status)), addition)


def _operations(version: _Version, status: _Reserved) -> bytes:
    """The same as a JSON patch."""
    return _encode(
        [
            _Operation("/metadata/uid", version.uid),
            _Operation("/metadata/resourceVersion", version.resource_version),
            _Operation("/status", status),
        ]
    )


def _addition(allocation: Allocation, consumer: ClaimConsumer, wall_time: Callable[[], str]) -> bytes:
    """What reserves an allocated claim, in binary form."""
    texts = {1: consumer.api_group, 3: consumer.resource, 4: consumer.name, 5: consumer.uid}
    status = field(2, b"".join([field(number, text) for number, text in texts.items() if text]))
    if allocation.allocation_timestamp is None:
        seconds = parse_time(wall_time()) // 10**9
        status += field(1, field(5, integer(1, seconds)))
    return field(3, status)


def _is_same(written: Allocation, decided: Allocation) -> bool:
    """Whether the claim has got the devices that were decided on, to be used on the same nodes: a pod that shares it
    was quicker to write them, or an earlier attempt has written them for this pod."""
    return written.node_selector == decided.node_selector and _devices(written) == _devices(decided)


def _devices(allocation: Allocation) -> list[tuple[str, tuple[str, str, str], str | None, bool]]:
    results = allocation.devices.results
    return [(one.request, one.device_id, one.share_id, one.admin_access) for one in results]


def _has_parameters(config: Iterable[DeviceConfiguration | AllocatedConfiguration]) -> bool:
    """Whether drivers' parameters are in it."""
    return any(one.opaque is not None for one in config)


def _has_nulls(config: Iterable[AllocatedConfiguration]) -> bool:
    """Whether drivers' parameters say null anywhere."""
    left: list[object] = [one.opaque for one in config if one.opaque is not None]
    while left:
        value = left.pop()
        if value is None:
            return True
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
    return False


def claim_in(body: bytes) -> ResourceClaim:
    """The claim in an answer. Raises ApiError for an answer that is none: what was asked for may have been done."""
    try:
        return decode_as(ResourceClaim, body)
    except InvalidObject as error:
        raise ApiError(0, "NoAnswer", str(error)) from error


def path_of(claim: ClaimReference) -> str:
    return Kind.RESOURCE_CLAIM.entry.object_path(claim.name, claim.namespace)


# --- sending ----------------------------------------------------------------------------------------------------------


class Unfinished(Struct, frozen=True):
    """Where a reservation came to an error: the patch that was refused, None before the first."""

    error: Exception
    patch: ClaimPatch | None = None


ReservationEnd = ResourceClaim | Unfinished


class Reservation:
    """A claim that is being reserved. ``on_end`` gets the claim as it is then, or what stopped it, once and perhaps
    before ``begin`` returns; nothing more after ``cancel``."""

    __slots__ = ("_client", "_command", "_current", "_departure", "_on_end", "_seconds", "_wall_time")

    def __init__(
        self,
        client: ApiClient,
        command: ReserveClaim,
        departure: Departure,
        seconds: float,
        wall_time: Callable[[], str],
        on_end: Callable[[ReservationEnd], None],
    ) -> None:
        self._client = client
        self._command = command
        self._departure = departure
        self._seconds = seconds
        self._wall_time = wall_time
        self._on_end: Callable[[ReservationEnd], None] | None = on_end
        self._current: BegunWrite | None = None

    def begin(self) -> None:
        self._write(self._command.known)

    def cancel(self) -> None:
        self._on_end = None
        if self._current is not None:
            self._current.cancel()

    def _write(self, claim: ResourceClaim, before: ClaimPatch | None = None) -> None:
        try:
            patch = next_write(self._command, claim, self._wall_time, before)
        except Exception as error:  # noqa: BLE001 - whatever it is, the reservation has an end
            self._end(Unfinished(error))
            return
        if patch is None:
            self._end(claim)
            return

        def answered(end: WriteEnd) -> None:
            self._current = None
            self._answered(patch, end)

        path = path_of(self._command.claim) + patch.subresource
        begun = self._client.begin(
            Outgoing("PATCH", path, patch.body, self._seconds, patch.content_type), self._departure, answered
        )
        if self._on_end is not None and not begun.is_over:
            self._current = begun

    def _answered(self, patch: ClaimPatch, end: WriteEnd) -> None:
        if not isinstance(end, Answer):
            self._end(Unfinished(end, patch))
            return
        try:
            claim = claim_in(end.body)
        except Exception as error:  # noqa: BLE001 - as above
            self._end(Unfinished(error, patch))
            return
        self._write(claim, patch)

    def _end(self, end: ReservationEnd) -> None:
        on_end, self._on_end, self._current = self._on_end, None, None
        if on_end is not None:
            on_end(end)
