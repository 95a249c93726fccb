"""Promise: several Tandems share a cluster, each with a Lease, a scheduler name and nodes of its own (`nodeScope`), and
no node has two masters, whichever of them is killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from e2e import builders
from e2e.identities import Identities, shipped_rules
from e2e.room import Room, most_pods_at_once, nodes_of_each_pod, placements
from e2e.tandem import Tandem, profile

pytestmark = pytest.mark.tandem_only

POOLS = ("red", "green", "blue")
NODES, PODS_PER_NODE = 8, 40
ROOM = NODES * PODS_PER_NODE
PLAIN = 200
URGENT = {"red": ROOM + 10, "green": 160, "blue": 0}
"""Red has ten more than its nodes can take, though blue has room and pods that matter less."""


def several(pool: str, lease: str) -> dict[str, Any]:
    """Options of a Tandem for the nodes of a pool."""
    own = {
        "apiVersion": "tandem.scheduling/v1alpha1",
        "kind": "TandemConfiguration",
        "nodeScope": {f"tandem-{pool}": {"matchLabels": {"pool": pool}}},
    }
    options = [
        "--leader-elect=true",
        "--leader-elect-lease-duration=12s",
        "--leader-elect-renew-deadline=9s",
        "--leader-elect-retry-period=1s",
        "--leader-elect-resource-namespace=kube-system",
        f"--leader-elect-resource-name={lease}-{pool}",
    ]
    name = f"tandem-{pool}"
    return {"scheduler_name": name, "config": [profile(name), own], "options": options, "journal": False}


def node_name(pool: str, number: int) -> str:
    return f"{pool}-{number}"


def pods(room: Room, pool: str, sort: str, count: int, **spec: Any) -> list[builders.Object]:
    names = [f"{sort}-{pool}-{number}" for number in range(count)]
    return [builders.pod(name, room.name, cpu="1", scheduler=f"tandem-{pool}", **spec) for name in names]


def restart(tandem: Tandem) -> None:
    tandem.kill()
    tandem.start().wait_ready(60)


def test_three_of_them_share_a_cluster_through_kills_and_no_node_has_two_masters(
    room: Room, new_tandem: Callable[..., Tandem], identities: Identities
) -> None:
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]}
    kubeconfig = identities.kubeconfig("several", [*shipped_rules(), lease])
    room.add_cluster_object(builders.priority_class(room.name, 1000))
    tandems = {pool: new_tandem(kubeconfig=kubeconfig, **several(pool, room.name)).start() for pool in POOLS}
    try:
        for tandem in tandems.values():
            tandem.wait_ready(60)
        for pool in POOLS:
            labels = {"pool": pool}
            room.add_nodes(
                *(builders.node(node_name(pool, n), cpu=str(PODS_PER_NODE), labels=labels) for n in range(NODES))
            )
        creation = room.add_pods_meanwhile(*(pod for pool in POOLS for pod in pods(room, pool, "plain", PLAIN)))
        room.wait_bound(PLAIN // 2)
        restart(tandems["red"])
        restart(tandems["green"])
        creation.result(60)
        room.wait_bound(PLAIN * len(POOLS), 90)

        urgent = {"priorityClassName": room.name}
        creation = room.add_pods_meanwhile(
            *(pod for pool, count in URGENT.items() for pod in pods(room, pool, "urgent", count, **urgent))
        )
        room.pods.wait_until(lambda state: _bound(state, "urgent") > 20, 60, "the first urgent pods")
        restart(tandems["red"])
        restart(tandems["blue"])
        creation.result(60)
        expected = ROOM + URGENT["green"]
        room.pods.wait_until(lambda state: _bound(state, "urgent") == expected, 120, f"{expected} urgent pods bound")

        by_pool = Counter(
            (name.split("-")[1], node.split("-")[0]) for name, node in placements(room.pods.state).items()
        )
        assert set(by_pool) == {(pool, pool) for pool in POOLS}, "a pod is on a node of another profile"
        assert by_pool["blue", "blue"] == PLAIN, "a victim was taken from another profile's nodes"
        ever = nodes_of_each_pod(room.pods.history)
        assert all(len(nodes) == 1 for nodes in ever.values()), "a pod was bound twice"
        assert max(most_pods_at_once(room.pods).values()) <= PODS_PER_NODE, "a node is over-committed"
        waiting = next(name for name, pod in room.pods.state.items() if _is_waiting(pod, "urgent-red"))
        message = room.wait_refused(room.pods.state[waiting]["metadata"]["name"])["message"]
        assert f"{2 * NODES} node(s) were outside of this profile's nodeScope" in message
        for tandem in tandems.values():
            assert "Traceback" not in tandem.log()
    except BaseException:
        for tandem in tandems.values():
            print(tandem.process.tail())
        raise
    finally:
        for tandem in tandems.values():
            tandem.kill()


def _bound(state: dict[str, builders.Object], sort: str) -> int:
    return sum(1 for name in placements(state) if name.startswith(sort))


def _is_waiting(pod: builders.Object, prefix: str) -> bool:
    return pod["metadata"]["name"].startswith(prefix) and not pod["spec"].get("nodeName")
