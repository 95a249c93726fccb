"""What would help: a pod that waits, and the changes with which the cycle places it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.questions.answers import SECONDS
from scheduler.engine.questions.edits import WrongQuestion
from scheduler.engine.questions.helps import Helps
from scheduler.engine.questions.what_helps import what_helps
from scheduler.testing.fragments import affinity_json, node_term, pod_term, spread_json
from tests.engine.driver import Cluster
from tests.engine.questions.asking import DAEMON, OWNER, answered


def helps(cluster: Cluster, name: str = "p", **options: Any) -> Helps:
    return answered(cluster, what_helps(cluster.engine, f"default/{name}", cluster.now, **options))


def texts(found: Helps) -> dict[str, str]:
    """Change in words → the node that it leads to."""
    return {one.text: one.node for one in found.helps}


def test_the_largest_request_that_fits_is_named() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="4")
    cluster.node("n1", cpu="4")
    cluster.pod("there", cpu="1500m", node="n0")
    cluster.pod("more", cpu="3", node="n1")
    cluster.pod("p", cpu="3")
    assert texts(helps(cluster))["request 500m cpu less: 2500m in place of 3"] == "n0"


def test_less_memory_and_less_cpu_are_no_single_change() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1", memory="1Gi")
    cluster.pod("p", cpu="2", memory="2Gi")
    assert not [one for one in helps(cluster).helps if one.change == "resource"]


@pytest.mark.parametrize(
    ("fields", "node", "text"),
    [
        ({"spec": {"nodeSelector": {"disk": "ssd", "arch": "amd64"}}}, {"labels": {"arch": "amd64"}}, "disk=ssd"),
        (
            {"affinity": affinity_json(node_required=[node_term("disk In ssd", "arch In amd64")])},
            {"labels": {"arch": "amd64"}},
            "drop disk In (ssd) from its node affinity",
        ),
        ({}, {"taints": ["team=a:NoSchedule"]}, "tolerate the taint team=a:NoSchedule"),
        ({}, {"unschedulable": True}, "open node n0 for new pods (uncordon)"),
        ({"spec": {"schedulingGates": [{"name": "quota"}]}}, {}, "remove its scheduling gates (quota)"),
        (
            {"labels": {"a": "b"}, "affinity": affinity_json(required=[pod_term({"x": "y"})])},
            {"labels": {"kubernetes.io/hostname": "n0"}},
            "drop the required pod affinity over kubernetes.io/hostname",
        ),
    ],
)
def test_one_condition_less_helps(fields: dict[str, Any], node: dict[str, Any], text: str) -> None:
    cluster = Cluster()
    cluster.node("n0", **node)
    cluster.pod("p", **fields)
    found = texts(helps(cluster))
    assert any(text in each for each in found), found
    assert set(found.values()) <= {"n0", "n0-new-1"}


def test_a_spread_constraint_may_become_a_preference() -> None:
    cluster = Cluster()
    cluster.node("n0", labels={"zone": "a"})
    cluster.node("n1", labels={"zone": "b"}, unschedulable=True)
    spread = spread_json("zone", {"app": "w"}, nodeTaintsPolicy="Ignore")
    cluster.pod("there", labels={"app": "w"}, node="n0")
    cluster.pod("p", labels={"app": "w"}, spread=[spread])
    assert texts(helps(cluster))["spread over zone only as a preference (ScheduleAnyway)"] == "n0"


def test_a_host_port_in_use() -> None:
    cluster = Cluster()
    cluster.node("n0")
    cluster.pod("there", node="n0", ports=[{"containerPort": 1, "hostPort": 80}], metadata=OWNER)
    cluster.pod("p", ports=[{"containerPort": 1, "hostPort": 80}])
    found = texts(helps(cluster))
    assert found["do without the host port 80"] == "n0"
    assert found["without pod default/there on n0, which would not fit elsewhere"] == "n0"


def test_a_pod_that_would_fit_elsewhere_is_moved_and_one_of_a_daemon_set_is_not_named() -> None:
    cluster = Cluster()
    cluster.node("big", cpu="4")
    cluster.node("small", cpu="1")
    cluster.pod("movable", cpu="1", node="big", metadata=OWNER)
    cluster.pod("agent", cpu="1", node="big", metadata=DAEMON)
    cluster.pod("p", cpu="3")
    assert texts(helps(cluster))["move pod default/movable from big to small"] == "big"
    assert "default/agent" not in {one.pod for one in helps(cluster).helps}


def test_a_pod_that_would_come_back_to_its_node_is_not_moved_there() -> None:
    cluster = Cluster()
    for name in ("n0", "n1"):
        cluster.node(name, cpu="4", labels={"zone": name})
        fields: dict[str, Any] = {"node": name, "node_selector": {"zone": name}, "metadata": OWNER}
        cluster.pod(f"on-{name}", cpu="1", labels={"app": "web"}, **fields)
    few = spread_json("zone", {"app": "web"}, minDomains=3)
    cluster.pod("p", cpu="1", labels={"app": "web"}, spread=[few])
    found = texts(helps(cluster))
    assert found["without pod default/on-n0 on n0, which would fit there again afterwards"] == "n0"
    assert not [text for text in found if text.startswith("move pod")]


def test_a_pod_that_is_being_deleted_is_not_helped() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    cluster.pod("p", cpu="3", metadata={"deletionTimestamp": "2027-01-15T08:00:00Z", "finalizers": ["a.b/c"]})
    with pytest.raises(WrongQuestion, match="being deleted"):
        helps(cluster)


def test_extenders_that_are_not_asked_are_named() -> None:
    managed = {"managedResources": [{"name": "example.com/gpu"}], "filterVerb": "filter"}
    cluster = Cluster(configuration={"extenders": [{"urlPrefix": "http://extender", **managed}]})
    cluster.node("n0", cpu="1", allocatable={"example.com/gpu": "1"})
    cluster.pod("p", requests={"example.com/gpu": "1"})
    cluster.pod("other", cpu="3")
    found = helps(cluster)
    assert (found.fits_now, found.unasked_extenders) == ("n0", ("http://extender",))
    assert not helps(cluster, "other").unasked_extenders


def test_the_lowest_priority_that_preempts_is_named_with_its_victims() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="2")
    cluster.node("n1", cpu="2")
    cluster.pod("low", cpu="2", priority=5, node="n0")
    cluster.pod("high", cpu="2", priority=50, node="n1")
    cluster.pod("p", cpu="2", priority=1)
    (found,) = [one for one in helps(cluster).helps if one.change == "priority"]
    assert (found.text, found.victims, found.node) == (
        "priority 6 in place of 1: from there on it preempts",
        ("default/low",),
        "n0",
    )


def test_a_pod_that_preempts_by_its_own_priority_needs_no_other() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="2")
    cluster.pod("low", cpu="2", priority=5, node="n")
    cluster.pod("lower", cpu="1", priority=1, node="n")
    cluster.pod("p", cpu="2", priority=9)
    found = [(one.text, one.node, one.victims) for one in helps(cluster).helps if one.change == "priority"]
    assert found == [("nothing: it preempts by the priority that it has", "n", ("default/low", "default/lower"))]


def test_one_more_node_like_those_that_are_there() -> None:
    cluster = Cluster()
    cluster.node("big", cpu="4", labels={"pool": "a"})
    cluster.node("small", cpu="1", labels={"pool": "b"})
    cluster.pod("there", cpu="4", node="big")
    cluster.pod("p", cpu="4")
    found = {one.text: one.node for one in helps(cluster).helps if one.change == "node added"}
    assert found == {"one more node like big": "big-new-1"}


def test_what_nodes_have_of_what_the_pod_wants_is_counted() -> None:
    cluster = Cluster()
    cluster.node("n0", labels={"disk": "hdd"}, taints=["team=a:NoSchedule"])
    cluster.node("n1", labels={"disk": "hdd"})
    cluster.node("n2")
    cluster.pod("p", spec={"nodeSelector": {"disk": "ssd"}})
    values = {one.wanted: one.found for one in helps(cluster).values}
    assert values == {"disk=ssd": {"hdd": 2, "": 1}, "a toleration": {"team=a:NoSchedule": 1}}


def test_the_changes_are_in_order_and_each_was_proven() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="2", taints=["k:NoSchedule"])
    cluster.node("n1", cpu="1")
    cluster.pod("p", cpu="2")
    found = helps(cluster)
    assert [one.change for one in found.helps] == ["resource", "toleration"]
    assert "Insufficient cpu" in found.message


def test_a_pod_that_fits_says_so_and_one_without_need_is_refused() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="2")
    cluster.pod("p", cpu="1")
    assert helps(cluster).fits_now == "n0"
    cluster.pod("there", node="n0")
    for name in ("there", "absent\x1b"):
        with pytest.raises(WrongQuestion):
            helps(cluster, name)


def test_a_search_whose_time_is_up_says_so() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1", taints=["k:NoSchedule"])
    cluster.pod("p", cpu="2", spec={"nodeSelector": {"a": "b"}})
    assert helps(cluster, is_over=lambda: True).bound == SECONDS


def test_of_a_pod_that_names_thousands_of_label_keys_some_are_shown() -> None:
    """For each of them all nodes are looked at, whatever the bound of the question's time."""
    cluster = Cluster()
    cluster.node("n0", cpu="4")
    wanted = [f"key{number} In a" for number in range(1_000)]
    cluster.pod("p", cpu="1", affinity=affinity_json(node_required=[node_term(*wanted)]))
    assert len(helps(cluster).values) == 50


def test_a_pod_with_thousands_of_tolerations_learns_which_toleration_is_missing() -> None:
    """Each node's taints against each toleration: 2,000 nodes and 5,000 tolerations were one step of 2.9 s."""
    cluster = Cluster()
    for number in range(200):
        cluster.node(f"n{number}", cpu="4", taints=[f"key=value{number}:NoSchedule"])
    tolerations = [{"key": "key", "value": f"other{number}", "effect": "NoSchedule"} for number in range(2_000)]
    cluster.pod("p", cpu="1", tolerations=tolerations)
    found = texts(helps(cluster))
    assert found["tolerate the taint key=value0:NoSchedule"] == "n0"
