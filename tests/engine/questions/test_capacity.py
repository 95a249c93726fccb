"""Capacity: what is free by pool, in units of pods, and where room is lost."""

from __future__ import annotations

from scheduler.engine.questions.capacity import Capacity, Fits, capacity
from tests.engine.driver import Cluster
from tests.engine.questions.asking import DAEMON, OWNER, answered


def answer(cluster: Cluster, *labels: str) -> Capacity:
    return answered(cluster, capacity(cluster.engine, cluster.now, labels))


def fits(found: Capacity, shape: str) -> dict[str, Fits]:
    return {pool.name: one for pool in found.pools for one in pool.fits if one.shape == shape}


def test_pools_are_named_by_a_stated_label_or_by_a_provider_s() -> None:
    cluster = Cluster()
    instance = "node.kubernetes.io/instance-type"
    cluster.node("a0", cpu="4", labels={instance: "big", "team": "x"})
    cluster.node("a1", cpu="4", labels={instance: "big"})
    cluster.node("b0", cpu="2", labels={instance: "small", "team": "x"}, unschedulable=True)
    found = answer(cluster)
    assert found.pool_labels == (instance,)
    assert [(pool.name, pool.nodes, pool.cordoned) for pool in found.pools] == [("big", 2, 0), ("small", 1, 1)]
    assert {pool.name: pool.nodes for pool in answer(cluster, "team").pools} == {"x": 2, "": 1}
    assert {pool.name for pool in answer(cluster, "team", instance).pools} == {"x,big", "big", "x,small"}


def test_amounts_are_those_of_the_nodes_less_those_of_their_pods() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="4")
    cluster.node("n1", cpu="2")
    cluster.pod("p", cpu="1500m", node="n0")
    (pool,) = answer(cluster).pools
    cpu = pool.resources["cpu"]
    assert (cpu.allocatable, cpu.requested, cpu.free, cpu.largest_free) == (6000, 1500, 4500, 2500)


def test_room_in_pieces_is_lost() -> None:
    cluster = Cluster()
    cluster.nodes_like(4, cpu="3")
    for number in range(4):
        cluster.pod(f"web{number}", cpu="2", node=f"n{number}", metadata=OWNER)
    one = fits(answer(cluster), "default/web")[""]
    assert (one.count, one.nodes, one.lost) == (0, 0, 2), "four times one CPU is room for two pods of two"
    assert one.limited_by == {"cpu": 4}


def test_units_are_the_pods_that_wait_and_those_that_run_most() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="8")
    cluster.pod("waits", cpu="16")
    for number in range(2):
        cluster.pod(f"web{number}", cpu="1", node="n0", metadata=OWNER)
    for number in range(3):
        cluster.pod(f"agent{number}", cpu="1", node="n0", metadata=DAEMON)
    found = answer(cluster)
    assert [(shape.name, shape.pods, shape.is_waiting) for shape in found.shapes] == [
        ("default/waits", 1, True),
        ("default/web", 2, False),
    ]
    assert "Insufficient cpu" in found.shapes[0].message and not found.shapes[1].message
    assert fits(found, "default/web")[""].count == 3


def test_a_pod_that_names_thousands_of_resources_is_no_unit() -> None:
    """Each would be counted on each node: 20,000 of them on 5,000 nodes took 1.6 GB."""
    cluster = Cluster()
    cluster.node("n0", cpu="8")
    cluster.pod("many", requests={f"example.com/{number}": "1" for number in range(1_000)})
    cluster.pod("few", cpu="1", requests={"example.com/gpu": "1"})
    assert [shape.name for shape in answer(cluster).shapes] == ["default/few"]


def test_nodes_that_refuse_a_pod_for_another_reason_than_room_are_closed_to_it() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="4", taints=["k:NoSchedule"])
    cluster.node("n1", cpu="4")
    cluster.pod("waits", cpu="2")
    one = fits(answer(cluster), "default/waits")[""]
    assert (one.count, one.closed, one.lost) == (2, 1, 0)


def test_pods_with_a_host_port_fit_once_a_node_and_pod_slots_count() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="8", pods=2)
    cluster.node("n1", cpu="8")
    cluster.pod("waits", ports=[{"containerPort": 1, "hostPort": 80}])
    cluster.pod("small", cpu="1")
    found = answer(cluster)
    assert fits(found, "default/waits")[""].count == 2
    assert fits(found, "default/small")[""].count == 10


def test_a_count_that_other_copies_may_lower_is_an_upper_bound() -> None:
    cluster = Cluster()
    cluster.nodes_like(1)
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    cluster.pod("spreads", spread=[spread])
    cluster.pod("plain")
    assert {shape.name: shape.is_upper_bound for shape in answer(cluster).shapes} == {
        "default/spreads": True,
        "default/plain": False,
    }


def test_a_pod_that_is_refused_as_a_whole_fits_nowhere() -> None:
    cluster = Cluster()
    cluster.nodes_like(2)
    cluster.pod("p", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]})
    found = answer(cluster)
    assert found.shapes[0].message
    assert fits(found, "default/p")[""].count == 0


def test_an_empty_cluster_has_no_pools() -> None:
    assert answer(Cluster()).pools == ()
