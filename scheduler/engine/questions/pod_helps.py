"""What would help a waiting pod by itself: single changes of it, of the cluster or of its priority.

Every change is tried on a fork of its own. The largest request that fits and the lowest priority that preempts are
found by bisection: a smaller request never fits worse, and a higher priority never preempts less.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import numpy as np

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.engine import Engine
from scheduler.engine.gate_facts import gates_of
from scheduler.engine.questions.applying import apply_edits
from scheduler.engine.questions.changes import (
    Change,
    Effort,
    asking_less,
    gone_or_moved,
    relaxed,
    tolerating,
    with_priority,
)
from scheduler.engine.questions.edits import AddNodes, Consequences, Edit, RemovePod, Uncordon
from scheduler.engine.questions.evictions import created_again_in
from scheduler.engine.questions.helps import MAX_OF_A_KIND, Bounds, Help, HelpList, Helps
from scheduler.engine.questions.obstacles import (
    SLICE,
    closed_nodes,
    kinds_of_nodes,
    pods_in_the_way,
    resources_of,
    taints_in_the_way,
    values_wanted,
)
from scheduler.engine.questions.trial import Trial, Tried
from scheduler.framework.diagnosis import Diagnosis
from scheduler.messages.now import Now
from scheduler.objects.shown_amounts import shown_amount
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.queued_pod import QueuedPod

MAX_PODS_TRIED: Final = 40
MAX_PODS_FOUND: Final = 3


class PodSearch:
    """Tries changes for one pod that has no node."""

    def __init__(self, engine: Engine, info: PodInfo, now: Now, bounds: Bounds) -> None:
        self._engine = engine
        self._info = info
        self._now = now
        self._bounds = bounds
        self._found = HelpList()

    def run(self) -> Generator[None, None, Helps]:
        """Search for changes with which the pod fits."""
        info = self._info
        gate = self._gate(info)
        base = self._place(info)
        yield
        if base.node and not gate:
            return Helps(info.key, fits_now=base.node, trials=self._bounds.trials)
        message = gate or base.message
        values = yield from values_wanted(self._engine.cache.table, [info])
        yield
        yield from self._relaxed()
        if not gate:
            diagnosis = base.attempt.diagnosis if base.attempt is not None else None
            if diagnosis is not None:
                yield from self._less(diagnosis)
                yield from self._taints()
                yield from self._uncordoned()
                yield from self._without_a_pod(diagnosis)
            yield from self._priority()
            yield from self._one_more_node()
        bounds = self._bounds
        return Helps(info.key, message, "", self._found.in_order, values, trials=bounds.trials, bound=bounds.bound)

    # --- trials -------------------------------------------------------------------------------------------------------

    def _place(self, pod: PodInfo, *edits: Edit) -> Tried:
        return self._place_on(self._trial(*edits), pod)

    def _preempt(self, pod: PodInfo) -> Generator[None, None, Tried]:
        self._bounds.trials += 1
        return (yield from self._trial().place_in_steps(pod))

    def _trial(self, *edits: Edit) -> Trial:
        trial = Trial(self._engine, self._now)
        for _ in apply_edits(trial, edits, Consequences()):
            pass
        return trial

    def _place_on(self, trial: Trial, pod: PodInfo) -> Tried:
        self._bounds.trials += 1
        return trial.place(pod)

    def _gate(self, info: PodInfo) -> str:
        engine = self._engine
        gates = gates_of(engine.profiles, engine.cache, engine.room, QueueMetrics())
        refusal = gates(QueuedPod(info, 0))
        return "" if refusal is None else f"held back by {refusal.plugin}: {refusal.message}"

    def _note(self, effort: Effort, size: float, text: str, tried: Tried, pod: str = "", moves_to: str = "") -> None:
        victims = tuple([victim.key for victim in tried.victims])
        self._found.add(effort, size, Help(effort.shown, text, tried.node, len(tried.allowed), pod, moves_to, victims))

    def _try(self, change: Change, size: float = 0.0) -> None:
        if self._gate(change.pod):
            return
        tried = self._place(change.pod)
        if tried.node:
            self._note(change.effort, size, change.text, tried)

    # --- changes of the pod -------------------------------------------------------------------------------------------

    def _relaxed(self) -> Generator[None, None, None]:
        for change in relaxed(self._info):
            if self._bounds.is_reached:
                return
            self._try(change)
            yield

    def _taints(self) -> Generator[None, None, None]:
        counts = taints_in_the_way(self._engine.cache.table, self._info)
        yield
        for taint, count in counts.most_common(MAX_OF_A_KIND):
            if self._bounds.is_reached:
                return
            self._try(tolerating(self._info, taint), -count)
            yield

    def _less(self, diagnosis: Diagnosis) -> Generator[None, None, None]:
        """For each resource that is short somewhere: the most of it with which the pod fits."""
        reasons = {reason for refusal in diagnosis.refusals for reason in refusal.reasons}
        table = self._engine.cache.table
        rows = table.order.rows
        for resource in resources_of(self._info):
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

            best = yield from self._bounds.last_that(amounts, fits)
            if best is not None:
                amount, tried = best
                text = (
                    f"request {shown_amount(resource, wanted - amount)} {resource} less: "
                    f"{shown_amount(resource, amount)} in place of {shown_amount(resource, wanted)}"
                )
                self._note(Effort.RESOURCE, (wanted - amount) / wanted, text, tried)

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
            if number % (10 * SLICE) == 0:
                yield
        lowest = info.priority if info.pod.spec.preemption_policy == "Never" else info.priority + 1
        steps = sorted({lowest, *(one + 1 for one in priorities if one + 1 > lowest)}, reverse=True)

        def preempts(priority: int) -> Generator[None, None, Tried | None]:
            found = yield from self._preempt(with_priority(info, priority))
            return found if found.node else None

        best = yield from self._bounds.last_that(steps, preempts)
        if best is not None:
            priority, tried = best
            if priority == info.priority:
                text = "allow it to preempt (preemptionPolicy)"
            else:
                text = f"priority {priority} in place of {info.priority}: from there on it preempts"
            self._note(Effort.PRIORITY, len(tried.victims), text, tried)

    # --- changes of the cluster ---------------------------------------------------------------------------------------

    def _uncordoned(self) -> Generator[None, None, None]:
        closed = closed_nodes(self._engine.cache.table)
        yield
        for name in closed:
            if self._bounds.is_reached:
                return
            tried = self._place(self._info, Uncordon(name))
            if tried.node:
                self._note(Effort.UNCORDON, 0, f"open node {name} for new pods (uncordon)", tried)
            yield

    def _one_more_node(self) -> Generator[None, None, None]:
        """One more like the nodes of each kind: of the same labels, taints and room."""
        for name, count in (yield from kinds_of_nodes(self._engine.cache.table)):
            if self._bounds.is_reached:
                return
            tried = self._place(self._info, AddNodes(name))
            if tried.node:
                like = f"{name} (there are {count})" if count > 1 else name
                self._note(Effort.NODE_ADDED, -count, f"one more node like {like}", tried)
            yield

    def _without_a_pod(self, diagnosis: Diagnosis) -> Generator[None, None, None]:
        """Pods whose end makes room; they count as moved where they fit elsewhere once this pod is placed."""
        tried_pods = found = 0
        for others in pods_in_the_way(self._engine.cache.table, self._info, diagnosis):
            for other in others:
                if tried_pods >= MAX_PODS_TRIED or found >= MAX_PODS_FOUND or self._bounds.is_reached:
                    return
                tried_pods += 1
                trial = self._trial(RemovePod(other.key))
                tried = self._place_on(trial, self._info)
                yield
                if not tried.node:
                    continue
                found += 1
                again = trial.place(created_again_in(trial.cache, other, f"what-helps-{other.uid}"))
                effort, text = gone_or_moved(other, again.node)
                self._note(effort, found, text, tried, other.key, again.node)
                yield
                break
