"""``nodeScope``: a profile has its own nodes (docs/several.md)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scheduler.messages.commands import BindPod, CallExtender, DeletePod, EvictPod
from scheduler.testing.fragments import affinity_json, node_term, pod_term, spread_json
from tests.engine.driver import Cluster
from tests.engine.gangs import Gangs
from tests.engine.questions.asking import ask, asked, deployment
from tests.engine.questions.test_capacity import answer as capacity_answer
from tests.engine.test_group_preemption import WHOLE, run_on
from tests.engine.test_group_preemption import victims as victims_of_groups
from tests.engine.test_why_not import lines, refusals

OURS: dict[str, Any] = {"nodeScope": {"tandem-scheduler": {"matchLabels": {"pool": "ours"}}}}
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def two_pools(tandem: dict[str, Any] | None = OURS, **fields: Any) -> Cluster:
    """A node ``ours`` and a larger, free one ``theirs``."""
    cluster = Cluster(tandem=tandem, **fields)
    cluster.node("ours", cpu="2", labels={"pool": "ours"})
    cluster.node("theirs", cpu="64", labels={"pool": "theirs"})
    return cluster


def victims(cluster: Cluster) -> set[str]:
    return {command.pod.name for command in cluster.sent if isinstance(command, DeletePod | EvictPod)}


# --- one pod ----------------------------------------------------------------------------------------------------------


def test_no_pod_is_placed_outside_of_its_profiles_nodes() -> None:
    cluster = two_pools()
    for number in range(3):
        cluster.pod(f"a{number}", cpu="1")
    cluster.settle()
    assert [cluster.node_of(f"a{number}") for number in range(3)] == ["ours", "ours", ""]
    assert cluster.attempt("a2").message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were outside of this profile's nodeScope. no new "
        "claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 "
        "Preemption is not helpful for scheduling."
    )


def test_a_profile_that_is_not_named_may_use_all_nodes() -> None:
    profiles = [{"schedulerName": "tandem-scheduler"}, {"schedulerName": "free"}]
    cluster = two_pools(configuration={"profiles": profiles})
    cluster.pod("a", cpu="3", scheduler="free")
    cluster.pod("b", cpu="3")
    cluster.settle()
    assert (cluster.node_of("a"), cluster.node_of("b")) == ("theirs", "")


def test_a_pod_of_a_daemon_set_for_a_node_outside_waits() -> None:
    cluster = two_pools()
    only = affinity_json(node_required=[node_term(fields=["metadata.name In theirs"])])
    cluster.pod("a", affinity=only)
    cluster.settle()
    assert cluster.node_of("a") == ""
    assert "1 node(s) were outside of this profile's nodeScope" in cluster.attempt("a").message


def test_a_nomination_to_a_node_outside_is_not_followed() -> None:
    cluster = two_pools()
    cluster.pod("a", cpu="1", nominated="theirs")
    cluster.settle()
    assert cluster.node_of("a") == "ours"


def test_a_node_that_comes_into_scope_wakes_the_pods_that_wait_for_one() -> None:
    cluster = two_pools()
    cluster.pod("a", cpu="3")
    cluster.settle()
    assert cluster.node_of("a") == ""
    cluster.node("theirs", cpu="64", labels={"pool": "theirs", "other": "change"})
    assert cluster.place("a") == "unschedulable"
    cluster.node("theirs", cpu="64", labels={"pool": "ours"})
    cluster.advance(30)
    cluster.settle()
    assert cluster.node_of("a") == "theirs"


def test_pods_stay_on_a_node_that_leaves_the_scope_and_no_more_come() -> None:
    cluster = two_pools()
    cluster.pod("a", cpu="1")
    cluster.settle()
    cluster.node("ours", cpu="2", labels={})
    cluster.pod("b", cpu="1")
    cluster.settle()
    assert (cluster.node_of("a"), cluster.node_of("b")) == ("ours", "")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["theirs"]}]}, {"ours", "none"}),
        ({"matchExpressions": [{"key": "pool", "operator": "Exists"}]}, {"ours", "theirs"}),
        (
            {"matchLabels": {"pool": "theirs"}, "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]},
            {"theirs"},
        ),
        ({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["ours", "none"]}]}, {"ours"}),
    ],
)
def test_a_scope_is_a_label_selector(selector: dict[str, Any], expected: set[str]) -> None:
    cluster = Cluster(tandem={"nodeScope": {"tandem-scheduler": selector}})
    for name, labels in (("ours", {"pool": "ours"}), ("theirs", {"pool": "theirs"}), ("none", {})):
        cluster.node(name, cpu="1", labels=labels)
    for number in range(3):
        cluster.pod(f"a{number}", cpu="1")
    cluster.settle()
    assert {cluster.node_of(f"a{number}") for number in range(3)} - {""} == expected


# --- preemption -------------------------------------------------------------------------------------------------------


def test_no_victim_is_taken_outside() -> None:
    cluster = two_pools()
    cluster.pod("important", cpu="2", node="ours", priority=1000)
    cluster.pod("theirs", cpu="64", node="theirs", priority=-10)
    cluster.pod("a", cpu="1", priority=10)
    cluster.settle()
    assert victims(cluster) == set()
    cluster.pod("less", cpu="0", node="ours", priority=0)
    cluster.delete("important")
    cluster.pod("important", cpu="1500m", node="ours", priority=1)
    cluster.advance(30)
    cluster.settle()
    assert victims(cluster) == {"important"}
    assert cluster.node_of("a") == "ours"


def test_no_victim_is_taken_outside_either_where_an_extender_names_it() -> None:
    asking = {"urlPrefix": "http://e.test", "nodeCacheCapable": True, "preemptVerb": "preempt"}
    cluster = two_pools(configuration={"extenders": [asking]})
    cluster.pod("low", cpu="2", node="ours", priority=0)
    cluster.pod("theirs", cpu="64", node="theirs", priority=-10)
    cluster.pod("a", cpu="1", priority=10)
    cluster.schedule()
    named = {"NodeNameToMetaVictims": {"theirs": {"Pods": [{"UID": cluster.uid("theirs")}]}}}
    cluster.answer(cluster.write(CallExtender), named)
    cluster.settle()
    assert "which is outside of the profile's nodeScope" in cluster.attempt("a").message
    assert (victims(cluster), cluster.nominated("a")) == (set(), "")


def test_a_group_takes_no_victim_outside_even_where_that_is_what_keeps_it_from_its_place() -> None:
    """Anti-affinity over a zone: the pod that is in the way runs on a node of others."""
    cluster = Gangs(WHOLE, tandem=OURS)
    for name in ("ours", "theirs"):
        cluster.node(name, cpu="4", labels={"pool": name, ZONE: "z"})
    cluster.pod("in-the-way", node="theirs", labels={"app": "x"}, priority=0)
    apart = affinity_json(anti_required=[pod_term({"app": "x"}, ZONE)])
    cluster.group(min_count=1, priority=10)
    cluster.member("g0", cpu="1", affinity=apart)
    run_on(cluster)
    assert victims_of_groups(cluster) == set()
    assert cluster.conditions()[-1][2].endswith("No preemption victims found for incoming preemptor")
    free = Gangs(WHOLE)
    for name in ("ours", "theirs"):
        free.node(name, cpu="4", labels={"pool": name, ZONE: "z"})
    free.pod("in-the-way", node="theirs", labels={"app": "x"}, priority=0)
    free.group(min_count=1, priority=10)
    free.member("g0", cpu="1", affinity=apart)
    run_on(free)
    assert victims_of_groups(free) == {"in-the-way"}


def test_a_group_that_goes_only_as_a_whole_stays_where_one_of_its_pods_is_outside() -> None:
    cluster = Gangs(WHOLE, tandem=OURS)
    cluster.node("ours", cpu="1", labels={"pool": "ours"})
    cluster.node("theirs", cpu="1", labels={"pool": "theirs"})
    cluster.group("old", min_count=2, priority=1, disruptionMode="PodGroup")
    cluster.member("old0", "old", cpu="1", node="ours")
    cluster.member("old1", "old", cpu="1", node="theirs")
    cluster.group(min_count=1, priority=10)
    cluster.members(1, cpu="1")
    run_on(cluster)
    assert victims_of_groups(cluster) == set()


def test_a_group_is_placed_within_its_scope_or_not_at_all() -> None:
    cluster = Gangs(tandem=OURS)
    cluster.node("ours", cpu="2", labels={"pool": "ours"})
    cluster.node("theirs", cpu="64", labels={"pool": "theirs"})
    cluster.group(min_count=3)
    cluster.members(3, cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {}
    cluster.group("h", min_count=2)
    cluster.members(2, "h", cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {"h0": "ours", "h1": "ours"}


# --- as required node affinity ----------------------------------------------------------------------------------------


def test_nodes_outside_do_not_hold_up_a_spread_that_honours_node_affinity() -> None:
    """By default a constraint counts the nodes that the pod may use; with ``nodeAffinityPolicy: Ignore`` all."""
    cluster = Cluster(tandem=OURS)
    for pool in ("ours", "theirs"):
        for number in range(2):
            cluster.node(f"{pool}{number}", labels={"pool": pool, HOSTNAME: f"{pool}{number}"})
    for number in range(4):
        cluster.pod(f"a{number}", labels={"app": "a"}, spread=[spread_json(HOSTNAME, {"app": "a"})])
    for number in range(4):
        ignoring = spread_json(HOSTNAME, {"app": "b"}, nodeAffinityPolicy="Ignore")
        cluster.pod(f"b{number}", labels={"app": "b"}, spread=[ignoring])
    cluster.settle()
    assert sorted(cluster.node_of(f"a{number}") for number in range(4)) == ["ours0", "ours0", "ours1", "ours1"]
    assert sorted(cluster.node_of(f"b{number}") for number in range(4)) == ["", "", "ours0", "ours1"]


def test_a_pod_that_waits_for_a_spread_is_tried_again_when_a_node_leaves_the_scope() -> None:
    cluster = Cluster(tandem=OURS)
    for number in range(2):
        cluster.node(f"n{number}", cpu=str(2 * (1 - number)), labels={"pool": "ours", HOSTNAME: f"n{number}"})
    for number in range(2):
        cluster.pod(f"a{number}", cpu="1", labels={"app": "a"}, spread=[spread_json(HOSTNAME, {"app": "a"})])
    cluster.settle()
    assert sorted(cluster.node_of(f"a{number}") for number in range(2)) == ["", "n0"]
    cluster.node("n1", cpu="0", labels={"pool": "theirs", HOSTNAME: "n1"})
    cluster.advance(30)
    cluster.settle()
    assert sorted(cluster.node_of(f"a{number}") for number in range(2)) == ["n0", "n0"]


def _case(seed: int, cluster: Cluster, needs: dict[str, Any]) -> None:
    """A crowded cluster of two pools and pods that concern each other; ``needs`` are fields of each of ours."""
    chance = random.Random(seed)
    for number in range(10):
        labels = {"pool": chance.choice(["ours", "theirs"]), HOSTNAME: f"n{number}", ZONE: f"z{number % 3}"}
        cluster.node(f"n{number}", cpu="4", labels=labels, taints=chance.choice([[], [], ["t=x:NoSchedule"]]))
    for number in range(14):
        labels = {"app": chance.choice("abc")}
        node = f"n{chance.randrange(10)}"
        cluster.pod(f"old{number}", cpu="1", node=node, labels=labels, priority=chance.choice([-5, 0, 50]))
    for number in range(40):
        app = chance.choice("abc")
        fields: dict[str, Any] = {}
        kind = chance.randrange(5)
        if kind == 0:
            key, soft = chance.choice([HOSTNAME, ZONE]), chance.choice([True, False])
            fields["spread"] = [spread_json(key, {"app": app}, soft=soft)]
        elif kind == 1:
            fields["affinity"] = affinity_json(anti_required=[pod_term({"app": app}, HOSTNAME)])
        elif kind == 2:
            fields["tolerations"] = [{"operator": "Exists"}]
        cluster.pod(
            f"p{number}",
            cpu=chance.choice(["500m", "1", "2"]),
            labels={"app": app},
            priority=chance.choice([0, 10, 100]),
            **fields,
            **needs,
        )
    for _ in range(5):
        cluster.settle(1000)
        cluster.advance(11)


@pytest.mark.parametrize("seed", range(12))
def test_a_scope_decides_as_the_same_node_selector_in_every_pod_would(seed: int) -> None:
    scoped, selecting = Cluster(tandem=OURS, seed=seed), Cluster(seed=seed)
    _case(seed, scoped, {})
    _case(seed, selecting, {"node_selector": {"pool": "ours"}})
    names = [f"p{number}" for number in range(40)]
    assert [scoped.node_of(name) for name in names] == [selecting.node_of(name) for name in names]
    assert victims(scoped) == victims(selecting)
    used = {command.node for command in scoped.sent if isinstance(command, BindPod)}
    assert used and all(scoped.nodes[name].metadata.labels["pool"] == "ours" for name in used)


# --- questions --------------------------------------------------------------------------------------------------------


def test_why_says_what_the_scope_wants_and_what_the_nodes_have() -> None:
    cluster = two_pools()
    cluster.pod("a", cpu="3")
    cluster.schedule()
    entry = refusals(cluster, "a")["NodeScope"]
    assert (entry["count"], entry["reasons"]) == (1, ["node(s) were outside of this profile's nodeScope"])
    assert lines(entry) == [(1, ("nodeScope wants pool=ours: pool=theirs",))]


def test_what_if_places_within_the_scope_and_says_what_is_outside() -> None:
    cluster = two_pools()
    answer = ask(cluster, workloads=asked(deployment(1), replicas=3))
    assert (answer.placed, answer.pending) == (2, 1)
    assert "1 node(s) were outside of this profile's nodeScope" in answer.placements[-1].message


def test_capacity_counts_the_nodes_outside_as_such() -> None:
    cluster = two_pools()
    cluster.pod("a", cpu="1")
    (pool,) = capacity_answer(cluster).pools
    (fits,) = pool.fits
    assert (fits.count, fits.nodes, fits.closed, fits.outside_of_scope) == (2, 1, 1, 1)
