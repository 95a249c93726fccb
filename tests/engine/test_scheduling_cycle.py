from __future__ import annotations

import pytest

from scheduler.engine.attempt import ERROR, UNSCHEDULABLE
from scheduler.framework.plugin import NodeSubset
from scheduler.framework.post_filter import PostFilterAnswer
from scheduler.messages.commands import WriteEvent
from scheduler.messages.status import SKIP, Code, Refusal, failure, unresolvable, unschedulable
from tests.engine.driver import Cluster
from tests.engine.scripted import calls_of, scripted


def test_without_nodes_the_pod_is_unschedulable_but_waits_as_after_an_error() -> None:
    cluster = Cluster()
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert (attempt.result, attempt.message) == (UNSCHEDULABLE, "no nodes available to schedule pods")
    assert cluster.place("a") == "error backoff"


def test_the_only_node_that_fits_is_taken_without_scoring() -> None:
    scoring = scripted("Scoring", score=lambda pod, node: 1)
    cluster = Cluster(scoring)
    cluster.node("full", cpu="1")
    cluster.node("free", cpu="4")
    cluster.pod("a", cpu="2")
    cluster.schedule()
    assert cluster.node_of("a") == "free"
    assert calls_of(scoring) == []


def test_the_best_total_wins() -> None:
    cluster = Cluster(scripted("Likes", score=lambda pod, node: 100 if node == "n2" else 0))
    cluster.nodes_like(4)
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.node == "n2"
    assert attempt.shares and attempt.shares["Likes"] == 100


def test_ties_are_broken_by_chance_and_one_seed_replays_one_run() -> None:
    def chosen(seed: int) -> list[str]:
        cluster = Cluster(seed=seed)
        cluster.nodes_like(8)
        for number in range(6):
            cluster.pod(f"a{number}")
            cluster.schedule()
        return [cluster.node_of(f"a{number}") for number in range(6)]

    assert chosen(1) == chosen(1)
    assert len({tuple(chosen(seed)) for seed in range(8)}) > 1


def test_a_score_out_of_range_ends_the_attempt_with_kube_schedulers_words() -> None:
    cluster = Cluster(scripted("Keen", score=lambda pod, node: 101))
    cluster.nodes_like(2)
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert (
        attempt.message
        == 'plugin "Keen" returns an invalid score 101, it should in the range of [0, 100] after normalizing'
    )
    assert cluster.place("a") == "error backoff"


def test_a_plugin_that_does_not_score_may_still_fail_before_scoring() -> None:
    fails = scripted("Fails", pre_score=lambda pod: failure("unreadable"), score=lambda pod, node: 0)
    without = {"plugins": {"score": {"disabled": [{"name": "Fails"}]}}}
    cluster = Cluster(fails, profile=without)
    cluster.nodes_like(2)
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert (attempt.result, attempt.message) == (ERROR, 'running PreScore plugin "Fails": unreadable')
    no_scores = Cluster(fails, profile={"plugins": {"score": {"disabled": [{"name": "*"}]}}})
    no_scores.nodes_like(2)
    no_scores.pod("a")
    no_scores.schedule()
    assert no_scores.node_of("a") in ("n0", "n1")


def test_the_score_of_a_node_that_does_not_fit_may_be_anything() -> None:
    cluster = Cluster(
        scripted(
            "Wild",
            filter=lambda pod, node: unschedulable("no") if node == "n0" else None,
            score=lambda pod, node: 10**6 if node == "n0" else 5,
        )
    )
    cluster.nodes_like(3)
    cluster.pod("a")
    cluster.schedule()
    assert cluster.node_of("a") in ("n1", "n2")


# --- PreFilter --------------------------------------------------------------------------------------------------------


def test_an_unschedulable_pre_filter_lets_the_others_run_and_preemption_follow() -> None:
    first = scripted("First", pre_filter=lambda pod: unschedulable("not today"))
    second = scripted("Second", pre_filter=lambda pod: None)
    later = scripted("Later", post_filter=lambda context: PostFilterAnswer(unschedulable("no room")))
    cluster = Cluster(first, second, later)
    cluster.nodes_like(3)
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.message.startswith("0/3 nodes are available: not today. ")
    assert "preemption: 0/3 nodes are available: 3 No preemption victims found" in attempt.message
    assert attempt.message.endswith(", no room")
    assert calls_of(second) == ["pre_filter a"]
    assert attempt.rejectors == ("First",)


def test_an_unresolvable_pre_filter_stops_the_round_at_once() -> None:
    first = scripted("First", pre_filter=lambda pod: unresolvable("never"))
    second = scripted("Second", pre_filter=lambda pod: None)
    cluster = Cluster(first, second)
    cluster.nodes_like(2)
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.message == (
        "0/2 nodes are available: never. no new claims to deallocate, "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    assert calls_of(second) == []


def test_of_several_pre_filters_that_say_unschedulable_the_last_one_wakes_the_pod() -> None:
    cluster = Cluster(
        scripted("First", pre_filter=lambda pod: unschedulable("one")),
        scripted("Second", pre_filter=lambda pod: unschedulable("two")),
    )
    cluster.node("n")
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.rejectors == ("Second",)
    assert attempt.message.startswith("0/1 nodes are available: two.")


@pytest.mark.parametrize("code", [Code.ERROR, Code.WAIT, Code.PENDING])
def test_other_answers_of_a_pre_filter_are_errors(code: Code) -> None:
    cluster = Cluster(scripted("Odd", pre_filter=lambda pod: Refusal(code, ("hm",))))
    cluster.node("n")
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert (attempt.result, attempt.message) == (ERROR, 'running PreFilter plugin "Odd": hm')


def test_a_plugin_that_skips_has_its_filter_left_out() -> None:
    skipping = scripted("Skips", pre_filter=lambda pod: SKIP, filter=lambda pod, node: unschedulable("no"))
    cluster = Cluster(skipping)
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    assert cluster.node_of("a") == "n"
    assert calls_of(skipping) == ["pre_filter a"]


def test_node_sets_intersect_and_the_rest_is_not_looked_at() -> None:
    one = scripted("One", pre_filter=lambda pod: NodeSubset(frozenset({"n0", "n1"})))
    two = scripted(
        "Two",
        pre_filter=lambda pod: NodeSubset(frozenset({"n1", "n2"})),
        filter=lambda pod, node: unschedulable("busy"),
    )
    cluster = Cluster(one, two)
    cluster.nodes_like(4)
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.message.startswith("0/4 nodes are available: 1 busy, 3 node(s) didn't satisfy plugin(s) [One Two]. ")
    assert attempt.rejectors == ("One", "Two")


def test_node_sets_without_a_common_node_refuse_the_pod_as_a_whole() -> None:
    cluster = Cluster(
        scripted("One", pre_filter=lambda pod: NodeSubset(frozenset({"n0"}))),
        scripted("Two", pre_filter=lambda pod: NodeSubset(frozenset({"n1"}))),
    )
    cluster.nodes_like(2)
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert "node(s) didn't satisfy plugin(s) [One Two] simultaneously." in attempt.message
    assert attempt.rejectors == ("One", "Two")


def test_an_empty_node_set_names_its_plugin() -> None:
    cluster = Cluster(scripted("One", pre_filter=lambda pod: NodeSubset(frozenset())))
    cluster.node("n")
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.message.startswith("0/1 nodes are available: node(s) didn't satisfy plugin One.")


def test_a_node_set_that_names_only_unknown_nodes_leaves_none() -> None:
    cluster = Cluster(
        scripted("One", pre_filter=lambda pod: NodeSubset(frozenset({"elsewhere"}))),
        profile={"percentageOfNodesToScore": 50},
    )
    cluster.nodes_like(2)
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.message.startswith("0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [One].")


# --- the nominated node -----------------------------------------------------------------------------------------------


def test_the_nominated_node_is_tried_first_and_alone() -> None:
    watching = scripted("Watching", filter=lambda pod, node: None)
    cluster = Cluster(watching)
    cluster.nodes_like(5)
    cluster.pod("a", nominated="n3")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.node == "n3"
    assert attempt.evaluated_nodes == 1
    assert calls_of(watching) == ["filter a n3"]


def test_where_the_nominated_node_will_not_do_the_search_goes_on() -> None:
    cluster = Cluster()
    cluster.node("small", cpu="1")
    cluster.node("big", cpu="8")
    cluster.pod("a", cpu="4", nominated="small")
    cluster.pod("b", cpu="1", nominated="gone")
    cluster.schedule()
    cluster.schedule()
    assert cluster.node_of("a") == "big"
    assert cluster.node_of("b") in ("small", "big")


def test_a_filter_that_fails_on_the_nominated_node_only_costs_the_short_cut() -> None:
    def fails_once(pod: str, node: str) -> None:
        fails_once.count += 1  # type: ignore[attr-defined]
        if fails_once.count == 1:  # type: ignore[attr-defined]
            raise RuntimeError("not yet")

    fails_once.count = 0  # type: ignore[attr-defined]
    cluster = Cluster(scripted("Flaky", filter=fails_once))
    cluster.nodes_like(2)
    cluster.pod("a", nominated="n1")
    cluster.schedule()
    assert cluster.node_of("a") in ("n0", "n1")


def test_the_pre_filters_node_set_is_not_asked_about_the_nominated_node() -> None:
    cluster = Cluster(scripted("One", pre_filter=lambda pod: NodeSubset(frozenset({"n0"}))))
    cluster.nodes_like(2)
    cluster.pod("a", nominated="n1")
    cluster.schedule()
    assert cluster.node_of("a") == "n1"


def test_the_nominated_node_s_refusal_is_recorded_even_if_the_search_leaves_it_out() -> None:
    cluster = Cluster(
        scripted("One", pre_filter=lambda pod: NodeSubset(frozenset({"n0"}))),
        scripted("No", filter=lambda pod, node: unresolvable(f"not {node}")),
    )
    cluster.nodes_like(4)
    cluster.pod("a", nominated="n1")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.message.startswith(
        "0/4 nodes are available: 1 not n0, 1 not n1, 2 node(s) didn't satisfy plugin(s) [No One]. "
    )


def test_a_nominated_node_that_is_gone_leaves_no_trace_in_the_message() -> None:
    cluster = Cluster(
        scripted("One", pre_filter=lambda pod: NodeSubset(frozenset({"n0"}))),
        scripted("No", filter=lambda pod, node: unresolvable(f"not {node}")),
    )
    cluster.nodes_like(2)
    cluster.pod("a", nominated="gone")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.message.startswith("0/2 nodes are available: 1 node(s) didn't satisfy plugin(s) [One], 1 not n0. ")


def test_a_pod_leaves_room_for_those_nominated_that_are_as_important() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="4")
    cluster.pod("waits", cpu="3", priority=5, gates=["hold"])
    cluster.engine.nominator.nominate(cluster.info("waits", cpu="3", priority=5), "n")
    cluster.pod("equal", cpu="2", priority=5)
    cluster.pod("more", cpu="2", priority=6)
    cluster.schedule_all()
    assert cluster.node_of("more") == "n"
    assert cluster.node_of("equal") == ""
    cluster.delete("more")
    cluster.schedule_all()
    assert cluster.node_of("equal") == "", "it would fit, but not beside the nominated one"


def test_a_pod_must_also_fit_without_the_nominated_ones() -> None:
    """Affinity to a pod that is only nominated does not do: it may never come."""
    cluster = Cluster()
    cluster.node("n", cpu="4")
    cluster.pod("waits", priority=9, nominated="n", labels={"app": "db"}, cpu="8")
    cluster.schedule()
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    cluster.pod(
        "wants",
        affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    )
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.result == UNSCHEDULABLE


def test_a_node_that_comes_back_still_counts_those_nominated_to_it() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="4")
    cluster.node("full", cpu="0")
    cluster.pod("waits", cpu="4", priority=9, nominated="n", gates=["hold"])
    cluster.engine.nominator.nominate(cluster.info("waits", cpu="4", priority=9), "n")
    for name in ("a", "b", "c"):
        if name == "b":
            cluster.remove_node("n")
        if name == "c":
            cluster.node("n", cpu="4")
        cluster.pod(name, cpu="1", priority=1)
        cluster.schedule()
        assert cluster.node_of(name) == "", name


# --- sampling ---------------------------------------------------------------------------------------------------------


def test_sampling_looks_at_enough_nodes_and_the_next_pod_goes_on_behind_them() -> None:
    cluster = Cluster(configuration={"percentageOfNodesToScore": 50})
    cluster.nodes_like(300)
    seen = []
    for name in ("a", "b", "c"):
        cluster.pod(name)
        attempt = cluster.schedule()
        assert attempt is not None
        seen.append((attempt.feasible_nodes, cluster.node_of(name)))
    assert [count for count, _ in seen] == [150, 150, 150]
    first, second, third = (int(node[1:]) for _, node in seen)
    assert 0 <= first < 150 <= second < 300
    assert 0 <= third < 150


def test_without_sampling_every_node_is_scored() -> None:
    cluster = Cluster()
    cluster.nodes_like(150)
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.feasible_nodes == attempt.evaluated_nodes == 150


# --- pods that are not tried ------------------------------------------------------------------------------------------


def test_a_pod_that_is_being_deleted_is_skipped_with_a_word() -> None:
    cluster = Cluster()
    cluster.node("n")
    cluster.pod("a", deleted="2027-01-01T00:00:00Z")
    assert cluster.schedule() is None
    assert cluster.said("a") == ["skip schedule deleting pod: default/a"]
    assert cluster.is_quiet()
    assert cluster.place("a") == ""


def test_pods_of_other_schedulers_are_left_alone() -> None:
    cluster = Cluster()
    cluster.node("n")
    cluster.pod("a", scheduler="another")
    assert cluster.schedule() is None
    assert not [command for command in cluster.sent if isinstance(command, WriteEvent)]


def test_pods_on_a_node_that_has_not_appeared_yet_count_once_it_does() -> None:
    cluster = Cluster()
    cluster.pod("early", node="n", cpu="3")
    cluster.node("n", cpu="4")
    cluster.pod("a", cpu="2")
    cluster.schedule()
    assert cluster.node_of("a") == ""
    cluster.delete("early")
    cluster.schedule()
    assert cluster.node_of("a") == "n"
