"""Promise: preemption never kills the wrong pod, nor one too many, whatever happens around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import builders
from e2e.builders import Object
from e2e.client import Client
from e2e.peer import KubeScheduler
from e2e.provider import Cluster
from e2e.room import Room, most_pods_at_once, placements
from e2e.subject import Scheduler
from e2e.tandem import Tandem

LOW, HIGH, HIGHEST = "safety-low", "safety-high", "safety-highest"
HOST = "kubernetes.io/hostname"
FINALIZER = "e2e.test/stays"

NewTandem = Callable[..., Tandem]


@pytest.fixture(autouse=True)
def _priorities(client: Client) -> Iterator[None]:
    values = {LOW: 10, HIGH: 1000, HIGHEST: 2000}
    client.create_all(builders.priority_class(name, value) for name, value in values.items())
    yield
    client.delete_all("PriorityClass", values)


def _low(room: Room, name: str, node: str, cpu: str = "2", **spec: Any) -> Object:
    spec = {"nodeSelector": {HOST: node}, "priorityClassName": LOW, "terminationGracePeriodSeconds": 5, **spec}
    return builders.pod(name, room.name, cpu, labels={"app": "low"}, **spec)


def _high(room: Room, name: str, cpu: str = "2", priority: str = HIGH, **spec: Any) -> Object:
    return builders.pod(name, room.name, cpu, labels={"app": "high"}, priorityClassName=priority, **spec)


def _sticky(pod: Object) -> Object:
    """The pod terminates, but stays until ``_let_go``."""
    pod["metadata"]["finalizers"] = [FINALIZER]
    return pod


def _let_go(room: Room, *names: str) -> None:
    for name in names:
        room.client.patch("Pod", name, room.name, {"metadata": {"finalizers": None}})


def _dying(room: Room) -> set[str]:
    return {pod["metadata"]["name"] for pod in room.pods.state.values() if "deletionTimestamp" in pod["metadata"]}


def _wait_dying(room: Room, *names: str) -> None:
    room.pods.wait_until(lambda _: _dying(room) >= set(names), 20, f"terminating pods {names}")


def _seen(room: Room, name: str) -> list[Object]:
    """Every version of a pod that the watch has shown, in order."""
    return [seen.thing for seen in room.pods.history if seen.thing["metadata"]["name"] == name]


def _condition(pod: Object, kind: str) -> Object | None:
    found = [one for one in pod["status"].get("conditions", ()) if one["type"] == kind]
    return found[0] if found else None


def _deletions(cluster: Cluster, room: Room) -> Counter[str]:
    """Pod → how many deletions and evictions schedulers asked for."""
    assert cluster.controlplane is not None
    return Counter(
        entry["objectRef"]["name"]
        for entry in cluster.controlplane.audit()
        if entry["objectRef"].get("namespace") == room.name
        and entry["user"]["username"].startswith("system:serviceaccount:")
        and (entry["verb"] == "delete" or entry["objectRef"].get("subresource") == "eviction")
    )


def test_a_victim_gets_its_condition_first_and_nothing_else_in_its_status_changes(
    room: Room, scheduler: Scheduler
) -> None:
    """The victim is BestEffort, the preemptor Burstable: the quality of service class must stay the victim's."""
    room.add_nodes(builders.node("a", pods=1))
    container = {"name": "app", "image": builders.IMAGE}
    room.add_pods(_low(room, "victim", "a", containers=[container], terminationGracePeriodSeconds=30))
    room.wait_running(1)
    (before,) = room.pods.state.values()
    assert before["status"]["qosClass"] == "BestEffort"
    room.add_pods(_high(room, "important"))
    room.wait_placed("important", "a")
    assert room.pod("important")["status"]["qosClass"] == "Burstable"
    versions = _seen(room, "victim")
    reported = next(place for place, pod in enumerate(versions) if _condition(pod, "DisruptionTarget"))
    dying = next(place for place, pod in enumerate(versions) if "deletionTimestamp" in pod["metadata"])
    assert reported < dying, "the reason comes before the end"
    condition = _condition(versions[reported], "DisruptionTarget")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    assert condition["message"] == f"{builders.SCHEDULER}: preempting to accommodate a higher priority pod"
    assert "important" not in condition["message"]
    others = [one for one in versions[reported]["status"]["conditions"] if one["type"] != "DisruptionTarget"]
    assert {**versions[reported]["status"], "conditions": others} == versions[reported - 1]["status"]
    assert {pod["status"]["qosClass"] for pod in versions} == {"BestEffort"}


@pytest.mark.tandem_only
def test_strictly_no_budget_is_ever_broken_though_preemptors_compete(
    room: Room, new_tandem: NewTandem, tmp_path: Path
) -> None:
    guard = {
        "kind": "PodDisruptionBudget",
        "apiVersion": "policy/v1",
        "metadata": {"name": "guard", "namespace": room.name},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "low"}}},
    }
    with new_tandem(options=_configured(tmp_path, {"pdbPolicy": "strict"})):
        room.add_nodes(*(builders.node(name, cpu="2") for name in ("a", "b", "c")))
        room.add_pods(*(_low(room, f"web-{name}", name) for name in ("a", "b", "c")))
        room.wait_running(3)
        room.client.create(guard)
        with room.client.watch("PodDisruptionBudget", room.name) as budgets:
            budgets.wait_until(
                lambda state: all(b["status"].get("disruptionsAllowed") == 1 for b in state.values()), 20
            )
        room.add_pods(*(_high(room, f"important-{number}") for number in range(3)))
        room.pods.wait_until(lambda state: _placed_of(room, "important") == 1, 30, "one important pod")
        assert room.pods.holds_for(lambda state: _placed_of(room, "important") == 1, 8)
    alive = {f"web-{name}" for name in ("a", "b", "c")}
    for seen in room.pods.history:
        name = seen.thing["metadata"]["name"]
        if name in alive and (seen.type == "DELETED" or "deletionTimestamp" in seen.thing["metadata"]):
            alive.remove(name)
    assert len(alive) == 2, "the budget allowed one disruption"
    (evicted,) = {f"web-{name}" for name in ("a", "b", "c")} - alive
    reported = _condition(_seen(room, evicted)[-1], "DisruptionTarget")
    assert reported is not None and reported["reason"] == "EvictionByEvictionAPI"
    assert all(_condition(room.pod(name), "DisruptionTarget") is None for name in alive), "marked, but spared"


def test_the_preempted_pods_of_a_deployment_come_back_elsewhere(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("a", cpu="4"))
    room.client.create(builders.deployment("web", room.name, 2, cpu="2", priorityClassName=LOW))
    assert set(room.wait_running(2).values()) == {"a"}
    room.add_nodes(builders.node("b", cpu="4"))
    room.add_pods(_high(room, "important", cpu="4", nodeSelector={HOST: "a"}))
    room.wait_placed("important", "a")
    room.pods.wait_until(
        lambda state: sorted(placements(state).values()) == ["a", "b", "b"] and not _dying(room), 30, "two pods on b"
    )
    assert len(room.wait_running(3)) == 3


@pytest.mark.parametrize("cpu", ["2", "4"], ids=["both fit", "one fits"])
def test_two_preemptors_for_one_node_cost_no_victim_twice(
    room: Room, scheduler: Scheduler, cluster: Cluster, cpu: str
) -> None:
    room.add_nodes(builders.node("a", cpu="4"))
    room.add_pods(*(_low(room, name, "a") for name in ("v1", "v2")))
    room.wait_running(2)
    room.add_pods(*(_high(room, f"important-{number}", cpu) for number in range(2)))
    wanted = 2 if cpu == "2" else 1
    room.pods.wait_until(lambda state: _placed_of(room, "important") == wanted, 30, f"{wanted} important pods")
    assert room.pods.holds_for(lambda state: _placed_of(room, "important") == wanted, 3)
    assert not [pod for pod in room.pods.state.values() if pod["metadata"]["labels"]["app"] == "low"]
    assert max(most_pods_at_once(room.pods).values()) <= 2
    if cluster.controlplane is not None:
        assert set(_deletions(cluster, room)) == {"v1", "v2"}, "an important pod was taken for a victim"


def test_when_the_preemptor_is_deleted_half_way_its_room_is_free(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("a", cpu="4"))
    room.add_pods(*(_sticky(_low(room, name, "a")) for name in ("v1", "v2")))
    room.wait_running(2)
    room.add_pods(_high(room, "important", cpu="4"))
    _wait_dying(room, "v1", "v2")
    room.wait_nominated("important", "a")
    room.add_pods(_low(room, "late", "a"))
    room.wait_refused("late")
    room.client.delete("Pod", "important", room.name)
    _let_go(room, "v1", "v2")
    room.wait_placed("late", "a")


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_scheduler_that_ends_half_way_goes_on_where_it_was(
    room: Room, subject: Scheduler, cluster: Cluster, how: str
) -> None:
    """The second start finds victims that are terminating; it must not choose others on another node."""
    subject.start().wait_ready()
    room.add_nodes(builders.node("a", cpu="4"), builders.node("b", cpu="4"))
    room.add_pods(*(_sticky(_low(room, f"{node}{number}", node)) for node in ("a", "b") for number in (1, 2)))
    room.wait_running(4)
    room.add_pods(_high(room, "important", cpu="4"))
    room.pods.wait_until(lambda _: len(_dying(room)) == 2, 20, "two terminating victims")
    victims = _dying(room)
    (node,) = {name[0] for name in victims}
    room.wait_nominated("important", node)
    if how == "killed":
        subject.kill()
    else:
        subject.stop()
    subject.start().wait_ready()
    assert room.pods.holds_for(lambda _: _dying(room) == victims, 3), "a second preemption for the same pod"
    _let_go(room, *victims)
    room.wait_placed("important", node)
    assert len([pod for pod in room.pods.state.values() if pod["metadata"]["labels"]["app"] == "low"]) == 2
    if cluster.controlplane is not None:
        assert set(_deletions(cluster, room)) == victims
    _let_go(room, *({"a1", "a2", "b1", "b2"} - victims))


@pytest.mark.tandem_only
def test_the_page_why_names_candidates_victims_and_what_decided(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("a", cpu="2"), builders.node("b", cpu="4"))
    room.add_pods(_low(room, "a1", "a"), _low(room, "b1", "b"), _low(room, "b2", "b", priorityClassName=HIGH))
    room.wait_running(3)
    room.add_pods(_high(room, "important", priority=HIGHEST, cpu="4", nodeSelector={HOST: "b"}))
    room.wait_placed("important", "b")
    status, body = scheduler.get(f"/debug/why/{room.name}/important")
    assert status == 200, body
    for word in (f"{room.name}/b1", f"{room.name}/b2", "the only candidate"):
        assert word in body


@pytest.mark.long
@pytest.mark.tandem_only
def test_beside_kube_scheduler_no_two_pods_preempt_each_other_in_turn(
    room: Room, new_tandem: NewTandem, peer: KubeScheduler, tmp_path: Path
) -> None:
    """Five minutes on the same nodes. kube-scheduler knows nothing of our nominations, has more small pods than fit,
    and fills every gap at once: each preemption fails, until the breaker ends it and says why. Where the peer has
    nothing to fill in, preemption goes on as ever."""
    rounds, seconds = 3, 300.0
    settings = {"breaker": {"rounds": rounds, "window": "10m"}}
    with new_tandem(options=_configured(tmp_path, settings)) as tandem:
        shared = ("a", "b", "c")
        room.add_nodes(*(builders.node(name, cpu="4") for name in shared), builders.node("d", cpu="4"))
        ours = {"priorityClassName": HIGH, "nodeSelector": {HOST: "d"}}
        room.add_pods(*(_low(room, f"old-{number}", "d") for number in range(2)))
        filler = {"cpu": "1", "scheduler": "default-scheduler", "priorityClassName": LOW, "affinity": _nodes(*shared)}
        room.client.create(builders.deployment("filler", room.name, 16, **filler))
        room.wait_running(14)
        important = {"cpu": "2", "priorityClassName": HIGH, "affinity": _nodes(*shared)}
        room.client.create(builders.deployment("important", room.name, 3, **important))
        room.client.create(builders.deployment("lucky", room.name, 2, cpu="2", **ours))
        # Two victims make room for one important pod, and all of its Deployment count as one; but each of the three may
        # be in the middle of a preemption when the breaker ends it for the others.
        bound = 2 * (rounds + 2) * len(shared) + 2
        assert room.pods.holds_for(lambda _: sum(_preemptions(room).values()) <= bound, seconds / 2), "ping-pong"
        before = _preemptions(room)
        assert room.pods.holds_for(lambda _: _preemptions(room) == before, seconds / 2), "ping-pong goes on"
        assert tandem.process.alive
    placed = placements(room.pods.state)
    assert [node for name, node in placed.items() if name.startswith("lucky")] == ["d", "d"]
    for pod in room.pods.state.values():
        if _app(pod) == "important" and not pod["spec"].get("nodeName"):
            reported = _condition(pod, "PodScheduled")
            assert reported is not None and "others took the room again and again" in reported["message"]
    assert all(pod["status"].get("phase") != "Failed" for pod in room.pods.state.values())


def _nodes(*names: str) -> Object:
    """An affinity for these nodes alone."""
    expression = {"key": HOST, "operator": "In", "values": list(names)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _configured(folder: Path, preemption: Object) -> tuple[str, ...]:
    """The option that names a file with these settings of preemption."""
    kube = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": builders.SCHEDULER}],
    }
    ours = {"apiVersion": "tandem.scheduling/v1alpha1", "kind": "TandemConfiguration", "preemption": preemption}
    file = folder / "configuration.yaml"
    file.write_text(yaml.safe_dump_all([kube, ours]))
    return (f"--config={file}",)


def _placed_of(room: Room, prefix: str) -> int:
    return sum(name.startswith(prefix) for name in placements(room.pods.state))


def _app(pod: Object) -> str:
    return str(pod["metadata"].get("labels", {}).get("app", ""))


def _preemptions(room: Room) -> Counter[str]:
    """UID of the preemptor → how many pods were removed for it."""
    notes = [event["note"] for event in room.events.state.values() if event["reason"] == "Preempted"]
    return Counter(note.split()[3] for note in notes if note.startswith("Preempted by pod "))
