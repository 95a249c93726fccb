"""Runs scheduling cycles, one at a time; a cycle is suspended while it waits for extenders, and in a long search."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from msgspec import Struct, field
from msgspec.structs import replace

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.cycle_context import CycleContext, Depth
from scheduler.engine.deadlines import ANSWER_GRACE_SECONDS, Deadlines, ExtenderDeadline
from scheduler.engine.driving import run_in_steps
from scheduler.engine.internal import CycleEnded
from scheduler.engine.machine import Claims, Part
from scheduler.engine.outcome import CycleOutcome
from scheduler.engine.scheduling_cycle import Cycle, scheduling_cycle
from scheduler.engine.tickets import CycleTicket, Tickets
from scheduler.extenders.documents import Documents
from scheduler.framework.plugin_times import TIMED_CYCLES, PluginTimes
from scheduler.framework.post_filter import Kept
from scheduler.framework.profile import Profile
from scheduler.messages.commands import CallExtender
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ExtenderAnswered
from scheduler.objects.pod import Pod
from scheduler.objects.steps import Steps
from scheduler.queue.queued_pod import QueuedPod


class _UnderWay(Struct, eq=False):
    cycle: Cycle
    queued: QueuedPod
    profile: Profile
    attempt: Attempt
    calls: tuple[CallExtender, ...] = ()
    answers: dict[int, ExtenderAnswered] = field(default_factory=dict)
    """Answers by ticket; the cycle resumes when all have arrived."""


CycleSteps = Sequence[CallExtender | CycleEnded]


class Cycles:
    """Runs scheduling cycles. While one waits for extenders, no other pod is tried."""

    CLAIMS = Claims(
        writes=frozenset({Part.CYCLES, Part.CLASSES}),
        reads=frozenset({Part.CACHE, Part.NOMINATOR, Part.ROOM}),
        tickets=frozenset({CycleTicket}),
        deadlines=frozenset({ExtenderDeadline}),
    )

    def __init__(self, context: CycleContext, deadlines: Deadlines) -> None:
        self._context = context
        self._deadlines = deadlines
        self.paused: _UnderWay | None = None
        """The cycle that waits for extenders. Read only, as the next one."""
        self.searching: _UnderWay | None = None
        """The cycle that pauses in a search on the live state."""

    @property
    def is_waiting(self) -> bool:
        """Whether a cycle waits for extenders."""
        return self.paused is not None

    def begin(self, queued: QueuedPod, profile: Profile, attempt: Attempt, cycle_number: int, now: Now) -> CycleSteps:
        """Try one pod. ``cycle_number``: how many pods have been tried; it selects the cycles whose plugins are
        timed."""
        if cycle_number % TIMED_CYCLES == 1:
            attempt.plugin_times = PluginTimes(self._context.stopwatch)
        cycle = scheduling_cycle(self._context, profile, self._as_nominated(queued.info), attempt, now)
        return self._go_on(_UnderWay(cycle, queued, profile, attempt), None, now)

    @property
    def is_searching(self) -> bool:
        """Whether a cycle pauses in a search: nothing may happen before ``go_on``."""
        return self.searching is not None

    def go_on(self, now: Now) -> CycleSteps:
        """Go on with the search. ``now``: when the cycle began."""
        searching, self.searching = self.searching, None
        return self._go_on(searching, None, now) if searching is not None else ()

    def answered(self, _owner: CycleTicket, answer: ExtenderAnswered, now: Now) -> CycleSteps:
        """Take an extender's answer; with the last one that the suspended cycle waits for, the cycle goes on."""
        paused = self.paused
        if paused is None or all(call.ticket != answer.ticket for call in paused.calls):
            return ()
        paused.answers[answer.ticket] = answer
        if len(paused.answers) < len(paused.calls):
            return ()
        self.paused = None
        answers = tuple(paused.answers[call.ticket] for call in paused.calls)
        return self._go_on(paused, answers, now)

    def abandon(self) -> QueuedPod | None:
        """Abort the suspended cycle, if there is one, and return its pod."""
        paused, self.paused = self.paused, None
        if paused is None:
            return None
        paused.cycle.close()
        for call in paused.calls:
            self._deadlines.drop(ExtenderDeadline(call.ticket))
            self._context.tickets.drop(call.ticket)
        return paused.queued

    def preview(
        self, profile: Profile, pod: Pod, now: Now, depth: Depth, cluster: ClusterCache | None = None
    ) -> Steps[tuple[Attempt, CycleOutcome]]:
        """The attempt that a pod would get if it were tried now; changes nothing. Extenders are not asked.

        ``cluster``: a fork, perhaps changed, in place of the live state, on which nothing may happen between the steps.
        """
        info = PodInfo(pod, node_name="")
        attempt = Attempt(info.key, info.uid, profile.scheduler_name, number=0, started_wall=now.wall)
        context = replace(self._context, extenders=(), rng=Random(0), report=_ignore)
        if cluster is not None:
            context = replace(context, cache=cluster, nominator=cluster.nominator, kept=Kept())
        if cluster is not None or self.is_searching:
            # The cycle that pauses in a search keeps the caches of its pod's class: this preview uses others.
            context = replace(context, classes=self._context.classes.apart())
        return attempt, (yield from run_in_steps(scheduling_cycle(context, profile, info, attempt, now, depth)))

    def fork(self, rng: Random) -> CycleContext:
        """A context on a fork of the cluster, for trials: without extenders, and with a source of chance of its own.
        Its ``assumptions`` and ``policies`` are still the engine's: replace them. Its ``kept`` is the engine's, too,
        which is valid for any view of these nodes and pods."""
        return replace(self._context.on_fork(), extenders=(), rng=rng, tickets=Tickets(), documents=Documents())

    def replace_plugins(self, percentage_of_nodes_to_score: int | None) -> None:
        """Drop what was cached for the present profiles, before others replace them."""
        self._context.classes.clear()
        self._context.kept.clear()
        self._context.percentage_of_nodes_to_score = percentage_of_nodes_to_score

    def _go_on(self, under_way: _UnderWay, answers: tuple[ExtenderAnswered, ...] | None, now: Now) -> CycleSteps:
        """Run the cycle until it ends, pauses, or waits for extenders."""
        try:
            calls = next(under_way.cycle) if answers is None else under_way.cycle.send(answers)
        except StopIteration as done:
            return (CycleEnded(under_way.queued, under_way.profile, under_way.attempt, done.value),)
        if not calls:
            self.searching = under_way
            return ()
        under_way.calls, under_way.answers = calls, {}
        self.paused = under_way
        for call in calls:
            due = now.monotonic + call.timeout_seconds + ANSWER_GRACE_SECONDS
            self._deadlines.set(ExtenderDeadline(call.ticket), due)
        return calls

    def _as_nominated(self, info: PodInfo) -> PodInfo:
        """The pod as the nominator has it: a nomination counts before the watch has shown its write."""
        nominated = self._context.nominator.nominated_node(info.uid)
        if not nominated or nominated == info.pod.nominated_node_name:
            return info
        return info.nominated_to(nominated)


def _ignore(_message: str) -> None:
    """Discard a preview's problems: its page shows them."""
