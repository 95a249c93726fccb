"""What if: pods are asked about, objects change, and the cycle says on a fork where everything would go.

The question is a generator: each step tries one pod or makes one change, so that scheduling goes on in between. Pods
are tried in the order of the queue: those that wait already (if something changes), the evicted, the asked ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterator
from typing import Final

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.engine import Engine
from scheduler.engine.gate_facts import gates_of
from scheduler.engine.questions.admission import Priorities, WrongManifest, is_claim_template
from scheduler.engine.questions.answers import (
    ADDED,
    ASKED,
    EVICTED,
    MAX_LISTED,
    MAX_NODES_NAMED,
    PREEMPTED,
    SECONDS,
    STEPS,
    WAITING,
    Answer,
    BudgetPage,
    Placement,
    Room,
)
from scheduler.engine.questions.applying import apply_edits
from scheduler.engine.questions.asked_pods import AskedPods
from scheduler.engine.questions.device_claims import DeviceClaims, stated_templates
from scheduler.engine.questions.edits import Consequences, WrongQuestion, priority_classes
from scheduler.engine.questions.evictions import Evictions
from scheduler.engine.questions.names import WrongName
from scheduler.engine.questions.notes import of_evictions, of_manifests
from scheduler.engine.questions.question import Question, check_question
from scheduler.engine.questions.refusals import refusals_of
from scheduler.engine.questions.trial import Basis, Trial, Tried
from scheduler.engine.questions.workloads import Workload, workload_of
from scheduler.framework.sort_keys import SortKey
from scheduler.messages.now import Now
from scheduler.queue.clock import SECOND
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.queued_pod import QueuedPod

MAX_STEPS: Final = 20_000
"""Pods tried for one question."""
MAX_WAITING: Final = 5_000
_SEARCHED: Final = 500


IsOver = Callable[[], bool]
"""Whether the time for a question is up."""


def never() -> bool:
    return False


def what_if(
    engine: Engine, question: Question, now: Now, basis: Basis | None = None, is_over: IsOver = never
) -> Generator[None, None, Answer]:
    """The answer; yields after each step. Raises WrongQuestion, also between two steps.

    ``basis``: the profiles of ``question.configuration``, made by the caller.
    """
    check_question(question)
    try:
        return (yield from _Prediction(engine, question, now, basis, is_over).run())
    except (WrongManifest, WrongName) as error:
        raise WrongQuestion(str(error)) from error


class _Prediction:
    """The state of one question."""

    def __init__(self, engine: Engine, question: Question, now: Now, basis: Basis | None, is_over: IsOver) -> None:
        self._engine = engine
        self._question = question
        self._is_over = is_over
        self._trial = Trial(engine, now, seed=question.seed, basis=basis, chosen=question.chosen)
        self._start = engine.queue.clock.read(now)
        templates = stated_templates([one.manifest for one in question.workloads], question.edits)
        self._devices = DeviceClaims(self._trial, engine.known_pods, templates)
        self._asked = AskedPods(self._trial, self._devices)
        self._gates = gates_of(self._trial.profiles, self._trial.cache, engine.room, QueueMetrics())
        self._sort = next(iter(self._trial.profiles.values())).queue_sort
        self._heap: list[tuple[SortKey, int, PodInfo, str, str, tuple[Workload, int] | None]] = []
        self._serial = 0
        self._priorities = Priorities(engine.known_pods, priority_classes(question.edits))
        self._consequences = Consequences(self._priorities)
        self._placements: list[Placement] = []
        self._placed = self._pending = self._steps = self._evicted = 0
        self._chance = self._have_more_waited = False
        self._bound = ""
        self._gangs: set[str] = set()
        self._seconds: dict[str, int] = {}
        """By the UID of a pod in place of one that leaves later: how long that stays."""

    def run(self) -> Generator[None, None, Answer]:
        question, changes = self._question, self._consequences
        yield
        workloads = yield from self._workloads()
        yield from apply_edits(self._trial, question.edits, changes)
        yield from self._queue_up(workloads)
        yield from self._place_all()
        rooms: list[Room] = []
        if question.finds_max:
            for workload in workloads:
                rooms.append((yield from self._room_for(workload)))
        return self._answer(rooms)

    # --- who is tried -------------------------------------------------------------------------------------------------

    def _workloads(self) -> Generator[None, None, list[Workload]]:
        priorities = self._priorities
        ours = next(iter(self._trial.profiles))
        found = []
        for serial, asked in enumerate(self._question.workloads):
            if is_claim_template(asked.manifest):
                continue
            workload = workload_of(asked.manifest, asked.replicas, priorities.of(asked.manifest), ours, serial)
            if workload.owner is not None:
                self._trial.cache.observe_object(*workload.owner)
            found.append(workload)
            yield
        if sum([one.count for one in found if self._group_of(one)]) > MAX_STEPS:
            raise WrongQuestion(f"more than {MAX_STEPS} pods of groups, all of which count for a quorum at once")
        return found

    def _group_of(self, workload: Workload) -> str:
        return self._trial.cache.groups.key_of(workload.pod(0)) if workload.count else ""

    def _queue_up(self, workloads: list[Workload]) -> Generator[None, None, None]:
        question = self._question
        if question.with_waiting or (question.with_waiting is None and question.edits):
            waiting = yield from self._engine.queue.first_waiting(MAX_WAITING + 1, _SEARCHED)
            self._have_more_waited = len(waiting) > MAX_WAITING
            for number, record in enumerate(waiting[:MAX_WAITING]):
                if record.uid not in self._consequences.replaced and not record.info.is_terminating:
                    self._push(record.info, WAITING, "", record.timestamp)
                if number % _SEARCHED == _SEARCHED - 1:
                    yield
        self._push_evicted()
        for info in self._consequences.added:
            self._push(self._devices.given_to(info), ADDED, "")
        for workload in workloads:
            if not workload.count:
                continue
            self._push(self._asked.pod(workload, 0), ASKED, "", source=(workload, 0))
            if self._group_of(workload):
                # All of them count for the quorum before the first one is tried.
                for number in range(1, workload.count):
                    self._trial.cache.groups.pending_shown(self._asked.pod(workload, number))
                    if number % _SEARCHED == 0:
                        yield

    def _push_evicted(self) -> None:
        """Add the evicted pods to those to be tried, if they are not yet among them."""
        evicted = self._consequences.evicted
        for one in evicted[self._evicted :]:
            self._push(one.pod, EVICTED, one.node)
            if one.after_seconds:
                self._seconds[one.pod.uid] = one.after_seconds
        self._evicted = len(evicted)

    def _push(
        self,
        info: PodInfo,
        origin: str,
        node: str,
        timestamp: int | None = None,
        source: tuple[Workload, int] | None = None,
    ) -> None:
        """``timestamp``: queue time; None: it comes now, after those that came before. ``source``: of a workload's pod,
        whose successor is made when this one is tried."""
        self._serial += 1
        self._trial.cache.groups.pending_shown(info)
        time = self._start + self._serial if timestamp is None else timestamp
        key = self._sort.sort_key(info, time / SECOND)
        heapq.heappush(self._heap, (key, self._serial, info, origin, node, source))

    # --- trying -------------------------------------------------------------------------------------------------------

    def _place_all(self) -> Generator[None, None, None]:
        """Try all that are there; then those that leave only after that, and so on."""
        changes, evictions = self._consequences, self._consequences.evictions
        while True:
            yield from self._place_queued()
            # Checked here, too: there may be as many turns as pods, and pods that are not created again take no step.
            if self._bound or evictions is None or (evictions.still_to_leave and self._is_bounded()):
                return
            if not (yield from evictions.next_to_leave(changes.evicted, changes.left)):
                evictions.end_turns(changes.left)
                return
            self._push_evicted()
            yield

    def _place_queued(self) -> Generator[None, None, None]:
        while self._heap:
            if self._is_bounded():
                return
            gang = self._gang_of(self._heap[0][2])
            if gang:
                yield from self._place_gang(gang)
                continue
            _, _, info, origin, node, source = heapq.heappop(self._heap)
            if source is not None and source[1] + 1 < source[0].count:
                number = source[1] + 1
                self._push(self._asked.pod(source[0], number), ASKED, "", source=(source[0], number))
            self._steps += 1
            yield from self._place(info, origin, node)
            yield

    # --- groups that start together -----------------------------------------------------------------------------------

    def _gang_of(self, info: PodInfo) -> str:
        """``namespace/name`` of the pod's group if that demands a quorum and has it, else ""."""
        key = self._trial.cache.groups.key_of(info)
        return key if self._trial.cache.groups.has_quorum(key) else ""

    def _place_gang(self, key: str) -> Generator[None, None, None]:
        """Try every member; where fewer find a node than must start together, none of them has one."""
        self._gangs.add(key)
        first = len(self._placements)
        placed: list[PodInfo] = []
        members = yield from self._take_members(key)
        for number, (info, origin, left_node) in enumerate(members):
            if self._is_bounded():
                for rest, where, left in members[number:]:
                    self._push(rest, where, left)
                return
            self._steps += 1
            self._mind_turns(info)
            message = self._held_back(info)
            tried = Tried(info, message=message) if message else self._trial.place(info)
            self._note(self._described(tried, origin, left_node))
            if tried.node:
                placed.append(info)
                self._chance = self._chance or len(tried.allowed) > 1
            yield
        groups = self._trial.cache.groups
        group = groups.get(key)
        needed = group.min_count if group is not None and group.min_count is not None else 0
        if len(groups.members(key).placed) >= needed:
            return
        for info in placed:
            self._trial.take_back(info)
        self._placed -= len(placed)
        self._pending += len(placed)
        message = f"its group {key} needs {needed} pods on nodes at once, and {len(placed)} of {len(members)} found one"
        chance = self._chance  # with another choice of nodes all might have fitted
        self._placements[first:] = [
            Placement(one.pod, one.origin, "", one.left_node, one.after_seconds, message=message, after_chance=chance)
            if one.node
            else one
            for one in self._placements[first:]
        ]

    def _take_members(self, key: str) -> Generator[None, None, list[tuple[PodInfo, str, str]]]:
        """The pods of a group that are still to be tried, in the queue's order."""
        found: list[tuple[PodInfo, str, str]] = []
        others = []
        for entry in sorted(self._heap, key=lambda entry: entry[:2]):
            _, _, info, origin, node, source = entry
            if self._trial.cache.groups.key_of(info) != key:
                others.append(entry)
                continue
            found.append((info, origin, node))
            if source is not None:
                workload, number = source
                for later in range(number + 1, workload.count):
                    found.append((self._asked.pod(workload, later), origin, node))
                    if later % _SEARCHED == 0:
                        yield
        self._heap = others
        return found

    # --- bounds and notes ---------------------------------------------------------------------------------------------

    def _is_bounded(self) -> bool:
        if not self._bound:
            if self._steps >= MAX_STEPS:
                self._bound = STEPS
            elif self._is_over():
                self._bound = SECONDS
        return bool(self._bound)

    def _held_back(self, info: PodInfo) -> str:
        """Why the pod is not tried; "" if nothing holds it back."""
        gate = self._gates(QueuedPod(info, self._start))
        return "" if gate is None else f"held back by {gate.plugin}: {gate.message}"

    def _mind_turns(self, info: PodInfo) -> None:
        """Which pods of a budget go first is left to chance, and when the next may go depends on when those are
        ready."""
        evictions = self._consequences.evictions
        self._chance = self._chance or (evictions is not None and info.uid in evictions.in_turns)

    def _place(self, info: PodInfo, origin: str, left_node: str) -> Generator[None, None, None]:
        self._mind_turns(info)
        message = self._held_back(info)
        if message:
            self._note(Placement(info.key, origin, "", left_node, self._seconds.get(info.uid, 0), message=message))
            return
        tried = yield from self._trial.place_in_steps(info)
        # When victims are gone is a matter of time: here they are at once. Pods that are tried before that may take
        # what the preemptor needs, since they respect its nomination on its own node only.
        self._chance = self._chance or bool(tried.victims and self._heap)
        self._note(self._described(tried, origin, left_node))
        is_other = len(tried.allowed) > 1 and self._question.chosen.get(info.key) != tried.node
        self._chance = self._chance or is_other or bool(tried.victims)
        evictions = self._consequences.evictions or Evictions(self._trial)
        self._consequences.evictions = evictions
        for victim in tried.victims:
            again = evictions.again(victim)
            if again is not None:
                self._push(again, PREEMPTED, victim.node_name)

    def _note(self, placement: Placement) -> None:
        if placement.node:
            self._placed += 1
        else:
            self._pending += 1
        if len(self._placements) < MAX_LISTED:
            self._placements.append(placement)

    def _described(self, tried: Tried, origin: str, left_node: str) -> Placement:
        profile = "" if self._trial.is_ours(tried.pod) else self._trial.profile_of(tried.pod).scheduler_name
        return Placement(
            pod=tried.pod.key,
            origin=origin,
            node=tried.node,
            left_node=left_node,
            after_seconds=self._seconds.get(tried.pod.uid, 0),
            allowed_count=len(tried.allowed),
            allowed=tried.allowed[:MAX_NODES_NAMED],
            is_sampled=tried.is_sampled,
            after_chance=self._chance,
            victims=tuple([victim.key for victim in tried.victims]),
            violated_budgets=tried.violated_budgets,
            message=tried.message,
            refused=() if tried.node else refusals_of(self._trial, tried),
            waits=tried.waits,
            by_profile=profile,
        )

    # --- how many more ------------------------------------------------------------------------------------------------

    def _room_for(self, workload: Workload) -> Generator[None, None, Room]:
        by_node: dict[str, int] = {}
        number = workload.count
        while not self._is_bounded():
            tried = self._trial.place(self._asked.pod(workload, number))
            self._steps += 1
            if not tried.node:
                refused = refusals_of(self._trial, tried)
                return Room(workload.name, number - workload.count, False, by_node, refused, tried.message)
            by_node[tried.node] = by_node.get(tried.node, 0) + 1
            number += 1
            yield
        return Room(workload.name, number - workload.count, True, by_node)

    def _answer(self, rooms: list[Room]) -> Answer:
        changes = self._consequences
        budgets = changes.evictions.in_the_way if changes.evictions is not None else ()
        still_to_leave = changes.evictions.still_to_leave if changes.evictions is not None else 0
        return Answer(
            nodes=self._trial.cache.view.total_nodes,
            placed=self._placed,
            pending=self._pending,
            seed=self._question.seed,
            placements=tuple(self._placements),
            left=tuple([one.listed() for one in changes.left[:MAX_LISTED]]),
            left_count=len(changes.left),
            budgets=tuple([BudgetPage(one.key, one.wanted, one.allowed, one.blocked) for one in budgets]),
            nodes_added=tuple(changes.nodes_added),
            room=tuple(rooms),
            steps=self._steps,
            bound=self._bound,
            not_tried=still_to_leave
            + sum(source[0].count - source[1] if source is not None else 1 for *_, source in self._heap),
            notes=tuple(self._notes()),
            warnings=self._trial.warnings,
        )

    def _notes(self) -> Iterator[str]:
        if self._engine.extenders:
            yield "extenders were not asked"
        if self._gangs:
            yield "groups were tried as a whole, without preemption and without their topology constraints"
        if self._have_more_waited:
            yield f"of the pods that wait only the first {MAX_WAITING} were considered"
        yield from self._asked.notes()
        yield from self._devices.notes()
        yield from of_manifests(self._question, self._trial.cache.objects)
        yield from of_evictions(self._consequences.evicted, self._consequences.left)
