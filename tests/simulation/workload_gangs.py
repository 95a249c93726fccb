"""Gangs in a random workload: of random sizes, whose members arrive in bits, before their PodGroup or after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

import msgspec

from scheduler.objects.kinds import Kind
from scheduler.simulate.changes import Change, Create, Delete
from scheduler.simulate.world_facts import Document, Facts
from scheduler.testing.documents import pod_json

MEMBER_CPUS: Final = (250, 500, 1000, 2000)
MAX_QUORUM: Final = 6
ZONE: Final = "topology.kubernetes.io/zone"
MAX_SPARE: Final = 2
"""More members than the quorum."""


def group_document(name: str, min_count: int, **spec: object) -> Document:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, **spec}}


def in_group(pod: Document, group: str) -> Document:
    """The pod as a member of the group of this name."""
    return pod | {"spec": pod["spec"] | {"schedulingGroup": {"podGroupName": group}}}


def group_of(pod: Document) -> str:
    """``namespace/name`` of the pod's group, "" without one."""
    name = pod["spec"].get("schedulingGroup", {}).get("podGroupName", "")
    return f"{pod['metadata'].get('namespace', 'default')}/{name}" if name else ""


class _Wanted(msgspec.Struct):
    """A gang as its user wants it: all members are alike."""

    name: str
    quorum: int
    size: int
    cpu: int
    priority: int
    demands: Document = {}
    """More of the PodGroup's spec."""
    made: int = 0

    def document(self) -> Document:
        return group_document(self.name, self.quorum, **self.demands)


class GangActions:
    """Random changes to gangs. ``has_demands``: some of them want one domain, may be removed as a whole only, or have a
    priority of their own."""

    def __init__(
        self, random: Random, facts: Callable[[], Facts], priorities: tuple[int, ...], *, has_demands: bool = False
    ) -> None:
        self._random = random
        self._facts = facts
        self._priorities = priorities
        self._has_demands = has_demands
        self._gangs: list[_Wanted] = []

    def weights(self) -> dict[Callable[[], Iterator[Change]], int]:
        return {self.add: 6, self.grow: 30, self.delete: 3, self.replace_object: 1}

    def add(self) -> Iterator[Change]:
        """A gang, and some of its members: its object may come first, or last."""
        random = self._random
        quorum = random.randint(1, MAX_QUORUM)
        gang = _Wanted(
            f"gang-{len(self._gangs)}",
            quorum,
            quorum + random.randint(0, MAX_SPARE),
            random.choice(MEMBER_CPUS),
            random.choice(self._priorities),
        )
        if self._has_demands:
            gang.demands = self._demands(gang.priority)
        self._gangs.append(gang)
        changes: list[Change] = [Create(Kind.POD_GROUP, gang.document())]
        changes += [self._member(gang) for _ in range(random.randint(0, gang.size))]
        if random.random() < 0.5:
            changes.reverse()
        yield from changes

    def grow(self) -> Iterator[Change]:
        """As the controller of a job does: some of the members that a gang lacks."""
        lacking = [(gang, missing) for gang in self._gangs if (missing := gang.size - self._count(gang)) > 0]
        if lacking:
            gang, missing = self._random.choice(lacking)
            for _ in range(self._random.randint(1, missing)):
                yield self._member(gang)

    def delete(self) -> Iterator[Change]:
        """A gang with all its members."""
        if not self._gangs:
            return
        gang = self._gangs.pop(self._random.randrange(len(self._gangs)))
        for key, pod in self._facts().of(Kind.POD):
            if group_of(pod) == f"default/{gang.name}":
                yield Delete(Kind.POD, key)
        yield Delete(Kind.POD_GROUP, f"default/{gang.name}")

    def replace_object(self) -> Iterator[Change]:
        """A PodGroup is deleted, and made again with another quorum: its members stay."""
        if self._gangs:
            gang = self._random.choice(self._gangs)
            gang.quorum = self._random.randint(1, gang.size)
            yield Delete(Kind.POD_GROUP, f"default/{gang.name}")
            yield Create(Kind.POD_GROUP, gang.document())

    def _demands(self, priority: int) -> Document:
        random = self._random
        spec: Document = {"priority": priority}
        if random.random() < 0.4:
            spec["schedulingConstraints"] = {"topology": [{"key": ZONE}]}
        if random.random() < 0.4:
            spec["disruptionMode"] = "PodGroup"
        return spec

    def _count(self, gang: _Wanted) -> int:
        return sum(group_of(pod) == f"default/{gang.name}" for _, pod in self._facts().of(Kind.POD))

    def _member(self, gang: _Wanted) -> Change:
        gang.made += 1
        pod = pod_json(
            f"{gang.name}-{gang.made}",
            labels={"app": gang.name},
            cpu=f"{gang.cpu}m",
            memory="256Mi",
            priority=gang.priority,
        )
        return Create(Kind.POD, in_group(pod, gang.name))
