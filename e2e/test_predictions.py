"""Promise: what the scheduler predicts is what then happens, decided by kube-scheduler and, in another run, by Tandem.

Random questions (pods, drains, new nodes, configurations, pods that preempt), asked of a Tandem whose profile no pod
names; then the change is really made, and the decider places the pods. The allowed set must hold each fact; a miss is
listed with what was predicted and what happened.

`E2E_QUESTIONS` is how many are asked of each decider (8; 200 with --long), `E2E_QUESTION_SEED` which.
"""

from __future__ import annotations

import json
import os
import random
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import builders
from e2e.client import NotInTime
from e2e.peer import KubeScheduler
from e2e.provider import Cluster
from e2e.room import Room, placements, refusal
from e2e.subject import Scheduler
from e2e.tandem import Tandem, profile

pytestmark = pytest.mark.tandem_only

SEED = int(os.environ.get("E2E_QUESTION_SEED", "1"))
ZONE = "topology.kubernetes.io/zone"
SETTLE_SECONDS = 30.0
IMPORTANT = "asked-important"
AGAIN = "-again"
"""Ends the name of the pod that takes the place of an evicted one."""
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "controller": True}
PACKING = {
    "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]},
}


@dataclass
class Scene:
    """One question. ``nodes`` and ``running`` are there before; ``act`` makes the change; ``names`` are asked about."""

    kind: str
    nodes: list[builders.Object]
    running: list[builders.Object]
    question: dict[str, Any]
    new_nodes: list[builders.Object] = field(default_factory=list)
    drained: str = ""
    asked: list[builders.Object] = field(default_factory=list)
    packs: bool = False


def configuration(scheduler_name: str, packs: bool) -> dict[str, Any]:
    made = profile(scheduler_name)
    if packs:
        made["profiles"][0]["pluginConfig"] = [{"name": "NodeResourcesFit", "args": PACKING}]
    return made


def scene_of(chance: random.Random, place: str, decider: str, kind: str) -> Scene:
    """Nodes of one place; the running pods are bound by hand, so that both runs begin alike."""
    selector = {"place": place}
    nodes = [
        builders.node(
            f"{place}-n{number}",
            cpu=chance.choice(["2", "4", "8"]),
            labels={"place": place, ZONE: chance.choice("abc")},
            taints=[builders.taint("closed", "NoSchedule")] if chance.random() < 0.15 else [],
        )
        for number in range(chance.randint(2, 8))
    ]

    def pod(name: str, **more: Any) -> builders.Object:
        spec: dict[str, Any] = {"nodeSelector": selector, "scheduler": decider, **more}
        labels = {"app": chance.choice("xyz")}
        if chance.random() < 0.25:
            term = {"labelSelector": {"matchLabels": {"app": labels["app"]}}, "topologyKey": ZONE}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        elif chance.random() < 0.3:
            action = chance.choice(["DoNotSchedule", "ScheduleAnyway"])
            spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": action}
            spec["topologySpreadConstraints"] = [{**spread, "labelSelector": {"matchLabels": {"app": labels["app"]}}}]
        return builders.pod(name, place, cpu=chance.choice(["200m", "500m", "1", "2"]), labels=labels, **spec)

    running = []
    for number in range(chance.randint(0, 6)):
        one = pod(f"run-{number}")
        one["spec"]["nodeName"] = chance.choice(nodes)["metadata"]["name"]
        running.append(one)
    if kind in ("pod", "configuration"):
        asked = pod("asked-0")
        packs = kind == "configuration"
        question: dict[str, Any] = {"workloads": [{"manifest": asked}]}
        if packs:
            question["configuration"] = json.dumps(configuration(decider, True))
        return Scene(kind, nodes, running, question, asked=[asked], packs=packs)
    if kind == "drain":
        victim = nodes[0]["metadata"]["name"]
        evicted = pod("moved")
        evicted["spec"]["nodeName"] = victim
        # An owner that is there, so that nothing collects the pod, and that controls nothing.
        evicted["metadata"]["ownerReferences"] = [dict(OWNER)]
        others = [one for one in running if one["spec"]["nodeName"] != victim]
        again = json.loads(json.dumps(evicted))
        del again["spec"]["nodeName"], again["metadata"]["ownerReferences"]
        # Not of the old name: KWOK, which ends the old pod, may do so twice, by its name.
        again["metadata"]["name"] += AGAIN
        question = {"edits": [{"edit": "drain", "node": victim}], "withWaiting": False}
        return Scene(kind, nodes, [*others, evicted], question, drained=victim, asked=[again])
    if kind == "preemption":
        # It fits on no node as they are: the running pods are in its way.
        running = []
        for node in nodes:
            for number in range(chance.randint(1, 3)):
                one = pod(f"low-{node['metadata']['name'].rpartition('-')[2]}-{number}")
                one["spec"]["nodeName"] = node["metadata"]["name"]
                running.append(one)
        important = pod("asked-0", priorityClassName=IMPORTANT)
        resources = important["spec"]["containers"][0]["resources"]
        resources["requests"]["cpu"] = min(node["status"]["allocatable"]["cpu"] for node in nodes)
        # Admission knows what the class is worth; the scheduler knows it from pods, and none has it yet.
        stated = {**important, "spec": {**important["spec"], "priority": 1000}}
        return Scene(kind, nodes, running, {"workloads": [{"manifest": stated}]}, asked=[important])
    like = nodes[-1]
    added = []
    for number in range(chance.randint(1, 3)):
        name = f"{like['metadata']['name']}-new-{number + 1}"
        one = json.loads(json.dumps(like))
        one["metadata"]["name"] = name
        one["metadata"]["labels"]["kubernetes.io/hostname"] = name
        added.append(one)
    asked = pod("asked-0")
    edit = {"edit": "addNodes", "like": like["metadata"]["name"], "count": len(added)}
    question = {"workloads": [{"manifest": asked}], "edits": [edit], "withWaiting": False}
    return Scene(kind, nodes, running, question, new_nodes=added, asked=[asked])


def ask(tandem: Tandem, question: dict[str, Any]) -> dict[str, Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(
        f"http://127.0.0.1:{tandem.port}/debug/what-if",
        json.dumps(question).encode(),
        {"Content-Type": "application/json"},
    )
    with opener.open(request, timeout=20) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


def seen_by(tandem: Tandem, room: Room, scene: Scene) -> None:
    """Wait until the scheduler that is asked knows the scene: its nodes, and its pods on them, which have started.

    When a pod started decides between victims. The watch of pods is in order: once a last pod is known, all before it
    is, too. It is on a node of its own, which no pod of the scene may use.
    """
    room.wait_running(len(scene.running))
    last = f"{room.name}-last"
    room.add_nodes(builders.node(last, labels={"place": last}))
    pod = builders.pod("last", room.name)
    pod["spec"]["nodeName"] = last
    room.add_pods(pod)
    nodes = len(scene.nodes)
    end = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end:
        page = json.loads(tandem.get("/debug/capacity?pool=place")[1] or "{}")
        pools = {pool["name"]: pool for pool in page.get("pools", ())}
        is_last_seen = last in pools and pools[last]["resources"]["pods"]["requested"] == 1
        if is_last_seen and room.name in pools and pools[room.name]["nodes"] == nodes:
            return
        time.sleep(0.05)
    raise NotInTime(f"the scheduler does not know the scene of {room.name}")


def make_it_so(room: Room, scene: Scene) -> None:
    if scene.new_nodes:
        room.add_nodes(*scene.new_nodes)
    if scene.drained:
        closed = {"unschedulable": True}
        room.client.patch("Node", scene.drained, None, {"spec": closed})
        evicted = scene.asked[0]["metadata"]["name"].removesuffix(AGAIN)
        room.client.delete_all("Pod", [evicted], room.name)
        name = f"{room.name}/{evicted}"
        room.pods.wait_until(lambda state: name not in state, SETTLE_SECONDS, "the evicted pod is gone")
    room.add_pods(*scene.asked)


def fact_of(room: Room, name: str) -> str:
    """The node, "" once the pod was refused."""

    def decided(state: dict[str, Any]) -> str | None:
        pod = state.get(f"{room.name}/{name}")
        found = placements(state).get(name)
        # A pod that preempts is refused at first, and nominated.
        is_refused = refusal(pod) is not None and not (pod or {}).get("status", {}).get("nominatedNodeName")
        return found or ("(refused)" if is_refused else None)

    node = room.pods.wait_until(decided, SETTLE_SECONDS, f"a decision about {name}")
    return "" if node == "(refused)" else str(node)


def misses_of(answer: dict[str, Any], facts: dict[str, str], scene: Scene) -> list[str]:
    found = []
    predicted = {one["pod"].partition("/")[2]: one for one in answer.get("placements", [])}
    for name, node in facts.items():
        one = predicted.get(name.removesuffix(AGAIN))
        if one is None:
            found.append(f"{scene.kind}: nothing was predicted of {name}, which went to {node or 'no node'}: {answer}")
        elif node not in (one.get("allowed", []) if one.get("node") else [""]):
            found.append(f"{scene.kind}: {name} went to {node or 'no node'}, predicted was {one}")
    return found


@pytest.fixture(autouse=True)
def _priority(client: Any) -> Iterator[None]:
    client.create_all([builders.priority_class(IMPORTANT, 1000)])
    yield
    client.delete_all("PriorityClass", (IMPORTANT,))


@pytest.mark.parametrize("decider", ["kube-scheduler", "tandem"])
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(int(os.environ.get("E2E_QUESTIONS", "8")), id="some"),
        pytest.param(int(os.environ.get("E2E_QUESTIONS", "200")), id="many", marks=pytest.mark.long),
    ],
)
def test_what_is_predicted_is_what_happens(
    decider: str, count: int, cluster: Cluster, client: Any, new_tandem: Callable[..., Tandem]
) -> None:
    chance = random.Random(f"{SEED} {decider}")
    misses: list[str] = []
    sizes: list[int] = []
    kinds = ("pod", "drain", "nodes added", "configuration", "preemption")
    asked = f"asked-{decider}"
    with new_tandem(scheduler_name=asked, config=profile(asked)) as tandem:
        for packs in (False, True):
            name = f"decides-{decider}-{int(packs)}"
            with _decider(decider, name, packs, cluster, new_tandem):
                for number in range(count):
                    kind = kinds[number % len(kinds)]
                    if (kind == "configuration") is not packs:
                        continue
                    with Room(client, f"asked-{decider}-{number}") as room:
                        found, size = _one(chance, kind, name, tandem, room)
                        misses += [f"question {number}, {one}" for one in found]
                        sizes += size
    print(f"{decider}: {count} questions, {len(misses)} misses, allowed sets of {sorted(sizes)}")
    assert not misses, "\n".join(misses)
    assert len(sizes) >= count // 2


def _one(chance: random.Random, kind: str, decider: str, tandem: Tandem, room: Room) -> tuple[list[str], list[int]]:
    scene = scene_of(chance, room.name, decider, kind)
    room.add_nodes(*scene.nodes)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": OWNER["name"]}}
    uid = room.client.post(f"/api/v1/namespaces/{room.name}/configmaps", owner)["metadata"]["uid"]
    for pod in scene.running:
        for reference in pod["metadata"].get("ownerReferences", ()):
            reference["uid"] = uid
    room.add_pods(*scene.running)
    seen_by(tandem, room, scene)
    answer = ask(tandem, scene.question)
    make_it_so(room, scene)
    facts = {one["metadata"]["name"]: fact_of(room, one["metadata"]["name"]) for one in scene.asked}
    return misses_of(answer, facts, scene), [one.get("allowedCount", 0) for one in answer.get("placements", [])]


def _decider(kind: str, name: str, packs: bool, cluster: Cluster, new_tandem: Callable[..., Tandem]) -> Scheduler:
    if kind == "tandem":
        return new_tandem(scheduler_name=name, config=configuration(name, packs))
    folder = cluster.folder / name
    folder.mkdir()
    peer = KubeScheduler(cluster.kubeconfig, folder, name, programs=cluster.programs)
    return _Configured(peer, packs) if packs else peer


class _Configured(KubeScheduler):
    """kube-scheduler with the packing configuration."""

    def __init__(self, plain: KubeScheduler, packs: bool) -> None:
        super().__init__(plain.kubeconfig, plain.folder, plain.scheduler_name, programs=plain._program.parent)
        self._packs = packs

    def command(self) -> list[str]:
        words = super().command()
        file = Path(next(word for word in words if word.startswith("--config=")).removeprefix("--config="))
        stated = yaml.safe_load(file.read_text())
        stated["profiles"] = configuration(self.scheduler_name, self._packs)["profiles"]
        file.write_text(yaml.safe_dump(stated))
        return words
