"""Writes of ResourceClaims: each a few requests in a row (docs/kube-scheduler/dra.md §9, §10)."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec

from scheduler.controller.write.binary import PROTOBUF, Identity, NotBinary, identity_of, with_added
from scheduler.controller.write.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiClient
from scheduler.controller.write.direct import JSON
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.reservation import (
    DECIDED,
    ClaimPatch,
    Reservation,
    ReservationEnd,
    Unfinished,
    claim_in,
    next_write,
    path_of,
)
from scheduler.controller.write.writer_settings import MAX_PUT_OFF_TRIES, MAX_RETRY_AFTER_SECONDS, WriterSettings
from scheduler.errors import ApiError
from scheduler.messages.claim_commands import (
    ClaimCommand,
    CreateClaim,
    DeallocateClaim,
    DeleteClaim,
    ReserveClaim,
    UnreserveClaim,
)
from scheduler.messages.references import ClaimReference, PodReference
from scheduler.objects.kinds import Kind
from scheduler.objects.resource_claims import (
    CLAIM_FINALIZER,
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    ClaimConsumer,
    ResourceClaim,
)

CONFLICT_TRIES = 5
CONFLICT_SECONDS = 0.01
"""Seconds before each further try after a conflict, with up to a tenth more."""

MAX_REMEMBERED = 64
"""Claims of which the last written version is kept, for the next pod that shares one: more than are written at once."""

REFUSED = 422
"""The status of an answer that calls a field immutable, which a patch of claims with drivers' parameters may get."""
_encode = msgspec.json.Encoder().encode

T = TypeVar("T")


class ClaimRequests:
    """Writes of ResourceClaims. ``wall_time`` returns an RFC 3339 text with whole seconds."""

    def __init__(self, client: ApiClient, settings: WriterSettings, wall_time: Callable[[], str]) -> None:
        self._client = client
        self._seconds = settings.write_timeout_seconds
        self._look_up_waits = settings.look_up_waits_seconds
        self._wall_time = wall_time
        self._written: dict[str, ResourceClaim] = {}
        """UID → the claim as it was written last, of the claims that were written last."""
        self._left: dict[str, ClaimReference] = {}
        """UID of a pod → a claim made for it that could neither be completed nor deleted, until it is looked up."""
        self.creations = {"success": 0, "failure": 0}
        """How often a claim for extended resources was to be made, by outcome."""

    async def carry_out(self, command: ClaimCommand, departure: Departure) -> ResourceClaim | None:
        """Carry out the write; returns the resulting claim, None if it is gone. Raises ApiError and LeadershipLost.

        A conflict is tried again with the claim as it is by then, for as long as the decision still holds for it.
        """
        match command:
            case ReserveClaim():
                return await self._reserve(command, departure)
            case CreateClaim():
                return await self._create(command, departure)
            case UnreserveClaim():
                return await self._unreserve(command, departure)
            case DeallocateClaim():
                changes = {"allocation": None, "reservedFor": None, "devices": None}
                return await self._patch_status(command.claim, command.resource_version, changes, departure)
            case DeleteClaim():
                await self._delete(command.claim, departure)
                return None

    # --- reserving ----------------------------------------------------------------------------------------------------

    def begin(
        self, command: ReserveClaim, departure: Departure, on_end: Callable[[ReservationEnd], None]
    ) -> Reservation:
        """Reserve a claim; what stops it is for ``finish``. See ``Reservation``."""

        def ended(end: ReservationEnd) -> None:
            if isinstance(end, ResourceClaim):
                self._remember(end)
            elif end.patch is not None:
                # The requests before it succeeded: a later try begins with the claim as they left it.
                self._remember(end.patch.claim)
            on_end(end)

        newest = self._newest(command)
        reservation = Reservation(self._client, newest, departure, self._seconds, self._wall_time, ended)
        reservation.begin()
        return reservation

    async def finish(self, command: ReserveClaim, unfinished: Unfinished, departure: Departure) -> ResourceClaim:
        """Go on with a reservation that was stopped. Raises what stopped it where that can't be resolved."""
        claim = await self._reserve(command, departure, unfinished)
        self._remember(claim)
        return claim

    def _newest(self, command: ReserveClaim) -> ReserveClaim:
        """Pods that share a claim are decided together and written one after the other: each write but the first would
        meet a newer version than the decision knew."""
        written = self._written.get(command.claim.uid)
        if written is None or written.version_number <= command.known.version_number:
            return command
        return msgspec.structs.replace(command, known=written)

    def _remember(self, claim: ResourceClaim) -> None:
        self._written.pop(claim.uid, None)
        self._written[claim.uid] = claim
        if len(self._written) > MAX_REMEMBERED:
            del self._written[next(iter(self._written))]

    async def _reserve(
        self, command: ReserveClaim, departure: Departure, unfinished: Unfinished | None = None
    ) -> ResourceClaim:
        claim: ResourceClaim | None = command.known
        for is_last in (False,) * (CONFLICT_TRIES - 1) + (True,):
            try:
                if unfinished is not None:
                    stopped, unfinished = unfinished, None
                    return await self._go_on(command, stopped, departure)
                if claim is None:
                    claim = await self._get(command.claim)
                return await self._reserve_version(command, claim, departure)
            except ApiError as error:
                if is_last or not error.is_conflict or error.reason == DECIDED:
                    raise
                claim = None
                await asyncio.sleep(CONFLICT_SECONDS * random.uniform(1.0, 1.1))
        raise AssertionError("the last try returns or raises")

    async def _reserve_version(
        self, command: ReserveClaim, claim: ResourceClaim, departure: Departure, before: ClaimPatch | None = None
    ) -> ResourceClaim:
        """Write what is missing in this version of the claim. ``before``: see ``next_write``."""
        while (patch := next_write(command, claim, self._wall_time, before)) is not None:
            path = f"{path_of(command.claim)}{patch.subresource}"
            try:
                claim = await self._ask("PATCH", path, patch.body, departure, patch.content_type)
            except ApiError as error:
                claim = await self._instead(patch, error, departure)
            before = patch
        return claim

    async def _go_on(self, command: ReserveClaim, unfinished: Unfinished, departure: Departure) -> ResourceClaim:
        error, patch = unfinished.error, unfinished.patch
        if patch is None or not isinstance(error, ApiError):
            raise error
        claim = await self._instead(patch, error, departure)
        return await self._reserve_version(command, claim, departure, patch)

    async def _instead(self, patch: ClaimPatch, error: ApiError, departure: Departure) -> ResourceClaim:
        """The same patch in binary form, where JSON was refused because it would damage something. Raises the error
        otherwise."""
        if error.status != REFUSED or not patch.addition:
            raise patch.worded(error) from error
        try:
            return await self._put(patch.claim, patch.subresource, patch.addition, departure)
        except ApiError as fault:
            raise patch.worded(fault) from fault

    async def _unreserve(self, command: UnreserveClaim, departure: Departure) -> ResourceClaim:
        """Remove the pod's reservation by one request that names no version: what others write meanwhile is left as it
        is."""
        body = {
            "metadata": {"uid": command.claim.uid},
            "status": {"reservedFor": [{"$patch": "delete", "uid": command.consumer.uid}]},
        }
        return await self._ask("PATCH", f"{path_of(command.claim)}/status", body, departure, STRATEGIC_MERGE_PATCH)

    # --- the claim for extended resources -----------------------------------------------------------------------------

    async def _create(self, command: CreateClaim, departure: Departure) -> ResourceClaim:
        body = {
            "apiVersion": Kind.RESOURCE_CLAIM.entry.api_version,
            "kind": Kind.RESOURCE_CLAIM.entry.name,
            "metadata": {
                "generateName": f"{command.pod.name}-extended-resources-",
                "namespace": command.pod.namespace,
                "annotations": {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
                "finalizers": [CLAIM_FINALIZER],
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": command.pod.name,
                        "uid": command.pod.uid,
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {"devices": {"requests": msgspec.to_builtins(command.requests)}},
        }
        path = Kind.RESOURCE_CLAIM.entry.collection_path(command.pod.namespace)
        try:
            with _worded(f"create claim for extended resources {command.pod.namespace}/"):
                made = await _patiently(partial(self._ask, "POST", path, body, departure))
        except ApiError:
            self.creations["failure"] += 1
            raise
        self.creations["success"] += 1
        reference = ClaimReference(made.namespace, made.name, made.uid)
        try:
            written = ReserveClaim(0, reference, _of_pod(command.pod), made, command.allocation)
            claim = await _patiently(partial(self._reserve, written, departure))
            await _patiently(partial(self._tell_pod, command, claim, departure))
        except BaseException:
            self._left[command.pod.uid] = reference
            await _patiently(partial(self._delete, reference, departure))
            del self._left[command.pod.uid]
            raise
        return claim

    async def _tell_pod(self, command: CreateClaim, claim: ResourceClaim, departure: Departure) -> None:
        pod = command.pod
        mapping = {
            "resourceClaimName": claim.name,
            "requestMappings": [msgspec.to_builtins(one) for one in command.mappings],
        }
        status: dict[str, Any] = {"extendedResourceClaimStatus": mapping}
        if command.nominated_node:
            status["nominatedNodeName"] = command.nominated_node
        body = {"metadata": {"uid": pod.uid}, "status": status}
        path = f"{Kind.POD.entry.object_path(pod.name, pod.namespace)}/status"
        await self._client.request(
            "PATCH",
            path,
            body=_encode(body),
            content_type=STRATEGIC_MERGE_PATCH,
            timeout_seconds=self._seconds,
            departure=departure,
        )

    async def _delete(self, reference: ClaimReference, departure: Departure) -> None:
        """Delete the claim and its finalizer; does nothing if it is gone."""
        try:
            claim = await self._get(reference)
            if CLAIM_FINALIZER in claim.metadata.finalizers:
                rest = [one for one in claim.metadata.finalizers if one != CLAIM_FINALIZER]
                await self._patch(reference, claim.resource_version, {"finalizers": rest or None}, departure)
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": reference.uid}}
            await self._client.request(
                "DELETE", path_of(reference), body=_encode(options), timeout_seconds=self._seconds, departure=departure
            )
        except ApiError as error:
            if not error.is_not_found:
                raise

    async def look_up(self, command: ClaimCommand) -> ResourceClaim | None:
        """The claim as the server has it; None if it was not made, or can't be read after several tries either.
        Until then what it was to get stays taken."""
        reference = self._left.pop(command.pod.uid, None) if isinstance(command, CreateClaim) else command.claim
        if reference is None:
            return None
        for wait in (*self._look_up_waits, None):
            try:
                return await self._get(reference)
            except ApiError as error:
                if wait is None or not error.is_transient:
                    return None
            await asyncio.sleep(wait)
        return None

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _get(self, reference: ClaimReference) -> ResourceClaim:
        """GET the claim. Raises ApiError: 404 also if another claim has the name by now."""
        claim = await self._ask("GET", path_of(reference), None)
        if claim.uid != reference.uid:
            raise ApiError(404, "NotFound", f"claim {reference.key} got deleted in the meantime")
        return claim

    async def _patch(
        self, reference: ClaimReference, version: str, metadata: dict[str, Any], departure: Departure
    ) -> ResourceClaim:
        body = {"metadata": {"uid": reference.uid, "resourceVersion": version, **metadata}}
        return await self._ask("PATCH", path_of(reference), body, departure, MERGE_PATCH)

    async def _patch_status(
        self, reference: ClaimReference, version: str, status: dict[str, Any], departure: Departure
    ) -> ResourceClaim:
        body = {"metadata": {"uid": reference.uid, "resourceVersion": version}, "status": status}
        return await self._ask("PATCH", f"{path_of(reference)}/status", body, departure, MERGE_PATCH)

    async def _put(
        self, known: ResourceClaim, subresource: str, addition: bytes, departure: Departure
    ) -> ResourceClaim:
        """Send this version of the claim back with fields added: see ``binary``. A conflict if it is another by now."""
        path = path_of(ClaimReference(known.namespace, known.name, known.uid))
        answer = await self._client.request("GET", path, content_type=PROTOBUF, timeout_seconds=self._seconds)
        try:
            identity, body = identity_of(answer.body), with_added(answer.body, addition)
        except NotBinary as error:
            raise ApiError(500, "NotBinary", str(error)) from error
        if identity != Identity(known.uid, known.resource_version):
            raise ApiError(409, "Conflict", f"claim {known.key} has been modified")
        answer = await self._client.request(
            "PUT",
            path + subresource,
            body=body,
            content_type=PROTOBUF,
            timeout_seconds=self._seconds,
            departure=departure,
        )
        return claim_in(answer.body)

    async def _ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | bytes | None,
        departure: Departure | None = None,
        content_type: str = JSON,
    ) -> ResourceClaim:
        sent = _encode(body) if isinstance(body, dict) else body
        answer = await self._client.request(
            method,
            path,
            body=sent,
            content_type=content_type,
            timeout_seconds=self._seconds,
            departure=departure,
        )
        return claim_in(answer.body)


async def _patiently(send: Callable[[], Awaitable[T]]) -> T:
    """Wait and send again where the API server puts it off, up to ``MAX_PUT_OFF_TRIES`` times in all."""
    for _ in range(MAX_PUT_OFF_TRIES - 1):
        try:
            return await send()
        except ApiError as error:
            if not error.is_put_off:
                raise
            await asyncio.sleep(min(error.retry_after or 0.0, MAX_RETRY_AFTER_SECONDS) * random.uniform(1.0, 1.1))
    return await send()


@contextlib.contextmanager
def _worded(doing: str) -> Iterator[None]:
    """Errors raised in the block say what was being done."""
    try:
        yield
    except ApiError as error:
        raise ApiError(error.status, error.reason, f"{doing}: {error}", retry_after=error.retry_after) from error


def _of_pod(pod: PodReference) -> ClaimConsumer:
    return ClaimConsumer(resource="pods", name=pod.name, uid=pod.uid)
