"""Promise: beside another scheduler Tandem learns from refusals, and keeps to the nodes it is given."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e import builders
from e2e.client import Client
from e2e.provider import Cluster
from e2e.room import Room, placements
from e2e.subject import Scheduler
from e2e.tandem import Tandem, profile

pytestmark = pytest.mark.tandem_only


def replica_set(name: str, namespace: str, **spec: object) -> builders.Object:
    document = builders.deployment(name, namespace, 1, **spec)
    return {**document, "kind": "ReplicaSet"}


def test_after_a_kubelets_refusal_the_owners_next_pod_goes_elsewhere_until_the_node_is_free_again(
    room: Room, scheduler: Scheduler, client: Client, cluster: Cluster
) -> None:
    if cluster.controlplane is None:
        pytest.skip("the kubelets of a shared cluster are not ours to stop")
    room.add_nodes(builders.node("liked", labels={"liked": "yes"}), builders.node("other"))
    likes = {"matchExpressions": [{"key": "liked", "operator": "In", "values": ["yes"]}]}
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": likes}]}
    cluster.controlplane.stop_kwok()
    try:
        client.create(replica_set("web", room.name, affinity={"nodeAffinity": affinity}))
        ((name, node),) = room.wait_bound(1).items()
        assert node == "liked"
        # As a kubelet says it that has found its room taken, by a pod that the scheduler could not know of.
        refusal = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
        client.patch("Pod", name, room.name, {"status": refusal}, "status")
        placed = room.wait_bound(2)
        assert {node for pod, node in placed.items() if pod != name} == {"other"}
    finally:
        cluster.controlplane.start_kwok()
    page = scheduler.get("/metrics")[1].splitlines()
    assert 'tandem_kubelet_refusals_total{reason="OutOfcpu"} 1.0' in page
    assert "tandem_nodes_left_alone 1.0" in page
    assert not client.get("Node", "liked")["spec"].get("taints"), "the back-off is not visible to others"


def test_a_profile_with_a_node_scope_places_and_preempts_only_there(
    room: Room, new_tandem: Callable[..., Tandem]
) -> None:
    """The scope is NodeAffinity's ``addedAffinity``, as for kube-scheduler."""
    ours = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["ours"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ours]}}
    scoped = f"{room.name}-scoped"
    config = profile(scoped)
    config["profiles"][0]["pluginConfig"] = [{"name": "NodeAffinity", "args": {"addedAffinity": required}}]
    room.add_cluster_object(builders.priority_class(room.name, 1000))
    room.add_nodes(builders.node("ours", cpu="2", labels={"pool": "ours"}), builders.node("theirs", cpu="2"))
    with new_tandem(scheduler_name=scoped, config=config):
        room.add_pods(builders.pod("theirs", room.name, cpu="2", nodeName="theirs"))
        room.add_pods(*(builders.pod(f"p{number}", room.name, cpu="1", scheduler=scoped) for number in range(3)))
        room.pods.wait_until(lambda state: len(state) == 4 and len(placements(state)) == 3, 20, "two pods with a node")
        waiting = next(name for name in ("p0", "p1", "p2") if not room.pod(name)["spec"].get("nodeName"))
        message = room.wait_refused(waiting)["message"]
        assert "1 Insufficient cpu" in message
        assert "1 node(s) didn't match scheduler-enforced node affinity" in message
        room.add_pods(builders.pod("urgent", room.name, cpu="2", scheduler=scoped, priorityClassName=room.name))
        room.wait_placed("urgent", "ours")
        assert f"{room.name}/theirs" in room.pods.state
