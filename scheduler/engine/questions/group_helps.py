"""What would help a group of pods: single changes with which it starts, each tried by the group's own cycle on a fork.

A change of pods is one of all members, or of all that are alike. The largest request and the lowest priority, the
number of nodes and that of pods are found by bisection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import Final

from scheduler.cluster.groups.group import Group
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.engine import Engine
from scheduler.engine.questions.answers import MAX_NODES_NAMED
from scheduler.engine.questions.applying import apply_edits
from scheduler.engine.questions.changes import Effort, Values, gone_or_moved
from scheduler.engine.questions.claims import make_claims_again
from scheduler.engine.questions.edits import (
    AddNodes,
    Consequences,
    Edit,
    RemovePod,
    Uncordon,
    WrongQuestion,
)
from scheduler.engine.questions.evictions import created_again_in
from scheduler.engine.questions.group_changes import (
    GroupChange,
    each_asking_less,
    more_pods,
    of_priority,
    other_topologies,
    priority_of,
    relaxed_alike,
    shapes,
    smaller_quorum,
    tolerating_all,
    without_minimum,
)
from scheduler.engine.questions.group_trial import GroupTrial, GroupTried
from scheduler.engine.questions.helps import MAX_OF_A_KIND, Bounds, Help, HelpList, Helps
from scheduler.engine.questions.names import shown
from scheduler.engine.questions.obstacles import (
    SLICE,
    closed_nodes,
    kinds_of_nodes,
    pods_in_the_way,
    resources_of,
    taints_in_the_way,
    values_wanted,
)
from scheduler.messages.now import Now
from scheduler.objects.node import Taint

MAX_PODS_TRIED: Final = 20
MAX_PODS_FOUND: Final = 3
NOTHING: Final = GroupChange(Effort.GATE, "")
NOT_STARTED: Final = GroupTried()


class GroupSearch:
    """Tries changes for a group (``namespace/name``). ``asked``: the member that is asked about, which must get a node
    with it; None: any."""

    def __init__(self, engine: Engine, key: str, now: Now, bounds: Bounds, *, asked: PodInfo | None = None) -> None:
        self._engine = engine
        self._key = key
        self._now = now
        self._bounds = bounds
        self._asked = asked
        self._group: Group | None = engine.cache.groups.get(key)
        self._members: Sequence[PodInfo] = engine.cache.groups.members(key).unscheduled
        self._found = HelpList()

    def run(self) -> Generator[None, None, Helps]:
        """Search for changes with which the group starts. Raises WrongQuestion for a group none of whose pods waits."""
        members = self._members
        if not members:
            raise WrongQuestion(f"no pod of group {shown(self._key)} waits")
        base = yield from self._placed(NOTHING)
        if self._starts(base):
            return self._answer("", ", ".join(most_used(base.nodes)))
        values = yield from values_wanted(self._engine.cache.table, [shape[0] for shape in shapes(members)])
        for change in self._of_the_object():
            yield from self._try(change)
        yield from self._more_pods()
        yield from self._fewer_pods()
        for number, change in enumerate((yield from relaxed_alike(members))):
            yield from self._try(change, number)
        if base.tried:
            yield from self._less(base)
            yield from self._taints()
            yield from self._priority()
            yield from self._uncordoned()
            yield from self._more_nodes(base)
            yield from self._without_a_pod(base)
        return self._answer(base.message, "", values)

    def _answer(self, message: str, fits_now: str, values: tuple[Values, ...] = ()) -> Helps:
        pod = "" if self._asked is None else self._asked.key
        bounds, found = self._bounds, self._found.in_order
        return Helps(pod, message, fits_now, found, values, trials=bounds.trials, bound=bounds.bound, group=self._key)

    # --- trials -------------------------------------------------------------------------------------------------------

    def _trial(self, change: GroupChange, edits: Sequence[Edit]) -> GroupTrial:
        trial = GroupTrial(self._engine, self._now)
        for _ in apply_edits(trial, edits, Consequences()):
            pass
        if change.group is not None:
            trial.cache.groups.restate(change.group)
        for info in change.added:
            trial.cache.groups.pending_shown(info)
        return trial

    def _placed(self, change: GroupChange, *edits: Edit) -> Generator[None, None, GroupTried]:
        return (yield from self._place_on(self._trial(change, edits), change))

    def _place_on(
        self, trial: GroupTrial, change: GroupChange, *, may_preempt: bool = False
    ) -> Generator[None, None, GroupTried]:
        """Try the group; nothing is placed if a bound is reached meanwhile."""
        self._bounds.trials += 1
        pods = [change.pods.get(info.uid, info) for info in self._members]
        added = [make_claims_again(trial.cache, self._members[-1], info) for info in change.added]
        steps = trial.place_group(self._key, [*pods, *added], may_preempt=may_preempt)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                tried: GroupTried = done.value
                return tried
            yield
            if self._bounds.is_reached:
                steps.close()
                return NOT_STARTED

    def _starts(self, tried: GroupTried) -> bool:
        return tried.is_placed and (self._asked is None or self._asked.uid in tried.nodes)

    def _try(self, change: GroupChange, size: float = 0.0) -> Generator[None, None, None]:
        if not self._bounds.is_reached:
            tried = yield from self._placed(change)
            if self._starts(tried):
                self._note(change, size, tried)
            yield

    def _found_with(self, change: GroupChange | None, *edits: Edit) -> Generator[None, None, GroupTried | None]:
        """What was found if the group starts then, else None."""
        if change is None:
            return None
        tried = yield from self._placed(change, *edits)
        return tried if self._starts(tried) else None

    def _note(
        self,
        change: GroupChange,
        size: float,
        tried: GroupTried,
        victims: tuple[str, ...] = (),
        pod: str = "",
        to: str = "",
    ) -> None:
        nodes = most_used(tried.nodes)
        node = next(iter(nodes))
        found = Help(
            change.effort.shown,
            change.text,
            node,
            pod=pod,
            moves_to=to,
            victims=victims,
            nodes=nodes,
            placed=len(tried.nodes),
        )
        self._found.add(change.effort, size, found)

    # --- changes of the group -----------------------------------------------------------------------------------------

    def _of_the_object(self) -> Sequence[GroupChange]:
        group = self._group
        if group is None:
            return ()
        changes = [without_minimum(group)] if group.min_resources else []
        if group.topology_key:
            changes += list(other_topologies(group, self._engine.cache.table))[:MAX_OF_A_KIND]
        return changes

    def _more_pods(self) -> Generator[None, None, None]:
        """The pods that are missing from the quorum."""
        quorum = 0 if self._group is None else self._group.min_count or 0
        missing = quorum - self._engine.cache.groups.members(self._key).count
        if missing > 0:
            yield from self._try(more_pods(self._members, missing))

    def _fewer_pods(self) -> Generator[None, None, None]:
        """The largest quorum that would do: the pods that find nodes, with those that have them."""
        group = self._group
        if group is None or group.min_count is None:
            return
        least = len(self._engine.cache.groups.members(self._key).placed) + 1
        most = min(group.min_count, least + len(self._members)) - 1

        def starts(count: int) -> Generator[None, None, GroupTried | None]:
            return (yield from self._found_with(smaller_quorum(group, count)))

        best = yield from self._bounds.last_that(range(least, most + 1), starts)
        if best is not None:
            self._note(smaller_quorum(group, best[0]), 0, best[1])

    def _less(self, base: GroupTried) -> Generator[None, None, None]:
        """For each resource that is short somewhere: the most of it with which the group fits."""
        reasons = _reasons(base)
        for shape in shapes(self._members):
            for resource in resources_of(shape[0]):
                wanted = shape[0].requests.amount(resource)
                if wanted and f"Insufficient {resource}" in reasons:
                    yield from self._less_of(shape, resource, wanted)

    def _less_of(self, shape: Sequence[PodInfo], resource: str, wanted: int) -> Generator[None, None, None]:
        def fits(amount: int) -> Generator[None, None, GroupTried | None]:
            return (yield from self._found_with(each_asking_less(shape, self._members, resource, amount)))

        best = yield from self._bounds.last_that(range(wanted), fits)
        change = None if best is None else each_asking_less(shape, self._members, resource, best[0])
        if best is not None and change is not None:
            self._note(change, (wanted - best[0]) / wanted, best[1])

    def _taints(self) -> Generator[None, None, None]:
        counts: Counter[Taint] = Counter()
        for shape in shapes(self._members):
            counts |= taints_in_the_way(self._engine.cache.table, shape[0])
            yield
        for taint, count in counts.most_common(MAX_OF_A_KIND):
            yield from self._try(tolerating_all(self._members, taint), -count)

    # --- priority -----------------------------------------------------------------------------------------------------

    def _priority(self) -> Generator[None, None, None]:
        found = yield from self._preempting(NOTHING)
        if found is not None:
            own = GroupChange(Effort.PRIORITY, "nothing: it preempts by the priority that it has")
            self._note(own, 0, found[0], found[1])
            return
        now = priority_of(self._group, self._members)
        is_held = any(info.pod.spec.preemption_policy == "Never" for info in self._members)
        priorities = {now if is_held else now + 1}
        for number, one in enumerate(list(self._engine.cache.pods.values())):
            priorities.add(one.priority + 1)
            if number % (10 * SLICE) == 0:
                yield
        for key in self._engine.cache.groups.keys:
            other = self._engine.cache.groups.get(key)
            if other is not None and other.priority is not None:
                priorities.add(other.priority + 1)

        def preempts(priority: int) -> Generator[None, None, tuple[GroupTried, tuple[str, ...]] | None]:
            return (yield from self._preempting(of_priority(self._group, self._members, priority)))

        lowest = now if is_held else now + 1
        steps = sorted((one for one in priorities if one >= lowest), reverse=True)
        best = yield from self._bounds.last_that(steps, preempts)
        if best is not None:
            priority, (tried, victims) = best
            self._note(of_priority(self._group, self._members, priority), len(victims), tried, victims)

    def _preempting(self, change: GroupChange) -> Generator[None, None, tuple[GroupTried, tuple[str, ...]] | None]:
        """The victims, and what becomes of the group once they are gone; None if it does not start even then."""
        if self._bounds.is_reached:
            return None
        tried = yield from self._place_on(self._trial(change, ()), change, may_preempt=True)
        if not tried.victims:
            return None
        trial = self._trial(change, ())
        for victim in tried.victims:
            trial.remove(victim)
        after = yield from self._place_on(trial, change)
        return (after, tuple([victim.key for victim in tried.victims])) if self._starts(after) else None

    # --- changes of the cluster ---------------------------------------------------------------------------------------

    def _uncordoned(self) -> Generator[None, None, None]:
        """The fewest of the first cordoned nodes that would do."""
        closed = closed_nodes(self._engine.cache.table)
        yield

        def starts(count: int) -> Generator[None, None, GroupTried | None]:
            return (yield from self._found_with(NOTHING, *[Uncordon(name) for name in closed[:count]]))

        best = yield from self._bounds.last_that(range(len(closed), 0, -1), starts)
        if best is not None:
            names = ", ".join(closed[: best[0]])
            plural = "s" * (best[0] > 1)
            change = GroupChange(Effort.UNCORDON, f"open node{plural} {names} for new pods (uncordon)")
            self._note(change, best[0], best[1])

    def _more_nodes(self, base: GroupTried) -> Generator[None, None, None]:
        """The fewest that would do of each kind: of the same labels, taints and room."""
        for name, there in (yield from kinds_of_nodes(self._engine.cache.table)):

            def starts(count: int, name: str = name) -> Generator[None, None, GroupTried | None]:
                return (yield from self._found_with(NOTHING, AddNodes(name, count)))

            best = yield from self._bounds.last_that(range(base.tried, 0, -1), starts)
            if best is not None:
                count, tried = best
                like = f"{name} (there are {there})" if there > 1 else name
                text = f"one more node like {like}" if count == 1 else f"{count} more nodes like {like}"
                self._note(GroupChange(Effort.NODE_ADDED, text), count, tried)

    def _without_a_pod(self, base: GroupTried) -> Generator[None, None, None]:
        """Pods whose end makes room for a member; they count as moved where they fit elsewhere beside the group."""
        tried_pods = found = 0
        for info, attempt in base.failed[:1]:
            if attempt.diagnosis is None:
                continue
            for others in pods_in_the_way(self._engine.cache.table, info, attempt.diagnosis):
                for other in others:
                    if tried_pods >= MAX_PODS_TRIED or found >= MAX_PODS_FOUND or self._bounds.is_reached:
                        return
                    tried_pods += 1
                    trial = self._trial(NOTHING, (RemovePod(other.key),))
                    tried = yield from self._place_on(trial, NOTHING)
                    if not self._starts(tried):
                        continue
                    found += 1
                    again = trial.place(created_again_in(trial.cache, other, f"what-helps-{other.uid}"))
                    effort, text = gone_or_moved(other, again.node)
                    self._note(GroupChange(effort, text), found, tried, pod=other.key, to=again.node)
                    yield
                    break


def _reasons(tried: GroupTried) -> frozenset[str]:
    """All reasons for which members were refused somewhere."""
    diagnoses = [attempt.diagnosis for _, attempt in tried.failed if attempt.diagnosis is not None]
    return frozenset(reason for one in diagnoses for refusal in one.refusals for reason in refusal.reasons)


def most_used(nodes: Mapping[str, str]) -> dict[str, int]:
    """The nodes with the number of pods that each gets, most pods first; ``nodes`` by UID."""
    counts = Counter(nodes.values())
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_NODES_NAMED])
