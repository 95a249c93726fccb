"""Carries out the engine's writes; each outcome returns as a stimulus.

``pacing`` decides the order of writes, the fence checks the right to write. A write without an answer:

- BindPod is sent once. It may have been done, or may still be: ``is_unknown``, and the engine sends it again.
- PatchPodStatus, PatchGroupStatus, PatchGroupCounts, DeletePod and EvictPod are sent again, up to ``MAX_TRIES`` times.
  Each names the UID, so that a second one does nothing to another pod, nor does it break a budget: of a pod that
  terminates, no budget is asked.
- UpdateObject is not: it names the version that it was made from, and a second one would be refused if the first was
  carried out. Its sender has to read the object again.

A 429 or a server error with Retry-After says when the write may be sent again: it waits for as long, as often as in
kube-scheduler's client (``MAX_PUT_OFF_TRIES``). But for an eviction, which a budget forbids with a 429; and for those
that may still be carried out and are not among the ones above that are sent again: a bind's outcome is unknown then.
CreateClaim waits by itself, since what came before of it has been carried out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec
import structlog
from msgspec import Struct, field

from scheduler.controller.write.begun import WriteEnd
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.http_exchange import Answer
from scheduler.controller.write.leadership import Leadership, LeadershipLost
from scheduler.controller.write.outbox import ANSWERED, UNANSWERED, Cancellable, Outbox, Sendable, Sent, in_a_task
from scheduler.controller.write.pacing import Rank
from scheduler.controller.write.requests import WriteRequests
from scheduler.controller.write.reservation import ReservationEnd, Unfinished
from scheduler.controller.write.writer_settings import MAX_PUT_OFF_TRIES, MAX_RETRY_AFTER_SECONDS, MAX_TRIES
from scheduler.errors import ApiError, InvalidObject
from scheduler.messages.claim_commands import (
    ClaimCommand,
    CreateClaim,
    DeallocateClaim,
    DeleteClaim,
    ReserveClaim,
    UnreserveClaim,
)
from scheduler.messages.commands import (
    BindPod,
    DeletePod,
    EvictPod,
    PatchGroupCounts,
    PatchGroupStatus,
    PatchPodStatus,
    UpdateObject,
)
from scheduler.messages.stimuli import WriteFinished
from scheduler.objects.resource_claims import ResourceClaim

GroupPatch = PatchGroupStatus | PatchGroupCounts
WriteCommand = BindPod | PatchPodStatus | GroupPatch | DeletePod | EvictPod | UpdateObject | ClaimCommand

_BEFORE_BINDING: Final = (ReserveClaim, CreateClaim)
_REMOVALS: Final = (PatchPodStatus, DeletePod, EvictPod)
"""Those that may be the steps of one."""

_PUT_OFF: Final = (BindPod, DeletePod, UpdateObject, ReserveClaim, UnreserveClaim, DeallocateClaim, DeleteClaim)
"""Those that are sent again where they are put off: see ``ApiError.is_put_off``."""

FIRST_WAIT_SECONDS: Final = 0.01
WAIT_FACTOR: Final = 5.0
MAX_WAIT_SECONDS: Final = 1.0

POD_SCHEDULED: Final = "PodScheduled"
WRITES: Final = (Rank.BINDING, Rank.AWAITED, Rank.CONDITION)

log = structlog.get_logger()


class WriterCounts(Struct):
    """For metrics. ``refused_without_lease`` are writes that the fence stopped."""

    done: int = 0
    failed: int = 0
    looked_up: int = 0
    unknown: int = 0
    refused_without_lease: int = 0
    claim_creations: Mapping[str, int] = field(default_factory=dict)
    """By outcome, how often a claim for extended resources was to be made."""


class Writer:
    """Sends ``submit``ted commands; outcomes go to ``on_finished``, on the event loop. ``jitter`` is between 0 and
    1."""

    def __init__(
        self,
        requests: WriteRequests,
        leadership: Leadership,
        outbox: Outbox,
        on_finished: Callable[[WriteFinished], None],
        jitter: Callable[[], float],
        binds_queued: int,
    ) -> None:
        self.counts = WriterCounts(claim_creations=requests.claims.creations)
        self._requests = requests
        self._leadership = leadership
        self._outbox = outbox
        self._pacing = outbox.pacing
        self._on_finished = on_finished
        self._jitter = jitter
        self._binds_queued = binds_queued
        self._claims_open = 0
        """Claims that are being allocated or reserved, queued or under way."""

    def has_room_for(self, bindings: int) -> bool:
        """Whether there is room for this many further bindings: with more than ``binds_queued`` queued ones decisions
        would become stale. The writes of claims count as the bindings that follow them."""
        return self._pacing.queued(Rank.BINDING) + self._claims_open + bindings <= self._binds_queued

    @property
    def binds_under_way(self) -> int:
        return self._pacing.under_way(Rank.BINDING)

    @property
    def open_writes(self) -> int:
        """The number of writes queued and under way, without events."""
        return self._pacing.open(*WRITES)

    @property
    def merged(self) -> int:
        """The number of statuses folded into a later write of the same pod."""
        return self._pacing.folded

    async def settle(self, seconds: float) -> bool:
        """Wait at most ``seconds`` until nothing is open; returns whether nothing is."""
        return await self._outbox.settle(seconds, *WRITES)

    def submit(self, command: WriteCommand) -> None:
        """Queue a command; never blocks, never drops. A patch may be folded into a newer one or into the pod's bind."""
        tickets = (command.ticket,) if command.ticket else ()
        if isinstance(command, BindPod):
            self._outbox.submit(PodWrite(self, Rank.BINDING, command.pod.uid, command, tickets))
            return
        self._claims_open += isinstance(command, _BEFORE_BINDING)
        is_continuation = isinstance(command, _REMOVALS) and command.is_continuation
        self._outbox.submit(PodWrite(self, rank_of(command), _turn_of(command), command, tickets, is_continuation))

    # --- sending ------------------------------------------------------------------------------------------------------

    def begin(self, write: PodWrite, on_sent: Callable[[Sent], None]) -> Cancellable:
        """Send a write once; reports its outcome unless it must be sent again. Where all is well it needs no task."""
        departure = write.departure = Departure(self._leadership)
        write.began, write.current = time.perf_counter(), None
        command = write.command
        first: Cancellable | None
        if isinstance(command, BindPod) or not isinstance(command, ClaimCommand):
            write.on_sent = on_sent
            first = self._requests.begin(command, departure, partial(self._ended, write))
        elif isinstance(command, ReserveClaim):
            write.on_sent = on_sent
            first = self._requests.claims.begin(command, departure, partial(self._ended, write))
        else:
            first = in_a_task(self._after(write, None, departure), on_sent)
        if write.current is None:
            # It has not failed at once.
            write.current = first
        return write

    def _ended(self, write: PodWrite, end: WriteEnd | ReservationEnd) -> None:
        """The request has ended. ``on_sent`` leads back to the write: it would wait for the garbage collector."""
        on_sent, departure, write.on_sent = write.on_sent, write.departure, None
        assert on_sent is not None and departure is not None
        if isinstance(end, Answer):
            self._report(write, WriteFinished(0, True, end.status))
            on_sent(ANSWERED)
        elif isinstance(end, ResourceClaim):
            self._report(write, WriteFinished(0, True, 200, written=end))
            on_sent(ANSWERED)
        else:
            write.current = in_a_task(self._after(write, end, departure), on_sent)

    async def _after(self, write: PodWrite, end: Exception | Unfinished | None, departure: Departure) -> Sent:
        """What became of a write that was not answered with a success. None: it is still to be sent."""
        try:
            return await self._after_no_success(write, end, departure)
        except Exception as error:
            command, text = write.command, f"{type(error).__name__}: {error}"
            log.exception("Write failed", command=type(command).__name__)
            # A write without an outcome would be waited for without an end.
            failed = WriteFinished(0, False, 0, "InternalError", text, is_conclusive=False)
            is_unknown = isinstance(command, BindPod) and departure.has_left
            self._report(write, msgspec.structs.replace(failed, is_unknown=is_unknown))
            return ANSWERED

    async def _after_no_success(
        self, write: PodWrite, end: Exception | Unfinished | None, departure: Departure
    ) -> Sent:
        command = write.command
        is_answered = True
        try:
            if isinstance(command, ClaimCommand):
                written = await self._claim_written(command, end, departure)
                outcome = WriteFinished(0, True, 200, written=written)
            else:
                assert isinstance(end, Exception)
                raise end
        except LeadershipLost as error:
            outcome = self._without_lease(error)
        except ApiError as error:
            is_answered = error.status != 0
            if self._is_worth_retrying(write, error):
                write.tries += 1
                return Sent(is_answered, self._seconds_before(write.tries, error))
            if isinstance(command, BindPod):
                outcome = await self._after_failed_bind(command, error, departure)
            elif isinstance(command, ClaimCommand):
                # The outcome on the server is unknown: the claim is read, so that no device is allocated twice.
                is_open = error.is_transient or isinstance(command, CreateClaim)
                seen = await self._requests.claims.look_up(command) if is_open else None
                outcome = WriteFinished(0, False, error.status, error.reason, str(error), written=seen)
            else:
                outcome = WriteFinished(0, False, error.status, error.reason, str(error))
        self._report(write, outcome)
        return ANSWERED if is_answered else UNANSWERED

    async def _claim_written(
        self, command: ClaimCommand, end: Exception | Unfinished | None, departure: Departure
    ) -> ResourceClaim | None:
        claims = self._requests.claims
        if isinstance(command, ReserveClaim) and isinstance(end, Unfinished):
            return await claims.finish(command, end, departure)
        return await claims.carry_out(command, departure)

    def _report(self, write: PodWrite, outcome: WriteFinished) -> None:
        """Report the outcome to each ticket. For statuses folded into a bind "unknown" has no meaning."""
        self._claims_open -= isinstance(write.command, _BEFORE_BINDING)
        if outcome.is_done:
            self.counts.done += 1
        elif outcome.is_unknown:
            self.counts.unknown += 1
        else:
            self.counts.failed += 1
            if not write.tickets:
                log.info("Write failed", command=type(write.command).__name__, key=write.key, error=outcome.message)
        seconds, is_unknown = time.perf_counter() - write.began, outcome.is_unknown
        for ticket in write.tickets:
            self._on_finished(msgspec.structs.replace(outcome, ticket=ticket, seconds=seconds, is_unknown=is_unknown))
            is_unknown = False

    def _without_lease(self, error: LeadershipLost) -> WriteFinished:
        self.counts.refused_without_lease += 1
        # Says nothing of an earlier bind: the Lease may have been renewed too late, and be held again.
        return WriteFinished(0, False, 0, "LeadershipLost", str(error), is_conclusive=False)

    # --- what an error means ------------------------------------------------------------------------------------------

    async def _after_failed_bind(self, command: BindPod, error: ApiError, departure: Departure) -> WriteFinished:
        refused = WriteFinished(0, False, error.status, error.reason, str(error), is_conclusive=error.is_not_found)
        if not departure.has_left:
            return refused
        if error.may_still_happen:
            return msgspec.structs.replace(refused, is_unknown=True)
        # A conflict may be with an earlier bind of ours, a server error may follow the commit, and what refuses this
        # bind may not have refused an earlier one: read the pod.
        if error.status < 500 and not error.is_conflict and (error.is_not_found or not command.is_again):
            return refused
        self.counts.looked_up += 1
        try:
            pod = await self._requests.read(command.pod)
        except (ApiError, InvalidObject) as lookup:
            if isinstance(lookup, ApiError) and lookup.is_not_found:
                return WriteFinished(0, False, 404, "NotFound", str(lookup))
            return msgspec.structs.replace(refused, is_unknown=True, is_unread=True)
        bound = pod.spec.node_name
        if bound == command.node:
            return WriteFinished(0, True, 200)
        if bound:
            text = f"pod {command.pod.key} is already assigned to node {bound!r}"
            return WriteFinished(0, False, 409, "Conflict", text)
        # A pod that terminates is bound by no earlier request either.
        return msgspec.structs.replace(refused, is_conclusive=pod.is_terminating, is_unbound=True)

    @staticmethod
    def _is_worth_retrying(write: PodWrite, error: ApiError) -> bool:
        command, is_delayed = write.command, error.is_transient and error.retry_after is not None
        if write.tries + 1 >= (MAX_PUT_OFF_TRIES if is_delayed else MAX_TRIES):
            return False
        if isinstance(command, PatchPodStatus | GroupPatch):
            return error.is_transient or error.is_conflict
        if isinstance(command, DeletePod | EvictPod) and (error.status == 0 or (is_delayed and error.status >= 500)):
            return True
        return isinstance(command, _PUT_OFF) and error.is_put_off

    def _seconds_before(self, tries: int, error: ApiError) -> float:
        """10 ms, 50 ms, 250 ms with a jitter of a tenth, or as the server asks, up to a limit."""
        if error.retry_after is not None:
            wait = min(error.retry_after, MAX_RETRY_AFTER_SECONDS)
        else:
            wait = min(FIRST_WAIT_SECONDS * WAIT_FACTOR ** (tries - 1), MAX_WAIT_SECONDS)
        return wait * (1.0 + 0.1 * self._jitter())


class PodWrite(Struct, eq=False):
    """A command on its way. ``tickets``: the command's, then those of older ones that were folded into it.

    Of the last try: ``departure``, ``began``, ``on_sent``, and ``current``, what is awaited now: the request, then what
    is asked about it where it fails.
    """

    writer: Writer
    rank: Rank
    key: str
    command: WriteCommand
    tickets: tuple[int, ...]
    is_continuation: bool = False
    tries: int = 0
    departure: Departure | None = None
    began: float = 0.0
    on_sent: Callable[[Sent], None] | None = None
    current: Cancellable | None = None

    def folded_over(self, older: Sendable) -> PodWrite | None:
        """A status folds over one of the same condition; a bind or removal of the pod folds over its condition."""
        assert isinstance(older, PodWrite)
        command = _folded(older.command, self.command)
        if command is None:
            return None
        tickets = self.tickets + older.tickets
        is_continuation = isinstance(command, _REMOVALS) and command.is_continuation
        return PodWrite(self.writer, min(self.rank, older.rank), self.key, command, tickets, is_continuation)

    def begin(self, on_sent: Callable[[Sent], None]) -> Cancellable:
        return self.writer.begin(self, on_sent)

    def cancel(self) -> None:
        if self.current is not None:
            self.current.cancel()


def rank_of(command: WriteCommand) -> Rank:
    """The write's class: a condition without a nomination only reports; other parts wait for everything else.

    An announcement has no time limit: while more urgent writes are queued most of them are folded into their bindings,
    which costs the API server a quarter less for each pod that has claims. For a pod that has to wait long it leaves.
    """
    match command:
        case PatchPodStatus(is_announcement=True):
            return Rank.EVENT
        case BindPod():
            return Rank.BINDING
        case PatchPodStatus(condition=condition, nominated_node_name=None) if (
            condition is not None and condition.type == POD_SCHEDULED
        ):
            return Rank.CONDITION
        case PatchGroupStatus():
            return Rank.CONDITION
        case PatchGroupCounts():
            return Rank.EVENT
        case _:
            return Rank.AWAITED


def _folded(older: WriteCommand, newer: WriteCommand) -> WriteCommand | None:
    """The newer status, with its unset fields taken from the older one."""
    if isinstance(older, PatchGroupStatus) and isinstance(newer, PatchGroupStatus):
        return newer
    if isinstance(older, PatchGroupCounts) and isinstance(newer, PatchGroupCounts):
        return msgspec.structs.replace(newer, changes={**older.changes, **newer.changes})
    if not isinstance(older, PatchPodStatus):
        return None
    if not isinstance(newer, PatchPodStatus):
        # For a bound or terminating pod the nomination and the reason for having no node are obsolete.
        return newer if older.condition is None or older.condition.type == POD_SCHEDULED else None
    if older.condition is not None and newer.condition is not None and older.condition.type != newer.condition.type:
        return None
    condition = newer.condition if newer.condition is not None else older.condition
    nominated = newer.nominated_node_name if newer.nominated_node_name is not None else older.nominated_node_name
    return msgspec.structs.replace(newer, condition=condition, nominated_node_name=nominated)


def _turn_of(command: WriteCommand) -> str:
    """Writes with one of these leave one after the other."""
    if isinstance(command, UpdateObject):
        return f"{command.kind.value} {command.key}"
    if isinstance(command, GroupPatch):
        return command.group.uid
    if isinstance(command, CreateClaim):
        # Not the pod's own turn: the writes that wait for it say other things of the pod, and must not be replaced.
        return f"claim of {command.pod.uid}"
    if isinstance(command, ClaimCommand):
        return command.claim.uid
    return command.pod.uid
