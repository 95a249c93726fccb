"""The state that scheduling cycles share, and the state of one run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from random import Random
from typing import Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.effects import Effect
from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.engine.attempt import Attempt
from scheduler.engine.extender_round import ExtenderRound
from scheduler.engine.outcome import NotPlaced
from scheduler.engine.tickets import CycleTicket, GroupTicket, Tickets
from scheduler.errors import PluginError, failed_at
from scheduler.extenders.documents import Documents
from scheduler.extenders.extender import Extender
from scheduler.framework.class_run import ClassRun
from scheduler.framework.classes.cache import ClassCache, PodClass
from scheduler.framework.classes.filters import ClassFilters
from scheduler.framework.plugin import PermitPlugin, ReservePlugin, State
from scheduler.framework.post_filter import Kept
from scheduler.framework.preemption_policy import PreemptionPolicy
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.status import Code, Refusal, Skip


class Depth(Enum):
    """How far a cycle goes and how much it keeps."""

    DECIDE = "decide"
    """A real attempt: the pod is assumed on its node."""
    PREVIEW = "preview"
    """The same decision, but nothing is assumed."""
    EXPLAIN = "explain"
    """A preview that keeps every node's refusal, and all scores if the decision scores."""
    SCORE_ALL = "score all"
    """Every node is filtered and every feasible one scored, even if the decision needs neither: for comparing the
    plugins' answers with kube-scheduler's."""


class Assumptions(Protocol):
    """Where a cycle applies its decision: on the live cluster, or on a fork for a trial."""

    @property
    def on_trial(self) -> Collection[str]:
        """UIDs of the pods that are assumed on a fork, and nowhere else."""
        ...

    def assume(self, info: PodInfo) -> None: ...

    def release(self, uid: str, *, is_announced: bool = False) -> None:
        """``is_announced``: ``RoomTakenBack`` follows, since other pods were tried meanwhile."""
        ...

    def apply(self, effects: Iterable[Effect]) -> None: ...


class Policies(Protocol):
    """The preemption policies of pods and of groups; see ``making_room/policies.py``."""

    def policy_of(self, pod: PodInfo, now: Now) -> PreemptionPolicy: ...

    def policy_of_group(self, uid: str, pods: Sequence[PodInfo], now: Now) -> PreemptionPolicy:
        """The policy of a group (UID of its object) that preempts as one for these pods."""
        ...


class CycleContext(Struct):
    """The state that all cycles share; owned by the engine."""

    cache: ClusterCache
    nominator: Nominator
    classes: ClassCache
    extenders: Sequence[Extender]
    rng: Random
    stopwatch: Callable[[], float]
    assumptions: Assumptions
    policies: Policies
    tickets: Tickets
    report: Callable[[str], None]
    """Takes messages for the log."""
    documents: Documents
    kept: Kept
    percentage_of_nodes_to_score: int | None = None
    next_start: int = 0
    """The index in the order of nodes at which the next sample starts; shared by all profiles."""
    placement: npt.NDArray[np.int64] | None = None
    """The rows, ascending, to which the search is restricted for a group of pods; None: all nodes. Plugins still see
    the whole cluster."""
    together: frozenset[str] = frozenset()
    """UIDs of the pods of a group that are being placed: the room that they are nominated to is kept from other pods,
    and not from each other."""
    asks_for: CycleTicket | GroupTicket = CycleTicket()
    """The owner of extenders' answers."""
    tie_break: Callable[[Sequence[int]], int] | None = None
    """Takes one of several equally good rows; None: ``rng`` does. For questions, which want to know the rows."""

    @property
    def total_nodes(self) -> int:
        """The number of nodes that are searched."""
        return self.cache.view.total_nodes if self.placement is None else len(self.placement)

    def on_fork(self) -> CycleContext:
        """The same over a fork of the cluster, with a class cache that reads this one's answers."""
        cache = self.cache.fork()
        classes = self.classes.fork(self.cache)
        return replace(self, cache=cache, nominator=cache.nominator, classes=classes)

    def pick(self, rows: Sequence[int]) -> int:
        """One of two or more equally good rows."""
        if self.tie_break is not None:
            return self.tie_break(rows)
        return rows[int(self.rng.random() * len(rows))]


class Laps:
    """Times the extension points; the durations go into the Attempt only."""

    __slots__ = ("_durations", "_last", "_stopwatch")

    def __init__(self, stopwatch: Callable[[], float], attempt: Attempt) -> None:
        self._stopwatch = stopwatch
        self._durations = attempt.durations
        self._last = stopwatch()

    def lap(self, point: str) -> None:
        now = self._stopwatch()
        self._durations[point] = now - self._last
        self._last = now


class Run(Struct, eq=False):
    """One cycle: the pod and the snapshot of the cluster that it uses."""

    context: CycleContext
    profile: Profile
    pod: PodInfo
    attempt: Attempt
    now: Now
    depth: Depth
    view: View
    pod_class: PodClass
    filters: ClassFilters
    of_class: ClassRun
    """The same as the class cache sees it."""
    extenders: ExtenderRound
    clock: Laps
    refused_first: int = -1
    """The row of the nominated node, which was looked at before all others, if it was refused."""
    refused_there: dict[int, Refusal] = {}
    """What extenders have said of that node: it holds unless they say something else in the search over all nodes."""
    is_large: bool = False
    """Whether it pauses between its steps: ten thousand terms take long in each of them."""

    @property
    def states(self) -> dict[str, State | Skip]:
        """Plugin name → its PreFilter answer."""
        return self.filters.states

    @property
    def unconcerned(self) -> frozenset[str]:
        """Plugins that the pod does not concern."""
        return self.pod_class.unconcerned

    @property
    def reserve_plugins(self) -> tuple[ReservePlugin, ...]:
        """The Reserve plugins that the pod concerns."""
        return self.pod_class.reserve_plugins

    @property
    def permit_plugins(self) -> tuple[PermitPlugin, ...]:
        """The Permit plugins that the pod concerns."""
        return self.pod_class.permit_plugins

    def filter_failed(self, error: Refusal) -> NotPlaced:
        """The end of an attempt in which a Filter plugin ended in an error on a node."""
        self.attempt.statuses["Filter"] = Code.ERROR.value
        self.attempt.failed += (("Filter", error.plugin),)
        return NotPlaced(failed_at("Filter", error.plugin, error.message), is_error=True)

    def refresh_scores(self) -> bool:
        """Brings the class's scores up to date. False where a plugin failed: perhaps on a row that is not to be scored,
        as on one that a sample leaves out. Then only ``rank`` says what the others score."""
        try:
            self.pod_class.scores.refresh(self.of_class, self.filters.first)
        except PluginError:
            return False
        return True

    def scoring_failed(self, at: str) -> None:
        """Record the failed scoring in the attempt: its status and its time, under the extension point of the
        plugin."""
        point = "PreScore" if at == "PreScore" else "Score"
        self.attempt.statuses[point] = Code.ERROR.value
        self.clock.lap(point)
