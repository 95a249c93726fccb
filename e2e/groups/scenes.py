"""Random scenes with groups of pods, from one seed, as lists of phases; after each phase the schedulers settle."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from e2e import builders
from e2e.builders import Object
from e2e.groups.control import API

ZONE = "topology.kubernetes.io/zone"
PRIORITIES = {"scene-low": 10, "scene-mid": 100, "scene-high": 1000}
NEVER = "scene-never"
"""A class whose pods preempt none: the API server takes the policy from a pod's class only."""


def classes() -> list[Object]:
    """The priority classes that scenes use."""
    known = [builders.priority_class(name, value) for name, value in PRIORITIES.items()]
    return [*known, builders.priority_class(NEVER, 100, preemptionPolicy="Never")]


GATES = {
    "plain": ("GenericWorkload",),
    "gangs": ("GenericWorkload", "GangScheduling"),
    "topology": ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"),
    "whole": ("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"),
    "all": (
        "GenericWorkload",
        "GangScheduling",
        "TopologyAwareWorkloadScheduling",
        "WorkloadAwarePreemption",
    ),
}


@dataclass
class Phase:
    """What happens at once. Objects are created in their order, then pods are deleted by their names."""

    create: list[Object] = field(default_factory=list)
    delete: list[str] = field(default_factory=list)


@dataclass
class Scene:
    """``kind`` names its gates; ``place`` is its namespace and the beginning of its nodes' names."""

    kind: str
    place: str
    nodes: list[Object]
    phases: list[Phase]


@dataclass
class _Group:
    name: str
    document: Object
    members: list[Object]


def scene_of(seed: int, kind: str, repeat: int = 0) -> Scene:
    """Equal for equal arguments; with another ``repeat`` only its place has another name."""
    return _Author(random.Random(f"{kind}-{seed}"), kind, f"scene-{kind}-{seed}-{repeat}").scene()


class _Author:
    def __init__(self, chance: random.Random, kind: str, place: str) -> None:
        self._chance = chance
        self._kind = kind
        self._place = place
        self._nodes: list[Object] = []
        # Pod by pod, kube-scheduler removes victims for groups that do not fit even then; Tandem does not.
        self._classes = tuple(PRIORITIES) if "WorkloadAwarePreemption" in GATES[kind] else ()

    def scene(self) -> Scene:
        chance = self._chance
        self._nodes = [self._node(number) for number in range(chance.randint(1, 4))]
        running = self._running() if chance.random() < 0.6 else []
        groups = [self._group(f"g{number}") for number in range(chance.choice([1, 1, 1, 2, 2, 3]))]
        first, second, third, last = Phase(running), Phase(), Phase(), Phase()
        for group in groups:
            late = group.members[-1:] if len(group.members) > 1 and chance.random() < 0.3 else []
            early = group.members[: len(group.members) - len(late)]
            order = chance.random()
            if order < 0.2:
                # The group's object comes when its pods wait already.
                first.create += early
                second.create.append(group.document)
            elif order < 0.5:
                second.create += [*early, group.document]
            else:
                second.create += [group.document, *early]
            third.create += late
        if chance.random() < 0.3:
            # By itself: whether it or a group is created before the other is tried would be a matter of speed.
            last.create.append(self._plain())
        if chance.random() < 0.4:
            third.create.insert(0, self._node(len(self._nodes)))
        if chance.random() < 0.4:
            pods = [one["metadata"]["name"] for phase in (first, second) for one in phase.create if _is_pod(one)]
            third.delete += chance.sample(pods, min(len(pods), chance.randint(1, 2)))
        return Scene(
            self._kind, self._place, self._nodes, [one for one in (first, second, third, last) if _is_any(one)]
        )

    def _node(self, number: int) -> Object:
        chance = self._chance
        labels = {ZONE: chance.choice("ab")} if chance.random() < 0.9 else {}
        return builders.node(f"{self._place}-n{number}", cpu=chance.choice(["1", "2", "3", "4"]), labels=labels)

    def _running(self) -> list[Object]:
        """Pods that are there already, bound by hand so that every scheduler begins alike."""
        chance, found = self._chance, []
        for node in self._nodes:
            for number in range(chance.randint(0, int(node["status"]["allocatable"]["cpu"]))):
                name = node["metadata"]["name"]
                pod = self._pod(f"run-{name.rpartition('-')[2]}-{number}", "1", self._class("", "scene-low"))
                pod["spec"]["nodeName"] = name
                found.append(pod)
        return found

    def _group(self, name: str) -> _Group:
        chance = self._chance
        minimum = chance.randint(1, 4)
        policy: Object = {"basic": {}} if chance.random() < 0.2 else {"gang": {"minCount": minimum}}
        spec: Object = {"schedulingPolicy": policy}
        priority = self._class("", *PRIORITIES)
        if priority:
            spec["priorityClassName"] = priority
        if chance.random() < 0.4:
            spec["schedulingConstraints"] = {"topology": [{"key": ZONE}]}
        if chance.random() < 0.4:
            spec["disruptionMode"] = "PodGroup"
        document = {
            "kind": "PodGroup",
            "apiVersion": API,
            "metadata": {"name": name, "namespace": self._place},
            "spec": spec,
        }
        of_pods = priority if chance.random() < 0.85 else self._class("", "scene-low", "scene-mid")
        cpu = chance.choice(["1", "1", "1", "2"])
        if chance.random() < 0.05 and self._classes:
            of_pods = NEVER
        members = []
        for number in range(max(1, minimum + chance.choice([-1, 0, 0, 0, 1, 2]))):
            more: dict[str, Any] = {"schedulingGroup": {"podGroupName": name}}
            if chance.random() < 0.05:
                more["schedulingGates"] = [{"name": "example.com/held"}]
            members.append(self._pod(f"{name}-{number}", cpu, of_pods, **more))
        return _Group(name, document, members)

    def _class(self, *names: str) -> str:
        """One of these priority classes, "" for none; none where no pod may be preempted."""
        name = self._chance.choice(names)
        return name if name in self._classes else ""

    def _plain(self) -> Object:
        return self._pod("plain", "1", self._class("", "scene-mid"))

    def _pod(self, name: str, cpu: str, priority: str, **spec: Any) -> Object:
        more: dict[str, Any] = {"priorityClassName": priority} if priority else {}
        return builders.pod(name, self._place, cpu=cpu, **more, **spec)


def _is_pod(thing: Object) -> bool:
    return bool(thing["kind"] == "Pod")


def _is_any(phase: Phase) -> bool:
    return bool(phase.create or phase.delete)
