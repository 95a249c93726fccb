"""What would help a waiting pod: single changes of it, of the cluster or of its priority, each proven by the cycle.

Every change is tried on a fork of its own. The largest request that fits and the lowest priority that preempts are
found by bisection: a smaller request never fits worse, and a higher priority never preempts less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Final

import msgspec
import numpy as np

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.engine import Engine
from scheduler.engine.gate_facts import gates_of
from scheduler.engine.questions.answers import SECONDS, STEPS
from scheduler.engine.questions.changes import (
    Change,
    Effort,
    Values,
    asking_less,
    most,
    relaxed,
    shown_taint,
    tolerating,
    wanted_keys,
    with_priority,
)
from scheduler.engine.questions.edits import (
    HOSTNAME,
    AddNodes,
    Consequences,
    Edit,
    RemovePod,
    Uncordon,
    WrongQuestion,
    apply_edits,
)
from scheduler.engine.questions.evictions import DAEMON_SET, MIRROR, created_again
from scheduler.engine.questions.names import shown
from scheduler.engine.questions.trial import Trial, Tried
from scheduler.engine.questions.what_if import IsOver, never
from scheduler.framework.diagnosis import Diagnosis
from scheduler.messages.now import Now
from scheduler.messages.status import Code
from scheduler.objects.meta import controller_of
from scheduler.objects.node import Node, Taint
from scheduler.objects.shown_amounts import shown_amount
from scheduler.objects.taints import TolerationIndex, first_untolerated_taint
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.queued_pod import QueuedPod

MAX_TRIALS: Final = 400
MAX_OF_A_KIND: Final = 10
"""Taints, cordoned nodes and kinds of nodes that are tried, the most frequent first."""
MAX_ROWS: Final = 40
MAX_RESOURCES: Final = 64
"""Resources by which rows are compared: of each, an amount a row is kept."""
MAX_PODS_TRIED: Final = 40
MAX_PODS_FOUND: Final = 3
_SLICE: Final = 500
_COMMON: Final = ("cpu", "memory", "ephemeral-storage")


class Help(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A change with which the pod fits."""

    change: str
    """The kind of change, such as ``resource``."""
    text: str
    node: str
    """Where it would go."""
    allowed_count: int = 0
    pod: str = ""
    """The pod that goes or is moved."""
    moves_to: str = ""
    victims: tuple[str, ...] = ()
    hidden_victims: int = 0


class Helps(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pod: str
    message: str = ""
    """Why it waits."""
    fits_now: str = ""
    """The node on which it fits already."""
    helps: tuple[Help, ...] = ()
    values: tuple[Values, ...] = ()
    """What it wants of nodes and what they have."""
    hidden: int = 0
    """Changes that concern pods of namespaces whose pods the asker may not list."""
    trials: int = 0
    bound: str = ""
    """The bound that ended the search, "" if it is complete."""


def what_helps(engine: Engine, key: str, now: Now, is_over: IsOver = never) -> Generator[None, None, Helps]:
    """The changes with which a waiting pod (``namespace/name``) fits; yields after each trial.

    Raises WrongQuestion for a pod that is not known or does not wait.
    """
    info = engine.known_pods.get(key)
    if info is None:
        raise WrongQuestion(f"pod {shown(key)} is not known here")
    placed = engine.cache.placed(info.uid)
    if info.node_name or placed is not None:
        raise WrongQuestion(f"pod {shown(key)} is on a node")
    return (yield from _Search(engine, info, now, is_over).run())


class _Search:
    def __init__(self, engine: Engine, info: PodInfo, now: Now, is_over: IsOver) -> None:
        self._engine = engine
        self._info = info
        self._now = now
        self._is_over = is_over
        self._found: list[tuple[tuple[int, float], Help]] = []
        self._trials = 0
        self._bound = ""

    def run(self) -> Generator[None, None, Helps]:
        info = self._info
        gate, base = self._gate(info), self._place(info)
        yield
        if base.node and not gate:
            return Helps(info.key, fits_now=base.node, trials=self._trials)
        message = gate or base.message
        values = yield from self._values(base)
        yield
        yield from self._relaxed()
        if not gate:
            diagnosis = base.attempt.diagnosis if base.attempt is not None else None
            if diagnosis is not None:
                yield from self._less(diagnosis)
                yield from self._taints(base)
                yield from self._uncordoned(diagnosis)
                yield from self._without_a_pod(diagnosis)
            yield from self._priority()
            yield from self._one_more_node()
        found = [one for _, one in sorted(self._found, key=lambda pair: pair[0])]
        return Helps(info.key, message, "", tuple(found), values, trials=self._trials, bound=self._bound)

    # --- trials -------------------------------------------------------------------------------------------------------

    def _is_bounded(self) -> bool:
        if not self._bound:
            if self._trials >= MAX_TRIALS:
                self._bound = STEPS
            elif self._is_over():
                self._bound = SECONDS
        return bool(self._bound)

    def _place(self, pod: PodInfo, *edits: Edit) -> Tried:
        return self._place_on(self._trial(*edits), pod)

    def _preempt(self, pod: PodInfo) -> Generator[None, None, Tried]:
        self._trials += 1
        return (yield from self._trial().place_in_steps(pod))

    def _trial(self, *edits: Edit) -> Trial:
        trial = Trial(self._engine, self._now)
        for _ in apply_edits(trial, edits, Consequences()):
            pass
        return trial

    def _place_on(self, trial: Trial, pod: PodInfo) -> Tried:
        self._trials += 1
        return trial.place(pod)

    def _gate(self, info: PodInfo) -> str:
        engine = self._engine
        gates = gates_of(engine.profiles, engine.cache, engine.room, QueueMetrics())
        refusal = gates(QueuedPod(info, 0))
        return "" if refusal is None else f"held back by {refusal.plugin}: {refusal.message}"

    def _note(self, effort: Effort, size: float, text: str, tried: Tried, pod: str = "", moves_to: str = "") -> None:
        entry = Help(
            effort.name.lower().replace("_", " "),
            text,
            tried.node,
            len(tried.allowed),
            pod,
            moves_to,
            tuple([victim.key for victim in tried.victims]),
        )
        self._found.append(((effort, size), entry))

    def _try(self, change: Change, size: float = 0.0) -> None:
        if self._gate(change.pod):
            return
        tried = self._place(change.pod)
        if tried.node:
            self._note(change.effort, size, change.text, tried)

    # --- changes of the pod -------------------------------------------------------------------------------------------

    def _relaxed(self) -> Generator[None, None, None]:
        for change in relaxed(self._info):
            if self._is_bounded():
                return
            self._try(change)
            yield

    def _taints(self, base: Tried) -> Generator[None, None, None]:
        counts: Counter[Taint] = Counter()
        tolerations = TolerationIndex(self._info.pod.spec.tolerations)
        for node in self._nodes():
            taint = first_untolerated_taint(node.taints, tolerations) if node.taints else None
            if taint is not None and not node.unschedulable:
                counts[Taint(taint.key, taint.value, taint.effect)] += 1
        yield
        for taint, count in counts.most_common(MAX_OF_A_KIND):
            if self._is_bounded():
                return
            self._try(tolerating(self._info, taint), -count)
            yield

    def _less(self, diagnosis: Diagnosis) -> Generator[None, None, None]:
        """For each resource that is short somewhere: the most of it with which the pod fits."""
        reasons = {reason for refusal in diagnosis.refusals for reason in refusal.reasons}
        table = self._engine.cache.table
        rows = table.order.rows
        for resource in (*_COMMON, *self._info.requests.scalars):
            wanted = self._info.requests.amount(resource)
            if not wanted or f"Insufficient {resource}" not in reasons:
                continue
            free = (table.allocatable(resource) - table.requested(resource))[rows]
            amounts = [0, *np.unique(free[(free > 0) & (free < wanted)]).tolist()]

            def fits(amount: int, resource: str = resource) -> Generator[None, None, Tried | None]:
                less = asking_less(self._info, resource, amount)
                yield
                tried = self._place(less) if less is not None else None
                return tried if tried is not None and tried.node else None

            best = yield from self._last_that(amounts, fits)
            if best is not None:
                amount, tried = best
                text = (
                    f"request {shown_amount(resource, wanted - amount)} {resource} less: "
                    f"{shown_amount(resource, amount)} in place of {shown_amount(resource, wanted)}"
                )
                self._note(Effort.RESOURCE, (wanted - amount) / wanted, text, tried)

    def _last_that(
        self, ascending: list[int], holds: Callable[[int], Generator[None, None, Tried | None]]
    ) -> Generator[None, None, tuple[int, Tried] | None]:
        """The last value for which it holds, where it holds for all values before; None if for none."""
        low, high, best = 0, len(ascending), None
        while low < high and not self._is_bounded():
            middle = 0 if best is None and low == 0 else (low + high) // 2
            tried = yield from holds(ascending[middle])
            yield
            if tried is None:
                high = middle
            else:
                best, low = (ascending[middle], tried), middle + 1
        return best

    def _priority(self) -> Generator[None, None, None]:
        info = self._info
        tried = yield from self._preempt(info)
        yield
        if tried.node:
            self._note(Effort.PRIORITY, 0, "nothing: it preempts by the priority that it has", tried)
            return
        priorities: set[int] = set()
        for number, one in enumerate(list(self._engine.cache.pods.values())):
            priorities.add(one.priority)
            if number % (10 * _SLICE) == 0:
                yield
        lowest = info.priority if info.pod.spec.preemption_policy == "Never" else info.priority + 1
        steps = sorted({lowest, *(one + 1 for one in priorities if one + 1 > lowest)}, reverse=True)

        def preempts(priority: int) -> Generator[None, None, Tried | None]:
            found = yield from self._preempt(with_priority(info, priority))
            return found if found.node else None

        best = yield from self._last_that(steps, preempts)
        if best is not None:
            priority, tried = best
            if priority == info.priority:
                text = "allow it to preempt (preemptionPolicy)"
            else:
                text = f"priority {priority} in place of {info.priority}: from there on it preempts"
            self._note(Effort.PRIORITY, len(tried.victims), text, tried)

    # --- changes of the cluster ---------------------------------------------------------------------------------------

    def _nodes(self) -> Iterator[Node]:
        table = self._engine.cache.table
        for row in table.order.rows.tolist():
            node = table.nodes[row]
            if node is not None:
                yield node

    def _uncordoned(self, diagnosis: Diagnosis) -> Generator[None, None, None]:
        closed = [node.name for node in self._nodes() if node.unschedulable][:MAX_OF_A_KIND]
        yield
        for name in closed:
            if self._is_bounded():
                return
            tried = self._place(self._info, Uncordon(name))
            if tried.node:
                self._note(Effort.UNCORDON, 0, f"open node {name} for new pods (uncordon)", tried)
            yield

    def _one_more_node(self) -> Generator[None, None, None]:
        """One more like the nodes of each kind: of the same labels, taints and room."""
        kinds: dict[object, tuple[str, int]] = {}
        for number, node in enumerate(list(self._nodes())):
            labels = frozenset(pair for pair in node.labels.items() if pair[0] != HOSTNAME)
            kind = (frozenset(node.status.allocatable.items()), labels, node.taints)
            name, count = kinds.get(kind, (node.name, 0))
            kinds[kind] = name, count + 1
            if number % _SLICE == _SLICE - 1:
                yield
        for name, count in sorted(kinds.values(), key=lambda pair: -pair[1])[:MAX_OF_A_KIND]:
            if self._is_bounded():
                return
            tried = self._place(self._info, AddNodes(name))
            if tried.node:
                like = f"{name} (there are {count})" if count > 1 else name
                self._note(Effort.NODE_ADDED, -count, f"one more node like {like}", tried)
            yield

    def _without_a_pod(self, diagnosis: Diagnosis) -> Generator[None, None, None]:
        """Pods whose end makes room; they count as moved where they fit elsewhere once this pod is placed."""
        tried_pods = found = 0
        for row, short in self._nearest(diagnosis):
            for other in self._in_the_way(row, short):
                if tried_pods >= MAX_PODS_TRIED or found >= MAX_PODS_FOUND or self._is_bounded():
                    return
                tried_pods += 1
                trial = self._trial(RemovePod(other.key))
                tried = self._place_on(trial, self._info)
                yield
                if not tried.node:
                    continue
                found += 1
                again = trial.place(created_again(other, f"what-helps-{other.uid}"))
                if again.node:
                    text = f"move pod {other.key} from {other.node_name} to {again.node}"
                    self._note(Effort.POD_MOVED, found, text, tried, other.key, again.node)
                else:
                    text = f"without pod {other.key} on {other.node_name}, which would not fit elsewhere"
                    self._note(Effort.POD_GONE, found, text, tried, other.key)
                yield
                break

    def _nearest(self, diagnosis: Diagnosis) -> list[tuple[int, dict[str, int]]]:
        """Rows on which other pods are in the way, with what is short of each resource: the least short first."""
        table = self._engine.cache.table
        rows = diagnosis.rows_refused_as(Code.UNSCHEDULABLE)
        requests = self._info.requests
        resources = [name for name in (*_COMMON, *requests.scalars) if requests.amount(name)][:MAX_RESOURCES]
        total = np.zeros(len(rows))
        shorts = {}
        for name in resources:
            short = np.maximum(requests.amount(name) - (table.allocatable(name) - table.requested(name))[rows], 0)
            shorts[name] = short
            total += short / max(requests.amount(name), 1)
        order = np.argsort(total, kind="stable")[:MAX_ROWS].tolist()
        return [(int(rows[at]), {name: int(short[at]) for name, short in shorts.items() if short[at]}) for at in order]

    def _in_the_way(self, row: int, short: dict[str, int]) -> list[PodInfo]:
        """Pods of a row that hold at least what is short, the least important and smallest first."""
        held = [
            other
            for other in self._engine.cache.table.pods[row].values()
            if all(other.charged.amount(name) >= amount for name, amount in short.items()) and _may_go(other)
        ]
        held.sort(key=lambda one: (one.priority, one.charged.milli_cpu, one.charged.memory, one.key))
        return held[: 2 if short else MAX_OF_A_KIND]

    # --- values -------------------------------------------------------------------------------------------------------

    def _values(self, base: Tried) -> Generator[None, None, tuple[Values, ...]]:
        found: list[Values] = []
        for key, wanted in wanted_keys(self._info).items():
            found.append(Values(wanted, most(Counter(node.labels.get(key, "") for node in self._nodes()))))
            yield
        yield
        tolerations = TolerationIndex(self._info.pod.spec.tolerations)
        taints: Counter[str] = Counter()
        for node in self._nodes():
            taint = first_untolerated_taint(node.taints, tolerations) if node.taints else None
            if taint is not None:
                taints[shown_taint(taint)] += 1
        if taints:
            found.append(Values("a toleration", most(taints)))
        return tuple(found)


def _may_go(other: PodInfo) -> bool:
    owner = controller_of(other.pod.metadata)
    return MIRROR not in other.pod.metadata.annotations and (owner is None or owner.kind != DAEMON_SET)
