"""Promise: a shadow decides and compares itself with the scheduler that works, and writes nothing but its Lease."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e import builders
from e2e.client import Client
from e2e.identities import HOME, Identities, shipped_rules
from e2e.peer import KubeScheduler
from e2e.provider import Cluster
from e2e.room import Room
from e2e.tandem import Tandem, profile

pytestmark = pytest.mark.tandem_only

USER = "shadow"
SHADOWED = "default-scheduler"
READING = {"get", "list", "watch"}


@pytest.fixture
def reader(identities: Identities) -> Path:
    """A user with the shipped read rights, TokenReviews and a Lease, and nothing else."""
    rules = [{**rule, "verbs": [verb for verb in rule["verbs"] if verb in READING]} for rule in shipped_rules()]
    lease = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["create", "get", "update"],
    }
    return identities.kubeconfig(USER, [*(rule for rule in rules if rule["verbs"]), lease])


@pytest.fixture
def shadow(room: Room, reader: Path, new_tandem: Callable[..., Tandem]) -> Tandem:
    options = [
        "--shadow",
        "--leader-elect=true",
        "--leader-elect-resource-namespace=default",
        f"--leader-elect-resource-name={room.name}",
    ]
    return new_tandem(kubeconfig=reader, config=profile(SHADOWED), options=options)


def decisions(shadow: Tandem) -> dict[str, dict[str, Any]]:
    """Pod -> the shadow's last word on it, of its log."""
    lines = [json.loads(line) for line in shadow.log().splitlines() if '"Shadow decision"' in line]
    return {line["pod"].rpartition("/")[2]: line for line in lines}


def test_a_shadow_compares_each_decision_with_where_kube_scheduler_put_the_pod(
    room: Room, peer: KubeScheduler, shadow: Tandem, client: Client, cluster: Cluster
) -> None:
    names = [f"n{number}" for number in range(4)]
    room.add_nodes(*(builders.node(name) for name in names))
    with shadow:
        picky = {name: {"kubernetes.io/hostname": name} for name in names}
        # A pod that is bound before the shadow has tried it is nothing to compare.
        with peer.process.paused():
            room.add_pods(
                *(
                    builders.pod(f"on-{name}", room.name, scheduler=SHADOWED, nodeSelector=picky[name])
                    for name in names
                ),
                *(builders.pod(f"free-{number}", room.name, scheduler=SHADOWED) for number in range(20)),
            )
            all_decided = 'scheduler_cache_size{type="assumed_pods"} 24.0'
            shadow.process.wait_until(lambda: all_decided in shadow.get("/metrics")[1], 20)
        placed = room.wait_bound(24)
        shadow.process.wait_until(lambda: len(decisions(shadow)) == 24, 20)
        decided = decisions(shadow)
        for pod, node in placed.items():
            assert decided[pod]["theirs"] == node
            assert decided[pod]["agrees"] == ("true" if decided[pod]["ours"] == node else "false")
        assert all(decided[f"on-{name}"]["agrees"] == "true" for name in names), "only one node was possible"
        page = json.loads(shadow.get("/debug/shadow")[1])
        assert {one["pod"].rpartition("/")[2]: one["theirs"] for one in page["decisions"]} == placed
        assert sum(page["agrees"].values()) == 24
        compared = sum(
            float(line.rpartition(" ")[2])
            for line in shadow.get("/metrics")[1].splitlines()
            if line.startswith("tandem_shadow_decisions_total{")
        )
        assert compared == 24
        assert client.get("Lease", room.name, "default")["spec"]["holderIdentity"]
        assert "Traceback" not in shadow.log()
    assert "forbidden" not in shadow.log().lower()
    _wrote_nothing(cluster)
    client.delete("Lease", room.name, "default")


def test_a_shadow_that_would_preempt_removes_no_pod(
    room: Room, shadow: Tandem, client: Client, cluster: Cluster
) -> None:
    room.add_cluster_object(builders.priority_class(room.name, 1000))
    room.add_nodes(builders.node("a", cpu="2"))
    room.add_pods(builders.pod("victim", room.name, cpu="2", scheduler=SHADOWED, nodeName="a"))
    room.wait_running(1)
    room.add_pods(builders.pod("urgent", room.name, cpu="2", scheduler=SHADOWED, priorityClassName=room.name))
    before = _versions(client, room)
    with shadow:
        shadow.process.wait_until(lambda: any("victims" in line for line in shadow.journal_lines()), 20)
        (line,) = [line for line in shadow.journal_lines() if line.get("victims")][:1]
        assert (line["nominatedNode"], line["victims"]) == ("a", [f"{room.name}/victim"])
        assert room.pods.holds_for(lambda _: _versions(client, room) == before, 3)
        assert not room.events.state
    _wrote_nothing(cluster)
    client.delete("Lease", room.name, "default")


def _versions(client: Client, room: Room) -> dict[str, str]:
    return {
        thing["metadata"]["name"]: thing["metadata"]["resourceVersion"]
        for thing in (*client.list("Pod", room.name), client.get("Node", "a"))
    }


def _wrote_nothing(cluster: Cluster) -> None:
    """The API server's audit log has no write of a pod by the shadow, allowed or not."""
    if cluster.controlplane is not None:
        user = f"system:serviceaccount:{HOME}:{USER}"
        assert not [entry for entry in cluster.controlplane.audit() if entry["user"].get("username") == user]
