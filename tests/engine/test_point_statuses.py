"""What each extension point of an attempt came to, for the metrics: the code of kube-scheduler's own status."""

from __future__ import annotations

import pytest

from scheduler.framework.plugin import Plugin, Wait
from scheduler.messages.status import failure, unresolvable, unschedulable
from tests.engine.driver import Cluster
from tests.engine.scripted import broken, scripted


def statuses(cluster: Cluster, name: str = "a") -> dict[str, str]:
    """Of each extension point that an attempt at a new pod came by."""
    cluster.pod(name)
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.statuses.keys() <= attempt.durations.keys()
    return {point: attempt.statuses.get(point, "Success") for point in attempt.durations}


def test_a_search_that_finds_no_node_is_a_success_and_only_preemption_is_not() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="0")
    cluster.pod("first", cpu="1")
    cluster.schedule()
    cluster.pod("second", cpu="1")
    attempts = [cluster.attempt("first"), cluster.schedule()]
    for attempt in attempts:
        assert attempt is not None
        assert list(attempt.durations) == ["PreFilter", "Filter", "PostFilter"]
        assert attempt.statuses == {"PostFilter": "Unschedulable"}


def test_preemption_that_makes_room_is_a_success() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="1")
    cluster.pod("low", cpu="1", node="n", priority=0)
    cluster.pod("high", cpu="1", priority=10)
    attempt = cluster.schedule()
    assert attempt is not None and attempt.nominated_node == "n"
    assert "PostFilter" in attempt.durations and not attempt.statuses


def test_a_pod_that_is_refused_as_a_whole_has_the_code_of_its_refusal() -> None:
    for answer, code in (
        (unschedulable("no"), "Unschedulable"),
        (unresolvable("never"), "UnschedulableAndUnresolvable"),
        (failure("no idea"), "Error"),
    ):
        cluster = Cluster(scripted("Refuses", pre_filter=lambda pod, answer=answer: answer))
        cluster.node("n")
        found = statuses(cluster)
        assert found["PreFilter"] == code
        assert "Filter" not in found


def test_the_point_at_which_a_plugin_fails_is_the_one_in_error() -> None:
    cluster = Cluster(scripted("Fails", filter=lambda pod, node: failure("no idea")))
    cluster.node("n")
    assert statuses(cluster) == {"PreFilter": "Success", "Filter": "Error"}
    cluster = Cluster(scripted("Fails", reserve=broken))
    cluster.node("n")
    found = statuses(cluster)
    assert found["Filter"] == "Success" and found["Reserve"] == "Error"
    assert "Permit" not in found


@pytest.mark.parametrize(
    ("point", "plugin"),
    [
        ("Score", scripted("Fails", score=broken)),
        ("PreScore", scripted("Fails", pre_score=lambda pod: failure("no idea"), score=lambda pod, node: 1)),
    ],
)
def test_scoring_that_fails_is_counted_as_an_error_of_its_point(point: str, plugin: type[Plugin]) -> None:
    cluster = Cluster(plugin)
    cluster.nodes_like(2)
    assert statuses(cluster) == {"PreFilter": "Success", "Filter": "Success", point: "Error"}


def test_permit_that_says_wait_or_no_is_counted_as_that() -> None:
    for answer, code in ((Wait(5), "Wait"), (unschedulable("no"), "Unschedulable"), (None, "Success")):
        cluster = Cluster(scripted("Gate", permit=lambda pod, node, answer=answer: answer))
        cluster.node("n")
        found = statuses(cluster)
        assert found["Permit"] == code and found["Reserve"] == "Success"


def test_without_a_plugin_that_may_make_room_there_is_no_such_point() -> None:
    cluster = Cluster(profile={"plugins": {"postFilter": {"disabled": [{"name": "*"}]}}})
    cluster.node("n", cpu="0")
    assert "PostFilter" not in statuses(cluster)
