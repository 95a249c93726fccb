"""A small cluster with groups of pods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scheduler.framework.plugin import Plugin
from scheduler.messages.commands import BindPod, PatchGroupStatus, PatchPodStatus
from scheduler.messages.stimuli import ObjectObserved
from scheduler.objects.kinds import Kind
from scheduler.objects.pod_group import PodGroup
from scheduler.testing.objects import build
from tests.engine.driver import Cluster

GANGS = "GenericWorkload=true,GangScheduling=true"
TOPOLOGY = f"{GANGS},TopologyAwareWorkloadScheduling=true"
ZONE = "topology.kubernetes.io/zone"


def group(name: str = "g", *, min_count: int | None = 3, **spec: Any) -> PodGroup:
    policy = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": f"group-{name}", "resourceVersion": "1"},
        "spec": {"schedulingPolicy": policy, **spec},
    }
    return build(PodGroup, document)


class Gangs(Cluster):
    def __init__(self, gates: str = GANGS, plugins: Iterable[type[Plugin]] = (), **settings: Any) -> None:
        super().__init__(*plugins, gates=gates, **settings)

    def group(self, name: str = "g", *, min_count: int | None = 3, **spec: Any) -> None:
        self.feed(ObjectObserved(Kind.POD_GROUP, group(name, min_count=min_count, **spec)))

    def member(self, name: str, of: str = "g", **fields: Any) -> None:
        spec = fields.pop("spec", {}) | {"schedulingGroup": {"podGroupName": of}}
        self.pod(name, spec=spec, **fields)

    def members(self, count: int, of: str = "g", **fields: Any) -> list[str]:
        names = [f"{of}{number}" for number in range(count)]
        for name in names:
            self.member(name, of, **fields)
        return names

    def bound(self) -> dict[str, str]:
        return {command.pod.name: command.node for command in self.writes(BindPod)}

    def conditions(self) -> list[tuple[str, str, str]]:
        return [
            (command.condition.status, command.condition.reason, command.condition.message)
            for command in self.sent
            if isinstance(command, PatchGroupStatus)
        ]

    def reason_of(self, name: str) -> tuple[str, str]:
        """Reason and message of the condition that was written last about a pod."""
        written = [
            command.condition
            for command in self.sent
            if isinstance(command, PatchPodStatus) and command.pod.name == name and command.condition is not None
        ]
        return written[-1].reason, written[-1].message


def topology(key: str = ZONE) -> dict[str, Any]:
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


def zones(cluster: Cluster, **cpus: str) -> None:
    for zone, cpu in cpus.items():
        for number in range(2):
            cluster.node(f"{zone}{number}", cpu=cpu, labels={ZONE: zone})
