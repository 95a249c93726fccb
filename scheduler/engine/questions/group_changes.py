"""Single changes of a waiting group: of its pods, all alike, or of what its object states."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from scheduler.cluster.groups.group import Group
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.engine.questions.changes import Effort, asking_less, relaxed, tolerating, with_priority
from scheduler.engine.questions.edits import HOSTNAME
from scheduler.engine.questions.evictions import created_again
from scheduler.engine.questions.obstacles import nodes_of, resources_of
from scheduler.objects.node import Taint
from scheduler.objects.shown_amounts import shown_amount

MAX_RELAXED: Final = 40
"""Conditions of pods that are left out, one at a time, those that most pods have first."""
MAX_SHAPES: Final = 4
"""Kinds of members for which smaller requests are sought, the most frequent first."""


class GroupChange(msgspec.Struct, frozen=True):
    """The members as they would be, by UID where they differ from what they are, and what the object would state."""

    effort: Effort
    text: str
    pods: Mapping[str, PodInfo] = msgspec.field(default_factory=dict)
    group: Group | None = None
    added: tuple[PodInfo, ...] = ()
    """Pods that the group would have besides, like its last member; their claims are made in each trial."""


def more_pods(members: Sequence[PodInfo], count: int) -> GroupChange:
    """The change that adds this many pods like the last member."""
    last = members[-1]
    added = []
    for number in range(count):
        again = created_again(last, f"what-helps-{number}")
        metadata = msgspec.structs.replace(again.pod.metadata, name=f"{last.name}-more-{number}")
        added.append(PodInfo(msgspec.structs.replace(again.pod, metadata=metadata)))
    pods = "pod" if count == 1 else "pods"
    return GroupChange(Effort.MEMBERS, f"create {count} more {pods} like {last.key}", added=tuple(added))


def smaller_quorum(group: Group, count: int) -> GroupChange:
    restated = msgspec.structs.replace(group, min_count=count)
    return GroupChange(Effort.QUORUM, f"start with {count} pods in place of {group.min_count}", group=restated)


def without_minimum(group: Group) -> GroupChange:
    """The change that takes away the resources which must be free in the whole cluster first."""
    restated = msgspec.structs.replace(group, min_resources=())
    return GroupChange(Effort.QUORUM, "state no minResources", group=restated)


def other_topologies(group: Group, table: NodeTable) -> Iterator[GroupChange]:
    """The changes of the label of which all nodes must have one value: without it, and with a label of a higher level
    in its place."""
    key = group.topology_key
    text = f"do not require nodes of one {key}"
    restated = msgspec.structs.replace(group, topology_key="", has_constraints=False, demands_topology=False)
    yield GroupChange(Effort.TOPOLOGY, text, group=restated)
    for other in wider_keys(table, key):
        text = f"require nodes of one {other} in place of one {key}"
        yield GroupChange(Effort.TOPOLOGY, text, group=msgspec.structs.replace(group, topology_key=other))


def wider_keys(table: NodeTable, key: str) -> list[str]:
    """The node labels of which nodes with one value of ``key`` all have one value, too, and which have fewer values,
    but two at least; the nearest level first."""
    values: dict[str, dict[str, str]] = {}
    """Other label → value of ``key`` → its value."""
    wrong: set[str] = {key, HOSTNAME}
    own: set[str] = set()
    for node in nodes_of(table):
        value = node.labels.get(key)
        if value is None:
            continue
        is_first = value not in own
        own.add(value)
        for other, theirs in node.labels.items():
            if other in wrong:
                continue
            of = values.setdefault(other, {})
            if is_first:
                of[value] = theirs
            elif of.get(value) != theirs:
                wrong.add(other)
        wrong |= {other for other, of in values.items() if value in of and other not in node.labels}
    everywhere = {other: of for other, of in values.items() if other not in wrong and len(of) == len(own)}
    levels = {other: len(set(of.values())) for other, of in everywhere.items()}
    wider = [other for other, count in levels.items() if 1 < count < len(own)]
    return sorted(wider, key=lambda other: (-levels[other], other))


def relaxed_alike(members: Sequence[PodInfo]) -> Generator[None, None, list[GroupChange]]:
    """The members without one of their own conditions, all of them that have it; of each member's the first
    ``MAX_RELAXED``. Yields after each member."""
    found: dict[tuple[Effort, str], dict[str, PodInfo]] = {}
    for info in members:
        for change in islice(relaxed(info), MAX_RELAXED):
            found.setdefault((change.effort, change.text), {})[info.uid] = change.pod
        yield
    most = sorted(found.items(), key=lambda pair: -len(pair[1]))[:MAX_RELAXED]
    return [GroupChange(effort, text + _of_pods(len(pods), members), pods) for (effort, text), pods in most]


def tolerating_all(members: Sequence[PodInfo], taint: Taint) -> GroupChange:
    changes = {info.uid: tolerating(info, taint) for info in members}
    text = next(iter(changes.values())).text
    return GroupChange(Effort.TOLERATION, text, {uid: change.pod for uid, change in changes.items()})


def shapes(members: Sequence[PodInfo]) -> list[list[PodInfo]]:
    """The members that request the same, together; the most frequent kinds first."""
    found: dict[tuple[tuple[str, int], ...], list[PodInfo]] = {}
    for info in members:
        asked = tuple([(name, info.requests.amount(name)) for name in resources_of(info)])
        found.setdefault(asked, []).append(info)
    return sorted(found.values(), key=lambda pods: -len(pods))[:MAX_SHAPES]


def each_asking_less(
    shape: Sequence[PodInfo], members: Sequence[PodInfo], resource: str, amount: int
) -> GroupChange | None:
    """Each pod of this shape with this amount of a resource; None where that is not a matter of its containers."""
    changed = {info.uid: asking_less(info, resource, amount) for info in shape}
    pods = {uid: info for uid, info in changed.items() if info is not None}
    if len(pods) < len(shape):
        return None
    wanted = shape[0].requests.amount(resource)
    text = (
        f"request {shown_amount(resource, wanted - amount)} {resource} less: "
        f"{shown_amount(resource, amount)} in place of {shown_amount(resource, wanted)}"
    )
    like = "" if len(shape) == len(members) else f", like {shape[0].key}"
    return GroupChange(Effort.RESOURCE, f"{text}{_of_pods(len(pods), members)}{like}", pods)


def of_priority(group: Group | None, members: Sequence[PodInfo], priority: int) -> GroupChange:
    """The group, or each of its pods where it has no priority of its own, at least this important, and allowed to
    preempt."""
    now = priority_of(group, members)
    whose = "its pods" if _is_of_pods(group) else "the group"
    if priority == now:
        text = "allow its pods to preempt (preemptionPolicy)"
    else:
        text = f"priority {priority} of {whose} in place of {now}: from there on it preempts"
    lowest = priority if _is_of_pods(group) else -(2**31)
    pods = {info.uid: with_priority(info, max(info.priority, lowest)) for info in members}
    restated = None if group is None or _is_of_pods(group) else msgspec.structs.replace(group, priority=priority)
    return GroupChange(Effort.PRIORITY, text, pods, restated)


def priority_of(group: Group | None, members: Sequence[PodInfo]) -> int:
    """The priority that decides what may be preempted for the group: of the least important pod, if it is theirs."""
    lowest = min(info.priority for info in members)
    return lowest if group is None or group.priority is None or _is_of_pods(group) else group.priority


def _is_of_pods(group: Group | None) -> bool:
    return group is None or group.priority is None or not group.preempts_as_one


def _of_pods(count: int, members: Sequence[PodInfo]) -> str:
    """Which of the members a change concerns, as the end of a sentence."""
    if count == len(members):
        return " in each pod" if count > 1 else ""
    return f" in {count} pods" if count > 1 else " in one pod"
