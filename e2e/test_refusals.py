"""Promise: a pod that cannot be placed says why, once, in kube-scheduler's own words."""

from __future__ import annotations

from typing import Any

import pytest

from e2e import builders
from e2e.peer import KubeScheduler
from e2e.provider import Cluster
from e2e.room import Room, refusal
from e2e.subject import Scheduler

ZONE = "topology.kubernetes.io/zone"
PREEMPTION = (
    "no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)
PORT = [{"containerPort": 80, "hostPort": 8080}]


@pytest.fixture(autouse=True)
def _own_nodes_only(cluster: Cluster) -> None:
    if cluster.controlplane is None:
        pytest.skip("the texts count nodes, and a shared cluster has nodes of its own")


def test_a_pod_that_fits_nowhere_gets_the_condition_and_one_event(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("a", cpu="1"), builders.node("b", cpu="1"))
    room.add_pods(builders.pod("huge", room.name, cpu="8"))
    condition = room.wait_refused("huge")
    text = f"0/2 nodes are available: 2 Insufficient cpu. {PREEMPTION}"
    assert (condition["reason"], condition["message"]) == ("Unschedulable", text)
    (event,) = room.wait_events("huge", "FailedScheduling")
    assert (event["note"], event["type"], event["action"]) == (text, "Warning", "Scheduling")
    assert event["reportingController"] == scheduler.scheduler_name
    # Nothing changes that could help, so nothing is tried again: no second event, no growing series, no second write.
    version = room.pod("huge")["metadata"]["resourceVersion"]
    assert room.events.holds_for(lambda _: len(room.events_about("huge")) == 1, seconds=3)
    assert "series" not in room.events_about("huge")[0]
    assert room.pod("huge")["metadata"]["resourceVersion"] == version


def test_every_reason_is_counted_over_the_nodes_it_holds_for(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(
        builders.node("small", cpu="1", labels={"disk": "ssd"}),
        builders.node("tainted", cpu="64", labels={"disk": "ssd"}, taints=[builders.taint("only")]),
        *(builders.node(f"other-{i}", cpu="64") for i in range(10)),
    )
    room.add_pods(builders.pod("picky", room.name, cpu="8", nodeSelector={"disk": "ssd"}))
    assert room.wait_refused("picky")["message"] == (
        "0/12 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
        "10 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: "
        "0/12 nodes are available: 12 Preemption is not helpful for scheduling."
    )


def test_an_empty_cluster_is_named_as_such(room: Room, scheduler: Scheduler) -> None:
    room.add_pods(builders.pod("early", room.name))
    assert room.wait_refused("early")["message"] == "no nodes available to schedule pods"


def _affinity(kind: str, key: str, **labels: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _name(node: str) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def _claim(name: str) -> list[dict[str, Any]]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


# Each of them is impossible whatever the others do; the name says why.
HOPELESS: dict[str, dict[str, Any]] = {
    "too-much-cpu": {"cpu": "100"},
    "too-much-of-two": {"cpu": "100", "memory": "1Ti"},
    "unknown-resource": {
        "containers": [{"name": "c", "image": "pause", "resources": {"limits": {"gpu.test/one": "1"}}}]
    },
    "no-such-label": {"nodeSelector": {"disk": "floppy"}},
    "no-such-node": {"affinity": _name("nowhere")},
    "named-node-too-small": {"affinity": _name("small"), "cpu": "3"},
    "untolerated": {"nodeSelector": {"room": "tainted"}},
    "cordoned": {"nodeSelector": {"room": "cordoned"}},
    "no-friend": {"affinity": _affinity("podAffinity", ZONE, app="absent")},
    "no-topology-key": {"affinity": _affinity("podAffinity", "no/such", app="guard")},
    "enemy-everywhere": {"affinity": _affinity("podAntiAffinity", "room/all", app="guard")},
    "port-taken": {
        "nodeSelector": {"room": "guarded"},
        "containers": [{"name": "c", "image": "pause", "ports": PORT}],
    },
    "spread-without-key": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "no/such",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "absent"}},
            }
        ]
    },
    "claim-missing": {"volumes": _claim("missing")},
    "claim-unbound": {"volumes": _claim("unbound")},
    "never-preempts": {"cpu": "3", "nodeSelector": {"room": "guarded"}, "priorityClassName": "e2e-never-preempts"},
}


def test_each_refusal_reads_like_kube_schedulers(room: Room, scheduler: Scheduler, peer: KubeScheduler) -> None:
    everywhere = {"room/all": "yes", ZONE: "z1"}
    room.add_nodes(
        builders.node("small", cpu="2", labels={**everywhere, "room": "small"}),
        builders.node("guarded", labels={**everywhere, "room": "guarded"}),
        builders.node("tainted", labels={**everywhere, "room": "tainted"}, taints=[builders.taint("only", value="x")]),
        builders.node("cordoned", labels={**everywhere, "room": "cordoned"}),
    )
    room.client.patch("Node", "cordoned", None, {"spec": {"unschedulable": True}})
    room.client.create(
        {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "metadata": {"name": "unbound", "namespace": room.name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "",
            },
        }
    )
    room.add_cluster_object(builders.priority_class("e2e-never-preempts", 1000, preemptionPolicy="Never"))
    port = [{"name": "c", "image": "pause", "ports": PORT, "resources": {"requests": {"cpu": "2"}}}]
    selector = {"room": "guarded"}
    room.add_pods(builders.pod("guard", room.name, labels={"app": "guard"}, nodeSelector=selector, containers=port))
    room.wait_running(1)
    for name, spec in HOPELESS.items():
        room.add_pods(
            builders.pod(f"{name}-ours", room.name, **spec),
            builders.pod(f"{name}-theirs", room.name, scheduler=peer.scheduler_name, **spec),
        )
    room.pods.wait_until(
        lambda state: sum(refusal(pod) is not None for pod in state.values()) == 2 * len(HOPELESS), 30, "all refused"
    )
    ours, theirs = ({name: _words(room, f"{name}-{who}") for name in HOPELESS} for who in ("ours", "theirs"))
    assert ours == theirs


def _words(room: Room, name: str) -> tuple[str, str, list[tuple[str, str, str]]]:
    """Reason and message of the condition, and what the events say."""
    condition = room.wait_refused(name)
    events = [(event["reason"], event["type"], event["note"]) for event in room.wait_events(name, "FailedScheduling")]
    return condition["reason"], condition["message"], sorted(set(events))
