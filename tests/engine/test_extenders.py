"""Extenders in the scheduling, preemption and binding cycles: what they are asked, and what their answers do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.engine.attempt import ERROR, SCHEDULED, UNSCHEDULABLE
from scheduler.framework.plugin import NodeSubset, PreFilterPlugin
from scheduler.messages.commands import BindPod, CallExtender, DeletePod, PatchPodStatus
from scheduler.messages.stimuli import ObjectObserved, Tick
from scheduler.objects.kinds import Kind, decode
from scheduler.testing.documents import node_json, pod_json
from tests.engine.driver import Cluster

GPU = "example.com/gpu"


def extender(number: int = 1, **fields: Any) -> dict[str, Any]:
    return {"urlPrefix": f"http://e{number}.test", "nodeCacheCapable": True, **fields}


def cluster_with(*extenders: dict[str, Any], nodes: int = 3, **fields: Any) -> Cluster:
    cluster = Cluster(configuration={"extenders": list(extenders)}, **fields)
    cluster.nodes_like(nodes, cpu="4")
    return cluster


class OnlyTwo(PreFilterPlugin):
    name = "OnlyTwo"

    def pre_filter(self, pod: PodInfo, view: View) -> NodeSubset:
        return NodeSubset(frozenset({"n0", "n1"}))


def asked(cluster: Cluster, verb: str) -> dict[str, Any]:
    """The body of the only call that is unanswered."""
    call = cluster.write(CallExtender)
    assert call.verb == verb
    body: dict[str, Any] = msgspec.json.decode(call.body)
    return body


def answer(cluster: Cluster, body: Any) -> None:
    cluster.answer(cluster.write(CallExtender), body)


# --- filter -----------------------------------------------------------------------------------------------------------


def test_each_extender_gets_what_the_former_left() -> None:
    cluster = cluster_with(extender(1, filterVerb="filter"), extender(2, filterVerb="filter"))
    cluster.pod("a")
    cluster.schedule()
    assert sorted(asked(cluster, "filter")["NodeNames"]) == ["n0", "n1", "n2"]
    answer(cluster, {"NodeNames": ["n1", "n2"], "FailedNodes": {"n0": "too old"}})
    assert sorted(asked(cluster, "filter")["NodeNames"]) == ["n1", "n2"]
    answer(cluster, {"NodeNames": ["n2"]})
    assert cluster.write(BindPod, "a").node == "n2"


def test_when_nothing_is_left_no_further_extender_is_asked_and_each_reason_is_reported() -> None:
    cluster = cluster_with(extender(1, filterVerb="filter"), extender(2, filterVerb="filter"))
    cluster.pod("a")
    cluster.schedule()
    answer(cluster, {"FailedNodes": {"n0": "too old"}, "FailedAndUnresolvableNodes": {"n1": "wrong model"}})
    assert cluster.writes(CallExtender) == []
    (note,) = cluster.said("a")
    assert "1 too old, 1 wrong model" in note
    assert cluster.attempt("a").result == UNSCHEDULABLE


def test_a_pod_that_an_extender_rejected_is_woken_by_any_event() -> None:
    cluster = cluster_with(extender(1, filterVerb="filter"))
    cluster.pod("a")
    cluster.schedule()
    answer(cluster, {"FailedNodes": {"n0": "no", "n1": "no", "n2": "no"}})
    assert cluster.attempt("a").rejectors == ("Extender",)
    cluster.advance(5)
    assert cluster.place("a") == "unschedulable"
    cluster.node("n0", cpu="4", labels={"unheard-of": "label"})
    assert cluster.place("a") == "active"


def test_while_an_extender_is_silent_no_other_pod_is_tried_and_the_watch_goes_on() -> None:
    cluster = cluster_with(extender(1, filterVerb="filter"))
    cluster.pod("a", cpu="3")
    cluster.pod("b", cpu="3")
    cluster.schedule()
    assert cluster.schedule() is None
    cluster.remove_node("n0")
    answer(cluster, {"NodeNames": ["n1"]})
    assert cluster.write(BindPod, "a").node == "n1"
    cluster.schedule()
    assert asked(cluster, "filter")["NodeNames"] == ["n2"]


def test_a_silent_extender_costs_its_pod_the_attempt_after_its_time() -> None:
    cluster = cluster_with(extender(1, filterVerb="filter", httpTimeout="2s"))
    cluster.pod("a")
    cluster.pod("b")
    cluster.schedule()
    call = cluster.write(CallExtender)
    assert call.timeout_seconds == 2
    cluster.unanswered.remove(call)
    cluster.advance(60)
    cluster.feed(Tick())
    assert cluster.attempts("a")[0].result == ERROR
    assert cluster.place("a") in ("active", "error backoff")
    cluster.schedule()
    assert cluster.writes(CallExtender), "the next pod is tried"


@pytest.mark.parametrize("lie", [{"NodeNames": ["elsewhere"]}, {"Error": "out of luck"}, ["not", "an", "object"]])
def test_an_extender_that_lies_or_fails_ends_the_attempt_in_an_error(lie: Any) -> None:
    cluster = cluster_with(extender(1, filterVerb="filter"))
    cluster.pod("a")
    cluster.schedule()
    answer(cluster, lie)
    attempt = cluster.attempt("a")
    assert (attempt.result, cluster.place("a")) == (ERROR, "error backoff")
    condition = cluster.write(PatchPodStatus, "a").condition
    assert condition is not None
    assert condition.reason == "SchedulerError"


def test_one_whose_failure_is_ignored_is_asked_last_and_changes_nothing_when_it_fails() -> None:
    ignorable = extender(1, filterVerb="filter", ignorable=True)
    cluster = cluster_with(ignorable, extender(2, filterVerb="filter"))
    cluster.pod("a")
    cluster.schedule()
    assert cluster.write(CallExtender).url == "http://e2.test/filter"
    answer(cluster, {"NodeNames": ["n1"]})
    assert cluster.write(CallExtender).url == "http://e1.test/filter"
    cluster.fail(cluster.write(CallExtender))
    assert cluster.write(BindPod, "a").node == "n1"


def test_a_node_that_is_dropped_without_a_word_is_not_emptied_for_the_pod() -> None:
    cluster = cluster_with(extender(1, filterVerb="filter"), nodes=2)
    cluster.pod("low", cpu="1", node="n0", priority=0)
    cluster.pod("high", cpu="1", priority=10)
    cluster.schedule()
    answer(cluster, {"NodeNames": []})
    assert cluster.writes(DeletePod) == []
    assert cluster.attempt("high").result == UNSCHEDULABLE


def test_what_an_extender_said_of_a_node_that_it_let_pass_holds_if_the_next_one_drops_it_without_a_word() -> None:
    cluster = cluster_with(extender(1, filterVerb="filter"), extender(2, filterVerb="filter"), nodes=2)
    cluster.pod("a")
    cluster.schedule()
    answer(cluster, {"NodeNames": ["n0", "n1"], "FailedNodes": {"n0": "no gpu"}})
    answer(cluster, {"NodeNames": []})
    assert "0/2 nodes are available: 1 no gpu." in cluster.attempt("a").message


def test_what_it_said_of_the_nominated_node_holds_if_it_drops_it_from_all_nodes_without_a_word() -> None:
    cluster = cluster_with(extender(1, filterVerb="filter"), nodes=2)
    cluster.pod("a", nominated="n1")
    cluster.schedule()
    answer(cluster, {"FailedNodes": {"n1": "no gpu"}})
    answer(cluster, {"FailedNodes": {"n0": "too old"}})
    assert "0/2 nodes are available: 1 no gpu, 1 too old." in cluster.attempt("a").message


def test_extenders_see_only_pods_that_want_their_resources_and_the_scheduler_leaves_those_to_them() -> None:
    managed = [{"name": GPU, "ignoredByScheduler": True}]
    cluster = cluster_with(extender(1, filterVerb="filter", managedResources=managed))
    cluster.pod("plain")
    cluster.schedule()
    assert cluster.write(BindPod, "plain")
    cluster.pod("wanting", requests={GPU: "3"})
    cluster.schedule()
    assert len(asked(cluster, "filter")["NodeNames"]) == 3, "no node has one, and none is refused for it"


def test_a_nominated_node_outside_of_the_node_set_is_counted_by_what_an_extender_said_of_it() -> None:
    cluster = Cluster(OnlyTwo, configuration={"extenders": [extender(filterVerb="filter")]})
    cluster.nodes_like(3)
    cluster.pod("a", nominated="n2")
    cluster.schedule()
    answer(cluster, {"FailedNodes": {"n2": "too new"}})
    answer(cluster, {"FailedNodes": {"n0": "too old", "n1": "too old"}})
    assert "0/3 nodes are available: 1 too new, 2 too old." in cluster.attempt("a").message


def test_a_node_dropped_without_a_word_counts_among_those_that_pre_filter_leaves_out() -> None:
    cluster = Cluster(OnlyTwo, configuration={"extenders": [extender(filterVerb="filter")]})
    cluster.nodes_like(3)
    cluster.pod("a")
    cluster.schedule()
    answer(cluster, {"FailedNodes": {"n0": "too old"}})
    assert (
        "0/3 nodes are available: 1 too old, 2 node(s) didn't satisfy plugin(s) [OnlyTwo]."
        in cluster.attempt("a").message
    )


def test_the_nominated_node_is_asked_about_alone_and_the_search_goes_on_if_it_will_not_do() -> None:
    cluster = cluster_with(extender(1, filterVerb="filter"))
    cluster.pod("a", nominated="n1")
    cluster.schedule()
    assert asked(cluster, "filter")["NodeNames"] == ["n1"]
    answer(cluster, {"FailedNodes": {"n1": "no"}})
    assert sorted(asked(cluster, "filter")["NodeNames"]) == ["n0", "n1", "n2"]


def test_pods_and_nodes_are_sent_with_all_their_fields() -> None:
    cluster = cluster_with(extender(1, filterVerb="filter", nodeCacheCapable=False), nodes=0)
    node, pod = node_json("n", cpu="4"), pod_json("a")
    node["status"]["nodeInfo"] = {"kernelVersion": "6.1"}
    pod["spec"]["containers"][0]["env"] = [{"name": "MODEL", "value": "large"}]
    for kind, whole in ((Kind.NODE, node), (Kind.POD, pod)):
        data = msgspec.json.encode(whole)
        cluster.feed(ObjectObserved(kind, decode(kind, data), data))
    cluster.schedule()
    body = asked(cluster, "filter")
    assert body["Nodes"]["items"] == [node]
    assert body["Pod"] == pod
    assert body["NodeNames"] is None


# --- prioritize -------------------------------------------------------------------------------------------------------


def test_extenders_are_asked_for_scores_side_by_side_and_their_sum_decides() -> None:
    cluster = cluster_with(
        extender(1, prioritizeVerb="prioritize", weight=3), extender(2, prioritizeVerb="prioritize", weight=4)
    )
    cluster.pod("a")
    cluster.schedule()
    first, second = cluster.writes(CallExtender)
    cluster.answer(second, [{"Host": "n1", "Score": 10}])
    assert cluster.writes(BindPod) == []
    cluster.answer(first, [{"Host": "n0", "Score": 10}, {"Host": "n2", "Score": 9}, {"Host": "unknown", "Score": 10}])
    assert cluster.write(BindPod, "a").node == "n1"


def test_a_failing_prioritize_gives_no_score_and_fails_nothing() -> None:
    cluster = cluster_with(
        extender(1, prioritizeVerb="prioritize", weight=1), extender(2, prioritizeVerb="prioritize", weight=1)
    )
    cluster.pod("a")
    cluster.schedule()
    first, second = cluster.writes(CallExtender)
    cluster.fail(first)
    cluster.answer(second, [{"Host": "n2", "Score": 10}])
    assert cluster.write(BindPod, "a").node == "n2"


def test_with_one_node_left_no_extender_is_asked_for_scores() -> None:
    cluster = cluster_with(extender(1, prioritizeVerb="prioritize", weight=1), nodes=1)
    cluster.pod("a")
    cluster.schedule()
    assert cluster.write(BindPod, "a").node == "n0"


# --- bind -------------------------------------------------------------------------------------------------------------


def test_an_extender_binds_in_the_binder_s_place() -> None:
    cluster = cluster_with(extender(1, bindVerb="bind"), nodes=1)
    cluster.pod("a")
    cluster.schedule()
    expected = {"PodName": "a", "PodNamespace": "default", "PodUID": cluster.uid("a"), "Node": "n0"}
    assert asked(cluster, "bind") == expected
    answer(cluster, {"Error": ""})
    assert cluster.writes(BindPod) == []
    assert cluster.attempt("a").result == SCHEDULED


def test_an_extender_binds_only_pods_that_want_its_resources() -> None:
    cluster = cluster_with(extender(1, bindVerb="bind", managedResources=[{"name": GPU}]), nodes=1)
    cluster.pod("a")
    cluster.schedule()
    assert cluster.write(BindPod, "a").node == "n0"
    assert cluster.writes(CallExtender) == []


def test_a_failed_bind_puts_the_pod_into_error_back_off() -> None:
    cluster = cluster_with(extender(1, bindVerb="bind"), nodes=1)
    cluster.pod("a")
    cluster.schedule()
    answer(cluster, {"Error": "taken"})
    assert cluster.place("a") == "error backoff"
    assert cluster.said("a") == ["taken"]
    assert cluster.node_of("a") == ""


def test_a_bind_that_waits_for_a_connection_is_not_ended_before_the_shell_has_its_answer() -> None:
    cluster = cluster_with(extender(1, bindVerb="bind", httpTimeout="2s"), nodes=1)
    cluster.pod("a")
    cluster.schedule()
    cluster.advance(60)
    answer(cluster, {"Error": ""})
    assert cluster.attempt("a").result == SCHEDULED
    assert cluster.said("a") == []


def test_where_its_failure_is_ignored_the_usual_binder_binds() -> None:
    cluster = cluster_with(extender(1, bindVerb="bind", ignorable=True), nodes=1)
    cluster.pod("a")
    cluster.schedule()
    cluster.fail(cluster.write(CallExtender))
    assert cluster.write(BindPod, "a").node == "n0"
