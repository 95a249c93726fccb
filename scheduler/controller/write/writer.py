"""Carries out the engine's writes: bounded, retried where that is safe, each outcome returned as a stimulus.

Binds have a pool of their own and are never dropped. What only reports (status patches that nobody waits for) has
another and gives way to bindings for a moment: often the pod is bound meanwhile, and the report is not needed any more.
What somebody waits for (deletions, evictions, updates, conditions of victims) has a third.
The writes of one pod leave one after the other. The right to write is checked right before each one.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import structlog
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, stop_after_delay
from tenacity.wait import wait_base

from scheduler.controller.lead.leadership import Leadership, LeadershipLost
from scheduler.controller.settings import WriterSettings
from scheduler.controller.write.requests import WriteRequests
from scheduler.errors import ApiError
from scheduler.messages.claim_commands import ClaimCommand, CreateClaim
from scheduler.messages.commands import BindPod, DeletePod, EvictPod, PatchPodStatus, UpdateObject
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import WriteFinished

WriteCommand = BindPod | PatchPodStatus | DeletePod | EvictPod | UpdateObject | ClaimCommand

STATUS_PATCH_TRIES = 4
STATUS_PATCH_FIRST_SECONDS = 0.01
STATUS_PATCH_FACTOR = 5.0
LONGEST_WAIT_SECONDS = 1.0
LONGEST_RETRY_AFTER_SECONDS = 5.0
LOOK_SECONDS = 0.1
PRESS_SECONDS = 0.1
CROWD_SECONDS = 1.0

Outcome = TypeVar("Outcome")

log = structlog.get_logger()


class _Waits(wait_base):
    """10 ms, 50 ms, 250 ms, 1 s, with a jitter of a tenth; or as long as the server asks, up to a limit."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        self._jitter = jitter

    def __call__(self, retry_state: RetryCallState) -> float:
        power = min(retry_state.attempt_number - 1, 9)
        wait = min(STATUS_PATCH_FIRST_SECONDS * STATUS_PATCH_FACTOR**power, LONGEST_WAIT_SECONDS)
        error = retry_state.outcome.exception() if retry_state.outcome is not None else None
        asked = error.retry_after if isinstance(error, ApiError) else None
        if asked is not None:
            wait = max(wait, min(asked, LONGEST_RETRY_AFTER_SECONDS))
        return wait * (1.0 + 0.1 * self._jitter())


def _is_worth_retrying(error: BaseException) -> bool:
    return isinstance(error, ApiError) and (error.is_transient or error.is_conflict)


def _is_worth_looking_again(error: BaseException) -> bool:
    """An API server that has just begun also refuses what it will allow once it has read its roles."""
    return isinstance(error, ApiError) and (error.is_transient or error.status in (401, 403))


@dataclass(slots=True)
class WriterCounts:
    """For metrics. ``refused_without_lease`` are writes that leadership stopped."""

    done: int = 0
    failed: int = 0
    merged: int = 0
    overtaken: int = 0
    looked_up: int = 0
    refused_without_lease: int = 0


class Writer:
    """``submit`` commands; ``start`` and ``close`` around. ``on_finished`` is called on the event loop."""

    def __init__(
        self,
        requests: WriteRequests,
        leadership: Leadership,
        on_finished: Callable[[WriteFinished], None],
        settings: WriterSettings,
        jitter: Callable[[], float],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self.counts = WriterCounts()
        self.bind_seconds: float | None = None
        """What the binding took of which ``on_finished`` is being told; None outside of that, and for other writes."""
        self.binds_in_flight = 0
        self._requests = requests
        self._leadership = leadership
        self._on_finished = on_finished
        self._settings = settings
        self._waits = _Waits(jitter)
        self._lookup_seconds = settings.lookup_seconds
        self._binds: deque[BindPod] = deque()
        self._sent: deque[float] = deque(maxlen=settings.binds_that_press)
        """When the last bindings were sent."""
        self._awaited: deque[float] = deque(maxlen=settings.writes_that_crowd)
        """When the last writes were sent that somebody waits for: bindings, removals, volumes."""
        self._others: deque[WriteCommand] = deque()
        self._reports: OrderedDict[str, tuple[PatchPodStatus, float]] = OrderedDict()
        """Pod UID → its queued status patch that nobody waits for, and when that was queued."""
        self._busy: set[str] = set()
        """UIDs of pods with a write in flight."""
        self._parked: dict[str, deque[WriteCommand]] = {}
        self._bind_wake = asyncio.Semaphore(0)
        self._other_wake = asyncio.Semaphore(0)
        self._report_wake = asyncio.Semaphore(0)
        self._workers: list[asyncio.Task[None]] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._open = 0

    def start(self) -> None:
        for number in range(self._settings.binds_in_flight):
            self._workers.append(asyncio.create_task(self._bind_worker(), name=f"bind worker {number}"))
        for number in range(self._settings.writes_in_flight):
            self._workers.append(asyncio.create_task(self._other_worker(), name=f"write worker {number}"))
        for number in range(self._settings.reports_in_flight):
            self._workers.append(asyncio.create_task(self._report_worker(), name=f"report worker {number}"))

    async def close(self) -> None:
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._workers.clear()

    @property
    def has_room(self) -> bool:
        """Whether another pod may be decided on: not so many binds wait that decisions would go stale."""
        return len(self._binds) < self._settings.binds_queued

    @property
    def is_pressed(self) -> bool:
        """Whether so many bindings are open, or have just been sent, that what can wait for them should."""
        most = self._settings.binds_that_press
        if len(self._binds) + self.binds_in_flight >= most:
            return True
        return len(self._sent) == most and self._monotonic() - self._sent[0] < PRESS_SECONDS

    @property
    def is_crowded(self) -> bool:
        """Whether so many writes that somebody waits for were sent lately that the API server has enough to do."""
        most = self._settings.writes_that_crowd
        return len(self._awaited) == most and self._monotonic() - self._awaited[0] < CROWD_SECONDS

    @property
    def open_writes(self) -> int:
        """Queued, parked and in flight."""
        return self._open

    async def settle(self, seconds: float) -> bool:
        """Wait until nothing is open, at most so long; whether it came to that."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def submit(self, command: WriteCommand) -> None:
        """Never blocks, never drops (but a patch that a newer one or the pod's bind makes pointless)."""
        if isinstance(command, BindPod):
            self._overtake_report(command.pod.uid)
        elif isinstance(command, PatchPodStatus) and not command.ticket and self._merge_report(command):
            return
        self._open += 1
        self._idle.clear()
        self._enqueue(command)

    # --- queues ------------------------------------------------------------------------------------------------------

    def _enqueue(self, command: WriteCommand) -> None:
        if isinstance(command, BindPod):
            self._binds.append(command)
            self._bind_wake.release()
        elif isinstance(command, PatchPodStatus) and not command.ticket:
            self._reports[command.pod.uid] = command, self._monotonic()
            self._report_wake.release()
        else:
            self._others.append(command)
            self._other_wake.release()

    def _merge_report(self, newer: PatchPodStatus) -> bool:
        """Whether there was a queued patch of the pod to fold it into."""
        found = self._reports.get(newer.pod.uid)
        if found is None:
            return False
        older, since = found
        self._reports[newer.pod.uid] = _folded(older, newer), since
        self.counts.merged += 1
        return True

    def _requeue(self, command: WriteCommand) -> None:
        """One that was parked; a patch may find that a newer one came meanwhile."""
        newer = self._reports.get(command.pod.uid) if isinstance(command, PatchPodStatus) else None
        if isinstance(command, PatchPodStatus) and not command.ticket and newer is not None:
            self._reports[command.pod.uid] = _folded(command, newer[0]), newer[1]
            self.counts.merged += 1
            self._finish_one()
        else:
            self._enqueue(command)

    def _overtake_report(self, uid: str) -> None:
        """The bind makes the pod's queued patch meaningless, and after it the patch would be wrong."""
        if self._reports.pop(uid, None) is not None:
            self.counts.overtaken += 1
            self._finish_one()

    def _finish_one(self) -> None:
        self._open -= 1
        if self._open == 0:
            self._idle.set()

    async def _bind_worker(self) -> None:
        while True:
            await self._bind_wake.acquire()
            if self._binds:
                await self._run_in_turn(self._binds.popleft())

    async def _other_worker(self) -> None:
        while True:
            await self._other_wake.acquire()
            await self._run_in_turn(self._others.popleft())

    async def _report_worker(self) -> None:
        while True:
            await self._report_wake.acquire()
            await self._let_bindings_pass()
            if self._reports:
                _, (command, _) = self._reports.popitem(last=False)
                await self._run_in_turn(command)

    async def _let_bindings_pass(self) -> None:
        """Reports stay where a newer one can be folded in, until the oldest has waited long enough."""
        while self.is_pressed and self._reports:
            _, since = next(iter(self._reports.values()))
            rest = since + self._settings.report_patience_seconds - self._monotonic()
            if rest <= 0:
                return
            await asyncio.sleep(min(LOOK_SECONDS, rest))

    async def _run_in_turn(self, command: WriteCommand) -> None:
        """One write of a pod at a time; the others of the same pod are parked meanwhile."""
        uid = _turn_of(command)
        if uid in self._busy:
            self._parked.setdefault(uid, deque()).append(command)
            return
        self._busy.add(uid)
        try:
            outcome = await self._carry_out(command)
        finally:
            self._busy.discard(uid)
            parked = self._parked.get(uid)
            if parked:
                self._requeue(parked.popleft())
                if not parked:
                    del self._parked[uid]
            self._finish_one()
        if command.ticket:
            self._on_finished(outcome)
        self.bind_seconds = None

    # --- carrying out ------------------------------------------------------------------------------------------------

    async def _carry_out(self, command: WriteCommand) -> WriteFinished:
        if command.ticket:
            self._awaited.append(self._monotonic())
        try:
            if isinstance(command, BindPod):
                outcome = await self._bind(command)
            else:
                outcome = await self._write(command)
        except Exception as error:
            log.exception("Write failed", command=type(command).__name__)
            outcome = WriteFinished(command.ticket, False, 0, "InternalError", f"{type(error).__name__}: {error}")
        if outcome.is_done:
            self.counts.done += 1
        else:
            self.counts.failed += 1
        return outcome

    def _check_leadership(self) -> None:
        if not self._leadership.is_held():
            self.counts.refused_without_lease += 1
            raise LeadershipLost("leader election lost: nothing is written any more")

    async def _bind(self, command: BindPod) -> WriteFinished:
        ticket = command.ticket
        self.binds_in_flight += 1
        self._sent.append(self._monotonic())
        began = time.perf_counter()
        try:
            self._check_leadership()
            await self._requests.bind(command)
        except LeadershipLost as error:
            return WriteFinished(ticket, False, 0, "LeadershipLost", str(error))
        except ApiError as error:
            return await self._look_up_bind(command, error)
        finally:
            self.binds_in_flight -= 1
            self.bind_seconds = time.perf_counter() - began
        return WriteFinished(ticket, True, 201)

    async def _look_up_bind(self, command: BindPod, error: ApiError) -> WriteFinished:
        """The server may have bound the pod all the same (no answer, an answer of 500, a retry by a proxy): see.

        Through an outage, too: a pod that nobody knows to be unbound must not be bound again.
        """
        self.counts.looked_up += 1
        failed = WriteFinished(command.ticket, False, error.status, error.reason, str(error))
        if error.is_not_found:
            return failed
        try:
            bound = await self._looked_up(command.pod)
        except ApiError as lookup:
            if lookup.is_not_found:
                return WriteFinished(command.ticket, False, 404, "NotFound", str(lookup))
            log.error("Bind without an answer could not be looked up", pod=command.pod.key, error=str(lookup))
            return failed
        if bound == command.node:
            return WriteFinished(command.ticket, True, 200)
        if bound:
            text = f"pod {command.pod.key} is already assigned to node {bound!r}"
            return WriteFinished(command.ticket, False, 409, "Conflict", text)
        return failed

    async def _write_claim(self, command: ClaimCommand) -> WriteFinished:
        try:
            written = await self._requests.claims.carry_out(command, self._check_leadership)
        except LeadershipLost as error:
            return WriteFinished(command.ticket, False, 0, "LeadershipLost", str(error))
        except ApiError as error:
            # What the server did is not known: the claim itself tells, so that no device is given twice.
            seen = await self._requests.claims.look_up(command.claim) if error.is_transient else None
            return WriteFinished(command.ticket, False, error.status, error.reason, str(error), written=seen)
        return WriteFinished(command.ticket, True, 200, written=written)

    async def _write(self, command: WriteCommand) -> WriteFinished:
        if isinstance(command, ClaimCommand):
            return await self._write_claim(command)
        assert not isinstance(command, BindPod)
        sent = command

        async def send() -> int:
            self._check_leadership()
            return await self._requests.send(sent)

        tries = STATUS_PATCH_TRIES if isinstance(command, PatchPodStatus) else 1
        try:
            status = await self._retrying(tries, send)
        except LeadershipLost as error:
            return WriteFinished(command.ticket, False, 0, "LeadershipLost", str(error))
        except ApiError as error:
            if not command.ticket:
                log.info("Write failed", command=type(command).__name__, pod=_name_of(command), error=str(error))
            return WriteFinished(command.ticket, False, error.status, error.reason, str(error))
        return WriteFinished(command.ticket, True, status)

    async def _looked_up(self, pod: PodReference) -> str:
        retrying = AsyncRetrying(
            retry=retry_if_exception(_is_worth_looking_again),
            stop=stop_after_delay(self._lookup_seconds),
            wait=self._waits,
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                return await self._requests.node_of(pod)
        raise AssertionError("the last try returns or raises")

    async def _retrying(self, tries: int, send: Callable[[], Awaitable[Outcome]]) -> Outcome:
        if tries == 1:
            return await send()
        retrying = AsyncRetrying(
            retry=retry_if_exception(_is_worth_retrying), stop=stop_after_attempt(tries), wait=self._waits, reraise=True
        )
        async for attempt in retrying:
            with attempt:
                return await send()
        raise AssertionError("the last try returns or raises")


def _folded(older: PatchPodStatus, newer: PatchPodStatus) -> PatchPodStatus:
    """What the newer one leaves open, it takes from the older."""
    condition = newer.condition if newer.condition is not None else older.condition
    nominated = newer.nominated_node_name if newer.nominated_node_name is not None else older.nominated_node_name
    return msgspec.structs.replace(newer, condition=condition, nominated_node_name=nominated)


def _name_of(command: PatchPodStatus | DeletePod | EvictPod | UpdateObject) -> str:
    return command.key if isinstance(command, UpdateObject) else command.pod.key


def _turn_of(command: WriteCommand) -> str:
    """Writes with one of these leave one after the other."""
    if isinstance(command, UpdateObject):
        return command.key
    if isinstance(command, ClaimCommand) and not isinstance(command, CreateClaim):
        return command.claim.uid
    return command.pod.uid
