"""Leader election on a Lease, in client-go's record format: one replica writes, the others keep their caches warm.

Times written by other replicas are never compared with ours: a lease counts as expired when it has not *changed* for
its duration by our own monotonic clock (trap 67).
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec
import structlog
from msgspec import Struct, field

from scheduler.controller.lead.announcement import ANNOTATION
from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.report.outage import Outage
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.http_exchange import Answer
from scheduler.controller.write.leadership import LeaseToken
from scheduler.errors import ApiError, InvalidObject
from scheduler.messages.references import LeaseReference
from scheduler.objects.kinds import Kind, decode_as
from scheduler.objects.lease import Lease
from scheduler.objects.timestamps import format_micros

JITTER = 1.2
TOO_LATE: Final = "the API server did not answer within the renew deadline"
RELEASE_TRIES: Final = 5
"""How often a release is tried while each write meets a conflict."""

log = structlog.get_logger()


class Claimant(Struct, frozen=True):
    """The replica that wants the lease."""

    identity: str
    annotations: Callable[[], dict[str, str]] = dict
    """What the Lease says of its holder besides its name."""


class Time(Struct, frozen=True):
    """Where an elector reads the time, and the chance that spreads its retries."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds."""
    wall: Callable[[], int] = time.time_ns
    """Nanoseconds since 1970."""
    rng: random.Random = field(default_factory=random.Random)


class SharedOutage(Protocol):
    """An ``Outage``, in whichever thread the elector runs."""

    def report(self, text: str, what: str, error: ApiError) -> None: ...

    def recovered(self, what: str) -> None: ...


class LeaseElector:
    """``run`` returns when leadership, once won, is lost; cancel it to release the lease.

    Writers check ``token``. ``on_won`` is called in the elector's own event loop.
    """

    def __init__(
        self,
        client: ApiClient,
        settings: LeaderElectionSettings,
        claimant: Claimant,
        token: LeaseToken,
        *,
        on_won: Callable[[], None],
        outage: SharedOutage | None = None,
        times: Time | None = None,
    ) -> None:
        """``outage`` reports what concerns every request, as one trouble of all. Raises ConfigurationError for
        inconsistent durations, and for kube-scheduler's own lease."""
        settings.check()
        self._client = client
        self._settings = settings
        self._identity = claimant.identity
        self._token = token
        self._on_won = on_won
        self._outage = outage
        self._annotations = claimant.annotations
        times = times or Time()
        self._monotonic = times.monotonic
        self._wall = times.wall
        self._rng = times.rng
        self._observed: Lease | None = None
        self._observed_at = 0.0
        self._newest: Lease | None = None
        self._leader = ""
        entry = Kind.LEASE.entry
        self._collection = entry.collection_path(settings.resource_namespace)
        self._path = entry.object_path(settings.resource_name, settings.resource_namespace)
        self._reported = ""

    async def run(self) -> None:
        """Acquires and holds the lease; returns when it is lost. Releases the lease if cancelled while leading."""
        await self._acquire()
        self._on_won()
        try:
            await self._hold()
        except asyncio.CancelledError:
            self._token.revoke()
            # In a task of its own: Python 3.11.2 (Debian 12) ends each time limit in a cancelled one as a cancellation.
            await asyncio.create_task(self._release(), name="release of the lease")
            raise
        self._token.revoke()
        log.error("Leaderelection lost", lease=self._lease_name)

    @property
    def lease(self) -> LeaseReference:
        """The Lease, with the UID that it had when it was last read: "" before."""
        uid = self._observed.metadata.uid if self._observed is not None else ""
        return LeaseReference(self._settings.resource_namespace, self._settings.resource_name, uid)

    @property
    def _lease_name(self) -> str:
        return f"{self._settings.resource_namespace}/{self._settings.resource_name}"

    async def _acquire(self) -> None:
        log.info("Attempting to acquire leader lease", lease=self._lease_name, identity=self._identity)
        while True:
            if await self._try_once():
                break
            await asyncio.sleep(self._settings.retry_period * self._rng.uniform(1.0, JITTER))
        log.info("Successfully acquired lease", lease=self._lease_name)

    async def _hold(self) -> None:
        """Renews every retry period; returns when the renew deadline has passed without success."""
        while True:
            renewed_at = self._monotonic()
            await asyncio.sleep(self._settings.retry_period)
            deadline = renewed_at + self._settings.renew_deadline
            while not await self._try_once():
                if self._leader != self._identity or self._monotonic() >= deadline:
                    return
                await asyncio.sleep(min(self._settings.retry_period, max(deadline - self._monotonic(), 0.0)))

    async def _try_once(self) -> bool:
        """Acquires or renews the lease if possible; True if it is ours now."""
        began = self._monotonic()
        try:
            async with asyncio.timeout(self._settings.renew_deadline):
                is_ours = await self._take_or_renew()
        except (ApiError, InvalidObject) as error:
            self._report(error)
            return False
        except TimeoutError:
            self._report(ApiError(0, "Timeout", TOO_LATE))
            return False
        self._reported = ""
        if self._outage is not None:
            self._outage.recovered(self._path)
        if is_ours:
            self._token.extend(began + self._settings.renew_deadline)
        return is_ours

    async def _take_or_renew(self) -> bool:
        if await self._renew_newest():
            return True
        try:
            answer = await self._request("GET", self._path)
        except ApiError as error:
            if not error.is_not_found:
                raise
            return await self._create()
        lease = decode_as(Lease, answer.body)
        self._observe(lease)
        holder = lease.spec.holder_identity or ""
        if holder and holder != self._identity and not self._is_expired(lease):
            return False
        return await self._write(lease, is_renewal=holder == self._identity)

    async def _renew_newest(self) -> bool:
        """Renews the lease as it was last seen, without a read; False if it is not ours or has changed since."""
        # After any trouble the stored lease may be newer than our copy: the next try reads it.
        newest, self._newest = self._newest, None
        if newest is None or newest.spec.holder_identity != self._identity or self._is_expired(newest):
            return False
        try:
            return await self._write(newest, is_renewal=True)
        except ApiError as error:
            if not error.is_not_found:
                raise
            return False

    def _is_expired(self, lease: Lease) -> bool:
        duration = lease.spec.lease_duration_seconds or self._settings.lease_duration
        return self._monotonic() >= self._observed_at + duration

    async def _create(self) -> bool:
        now = format_micros(self._wall())
        spec = self._spec(acquired=now, renewed=now, transitions=0)
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self._settings.resource_name,
                "namespace": self._settings.resource_namespace,
                "annotations": self._annotations(),
            },
            "spec": spec,
        }
        return await self._send("POST", self._collection, body)

    async def _write(self, lease: Lease, *, is_renewal: bool) -> bool:
        now = format_micros(self._wall())
        transitions = lease.spec.lease_transitions or 0
        spec = self._spec(
            acquired=(lease.spec.acquire_time or now) if is_renewal else now,
            renewed=now,
            transitions=transitions if is_renewal else transitions + 1,
        )
        return await self._put(lease, spec)

    async def _put(self, lease: Lease, spec: dict[str, Any]) -> bool:
        """Writes the lease with the resourceVersion that was read: the second of two writers gets a conflict."""
        metadata: dict[str, Any] = msgspec.to_builtins(lease.metadata)
        # The annotations of an earlier leader are removed with it.
        kept = {name: text for name, text in lease.metadata.annotations.items() if name != ANNOTATION}
        metadata["annotations"] = kept | self._annotations()
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        return await self._send("PUT", self._path, body)

    async def _send(self, method: str, path: str, body: dict[str, Any]) -> bool:
        """Whether the request was accepted; False on a conflict with another writer."""
        try:
            answer = await self._request(method, path, msgspec.json.encode(body))
        except ApiError as error:
            if error.is_conflict:
                return False
            raise
        self._observe(decode_as(Lease, answer.body))
        return True

    async def _request(self, method: str, path: str, body: bytes | None = None) -> Answer:
        return await self._client.request(method, path, body=body, timeout_seconds=self._settings.request_seconds)

    def _spec(self, *, acquired: str, renewed: str, transitions: int) -> dict[str, Any]:
        return {
            "holderIdentity": self._identity,
            # Rounded up: others would take the lease while its holder may still write.
            "leaseDurationSeconds": math.ceil(self._settings.lease_duration),
            "acquireTime": acquired,
            "renewTime": renewed,
            "leaseTransitions": transitions,
        }

    async def _release(self) -> None:
        """Clears the holder, so that the next one need not wait. If that fails, the lease expires by itself."""
        failure = "it was changed by others between each read and the write after it"
        try:
            async with asyncio.timeout(self._settings.renew_deadline):
                # A renewal of ours that was under way may be carried out between the read and the write.
                for _ in range(RELEASE_TRIES):
                    lease = decode_as(Lease, (await self._request("GET", self._path)).body)
                    if lease.spec.holder_identity != self._identity:
                        return
                    if await self._clear(lease):
                        log.info("Lease released", lease=self._lease_name)
                        return
        except (ApiError, InvalidObject, TimeoutError) as error:
            failure = str(error) or TOO_LATE
        log.warning("Lease could not be released", lease=self._lease_name, error=failure)

    async def _clear(self, lease: Lease) -> bool:
        """Writes the lease without a holder; False on a conflict with another writer."""
        now = format_micros(self._wall())
        spec = self._spec(acquired=now, renewed=now, transitions=lease.spec.lease_transitions or 0)
        return await self._put(lease, spec | {"holderIdentity": "", "leaseDurationSeconds": 1})

    def _observe(self, lease: Lease) -> None:
        self._newest = lease
        if self._observed is None or self._observed.spec != lease.spec:
            self._observed = lease
            self._observed_at = self._monotonic()
        holder = lease.spec.holder_identity or ""
        if holder != self._leader:
            self._leader = holder
            if holder:
                log.info("New leader elected", identity=holder)

    def _report(self, error: ApiError | InvalidObject) -> None:
        trouble, text = "Lease could not be taken or renewed", str(error)
        if self._outage is not None and isinstance(error, ApiError) and Outage.concerns(error, is_watch=False):
            self._outage.report(trouble, self._path, error)
        elif text != self._reported:
            self._reported = text
            log.error(trouble, lease=self._lease_name, error=text)
