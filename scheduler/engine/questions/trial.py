"""A fork of the cluster on which pods are really scheduled: the scheduling cycle itself, without extenders.

Where several nodes score alike, a trial takes one by a source of chance of its own and says which it had to choose
from: the *allowed set*. It is the set of nodes that the engine may choose in the same situation.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.cycle_context import CycleContext, Depth
from scheduler.engine.driving import run_in_steps
from scheduler.engine.engine import Engine
from scheduler.engine.group_cycle import ForkAssumptions
from scheduler.engine.machine import ReadsPods
from scheduler.engine.outcome import CycleOutcome, NotPlaced, Placed
from scheduler.engine.questions.claims import release_devices
from scheduler.engine.scheduling_cycle import scheduling_cycle
from scheduler.framework.classes.cache import ClassCache
from scheduler.framework.classes.first_refusals import FITS
from scheduler.framework.post_filter import Kept, NominationMode, PutOff, Remove, WaitForBudget, WaitForVictims
from scheduler.framework.preemption_policy import PreemptionPolicy
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.status import Refusal
from scheduler.objects.steps import run_to_end
from scheduler.preemption.evaluation import PreemptionEvidence

DEFAULT_SEED: Final = 0
MAX_ROUNDS: Final = 4
"""Attempts at one pod: one that preempts, one that takes the room, and what a racing nomination may cost."""
MIN_SAMPLED_CANDIDATES: Final = 100
"""DefaultPreemption's default minimum of candidates: with as many or more it may have left nodes out by chance."""


class Tried(Struct, frozen=True):
    """The outcome of one pod in a trial. ``node`` "": it found none, and ``message`` says why."""

    pod: PodInfo
    node: str = ""
    allowed: tuple[str, ...] = ()
    """The nodes among which chance decided, the chosen one included; in the order of the node table."""
    is_sampled: bool = False
    """Nodes were sampled, so that the allowed set is that of this sample."""
    victims: tuple[PodInfo, ...] = ()
    """The pods that left for it, most important first."""
    violated_budgets: int = 0
    message: str = ""
    is_error: bool = False
    waits: tuple[str, ...] = ()
    """The Permit plugins that it waits for on its node."""
    attempt: Attempt | None = None
    """The last attempt."""


class Basis(Struct, frozen=True):
    """Profiles other than the engine's, for questions about another configuration."""

    profiles: Mapping[str, Profile]
    percentage_of_nodes_to_score: int | None = None
    warnings: tuple[str, ...] = ()
    """What the configuration says in vain."""


class Filtered:
    """The filters' codes of all rows: ``FITS``, or the place of the refusal."""

    def __init__(
        self, codes: npt.NDArray[np.integer[Any]], refusals: Sequence[Refusal], size: int, message: str
    ) -> None:
        self._codes = codes
        self._refusals = refusals
        self._size = size
        self.message = message
        """Why no node was found, "" if one was."""

    @property
    def fits(self) -> npt.NDArray[np.bool_]:
        if not len(self._codes):
            return np.zeros(self._size, np.bool_)
        fits: npt.NDArray[np.bool_] = self._codes == FITS
        return fits

    def refused_by(self, plugin: str) -> npt.NDArray[np.bool_]:
        """The rows that this plugin was the first to refuse."""
        if not len(self._codes):
            return np.zeros(self._size, np.bool_)
        numbers = [number for number, one in enumerate(self._refusals) if number > FITS and one.plugin == plugin]
        return np.isin(self._codes, numbers)


class Trial:
    """One fork. ``chosen``: ``namespace/name`` → the node to take where it is among equally good ones."""

    def __init__(
        self,
        engine: Engine,
        now: Now,
        *,
        seed: int = DEFAULT_SEED,
        basis: Basis | None = None,
        chosen: Mapping[str, str] | None = None,
    ) -> None:
        rng = Random(seed)
        context = engine.cycles.fork(rng)
        if basis is not None:
            context.classes = ClassCache()
            context.kept = Kept()
            context.percentage_of_nodes_to_score = basis.percentage_of_nodes_to_score
        self.cache: ClusterCache = context.cache
        ties = _Ties(self.cache, rng)
        self.profiles = engine.profiles if basis is None else basis.profiles
        self.warnings = () if basis is None else basis.warnings
        self.known_pods: ReadsPods = engine.known_pods
        """The pods that the watch has shown; what the trial does is not among them."""
        self.now = now
        self._context: CycleContext = replace(
            context,
            assumptions=ForkAssumptions(self.cache),
            policies=_Unhurried(engine, now),
            report=_ignore,
            tie_break=ties.pick,
        )
        self._chosen = chosen or {}
        self._ties = ties
        self.cache.devices.now_nanoseconds = now.wall

    def profile_of(self, pod: PodInfo) -> Profile:
        """The profile of the pod's scheduler name; the first one for a scheduler that is not ours."""
        found = self.profiles.get(pod.pod.spec.scheduler_name)
        return next(iter(self.profiles.values())) if found is None else found

    def placed(self, key: str) -> PodInfo | None:
        """The pod of the live cluster with this ``namespace/name``, if it is still on its node in the fork."""
        known = self.known_pods.get(key)
        return None if known is None else self.cache.placed(known.uid)

    def is_ours(self, pod: PodInfo) -> bool:
        return pod.pod.spec.scheduler_name in self.profiles

    def place(self, pod: PodInfo) -> Tried:
        """Schedule the pod in the fork without preemption: it counts on its node afterwards. A pod that only finds a
        node by removing others finds none, and nothing has changed."""
        return run_to_end(self.place_in_steps(pod, may_preempt=False))

    def place_in_steps(self, pod: PodInfo, *, may_preempt: bool = True) -> Generator[None, None, Tried]:
        """Schedule the pod in the fork: it counts on its node afterwards, and its victims are gone. Yields between the
        steps of a preemption."""
        victims: tuple[PodInfo, ...] = ()
        allowed: tuple[str, ...] = ()
        is_sampled, violated = False, 0
        for _ in range(MAX_ROUNDS):
            attempt, outcome = yield from self._attempt(self._as_nominated(pod), Depth.DECIDE, may_preempt)
            if isinstance(outcome, Placed):
                fresh = self._allowed(outcome.pod.node_name)
                return Tried(
                    pod,
                    outcome.pod.node_name,
                    allowed or fresh,
                    is_sampled or (not victims and self._sampled(attempt)),
                    victims,
                    violated,
                    waits=tuple(outcome.waits),
                    attempt=attempt,
                )
            room = outcome.room
            if not (may_preempt and isinstance(room, Remove)):
                return self._left_out(pod, attempt, outcome)
            evidence = attempt.preemption
            if isinstance(evidence, PreemptionEvidence):
                allowed = evidence.best or (room.node,)
                is_sampled = len(evidence.candidates) >= MIN_SAMPLED_CANDIDATES
                violated = next((one.pdb_violations for one in evidence.candidates if one.node_name == room.node), 0)
            victims += room.victims
            self._make_room(pod, room)
            yield
        return Tried(pod, victims=victims, message="room was made again and again, and it never fitted", is_error=True)

    def remove(self, pod: PodInfo) -> None:
        """The pod is gone from its node, with the devices that were its own."""
        self.cache.remove_pod(pod.uid)
        release_devices(self.cache, pod)

    def take_back(self, pod: PodInfo) -> None:
        """The pod that was placed is on no node again, and what was set aside for it is free."""
        self.cache.forget(pod.uid)

    def filtered(self, pod: PodInfo) -> Filtered:
        """The filters' answer for every row; nothing is placed, and no pod is preempted."""
        attempting = self._attempt(self._as_nominated(pod), Depth.PREVIEW, may_preempt=False)
        outcome = run_to_end(attempting)[1]
        found, _ = self._context.classes.find(self.profile_of(pod), pod, self.cache.view)
        codes = found.filters.codes if found.filters.pre_refusal is None else np.zeros(0, np.int64)
        message = "" if isinstance(outcome, Placed) else outcome.message
        return Filtered(np.asarray(codes), tuple(found.filters.refusals), self.cache.table.size, message)

    def _attempt(
        self, info: PodInfo, depth: Depth, may_preempt: bool
    ) -> Generator[None, None, tuple[Attempt, CycleOutcome]]:
        profile = self.profile_of(info)
        if not may_preempt:
            profile = replace(profile, post_filter_plugins=())
        attempt = Attempt(info.key, info.uid, profile.scheduler_name, number=0, started_wall=self.now.wall)
        self._ties.begin(self._chosen.get(info.key, ""))
        cycle = scheduling_cycle(self._context, profile, info, attempt, self.now, depth)
        return attempt, (yield from run_in_steps(cycle))

    def _allowed(self, node: str) -> tuple[str, ...]:
        names = self.cache.table.names
        return tuple([names[row] for row in self._ties.equals]) or (node,)

    def _sampled(self, attempt: Attempt) -> bool:
        percentage = self.profiles[attempt.scheduler_name].percentage_of_nodes_to_score
        if percentage is None:
            percentage = self._context.percentage_of_nodes_to_score
        return percentage is not None and 1 < attempt.evaluated_nodes < attempt.total_nodes

    def _left_out(self, pod: PodInfo, attempt: Attempt, outcome: NotPlaced) -> Tried:
        message = outcome.message
        if isinstance(outcome.room, WaitForVictims):
            message += " It waits for pods that are on their way out."
        elif isinstance(outcome.room, PutOff):
            message += " It waits until fewer removals are under way."
        elif isinstance(outcome.room, WaitForBudget):
            message += " It waits until a budget allows its victims to leave."
        if outcome.nomination.mode is NominationMode.CLEAR:
            self.cache.nominator.delete(pod.uid)
        return Tried(pod, message=message, is_error=outcome.is_error, attempt=attempt)

    def _make_room(self, pod: PodInfo, room: Remove) -> None:
        for victim in room.victims:
            self.remove(victim)
        self.cache.nominator.nominate(pod, room.node)

    def _as_nominated(self, info: PodInfo) -> PodInfo:
        node = self.cache.nominator.nominated_node(info.uid)
        return info.nominated_to(node) if node and node != info.pod.nominated_node_name else info


class _Ties:
    """Chooses among equally good rows and remembers them. Apart from ``Trial``, which would be in a reference cycle
    with its context: a fork must be gone with the last reference to it (docs/forks.md, rule 2)."""

    def __init__(self, cache: ClusterCache, rng: Random) -> None:
        self._cache = cache
        self._rng = rng
        self._wanted = ""
        self.equals: Sequence[int] = ()

    def begin(self, wanted: str) -> None:
        """An attempt begins; ``wanted`` is the node to take where it is among equals, or ""."""
        self._wanted, self.equals = wanted, ()

    def pick(self, rows: Sequence[int]) -> int:
        self.equals = rows
        if self._wanted:
            row = self._cache.table.existing_row(self._wanted)
            if row is not None and row in rows:
                return row
        return int(rows[int(self._rng.random() * len(rows))])


class _Unhurried:
    """The engine's policies without the limit of removals under way: a question is about the outcome, not about when it
    comes."""

    def __init__(self, engine: Engine, now: Now) -> None:
        self._room = engine.room
        self._now = now

    def policy_of(self, pod: PodInfo, now: Now) -> PreemptionPolicy:
        return replace(self._room.policy_of(pod, now), is_full=False)

    def policy_of_group(self, uid: str, pods: Sequence[PodInfo], now: Now) -> PreemptionPolicy:
        return replace(self._room.policy_of_group(uid, pods, now), is_full=False)


def _ignore(_message: str) -> None:
    """Discard a trial's messages for the log: the answer names what went wrong."""
