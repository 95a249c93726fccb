from __future__ import annotations

import numpy as np

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Hint, Resource
from scheduler.framework.plugin import State
from scheduler.messages.status import SKIP, Code, Refusal
from scheduler.plugins.spread.pod_topology_spread import (
    ComparingPodTopologySpread,
    KeylessPodTopologySpread,
)
from scheduler.testing.fragments import affinity_json, node_term, owner_json, spread_json
from scheduler.testing.objects import node, pod
from tests.builders import stateful_set
from tests.plugins.clusters import cluster, info, raw_scores, reasons, refusals
from tests.plugins.spread.cases import DELETED, HOST, MISSING, PLUGIN, UNEVEN, WEB, ZONE, asking, normalized, web, zones

# --- filter -----------------------------------------------------------------------------------------------------------


def test_a_zone_with_too_many_pods_is_refused_and_eviction_may_help() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0")])
    found = refusals(PLUGIN, asking(spread_json(ZONE, WEB)), view)
    assert list(found) == ["n0"]
    assert found["n0"].reasons == UNEVEN and found["n0"].code is Code.UNSCHEDULABLE


def test_a_node_without_the_key_is_refused_for_good_and_counts_nowhere() -> None:
    view = cluster(zones("a", None), [web("p", "n1")])
    found = refusals(PLUGIN, asking(spread_json(ZONE, WEB)), view)
    assert list(found) == ["n1"]
    assert found["n1"].reasons == MISSING and found["n1"].code is Code.UNRESOLVABLE


def test_pods_that_are_being_deleted_do_not_count() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0", deleted=DELETED)])
    assert reasons(PLUGIN, asking(spread_json(ZONE, WEB)), view) == {}


def test_pods_of_other_namespaces_do_not_count() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0", namespace="other")])
    assert reasons(PLUGIN, asking(spread_json(ZONE, WEB)), view) == {}


def test_pods_on_a_node_that_is_gone_do_not_count() -> None:
    view = cluster(zones("a", "b"), [web("p", "gone")])
    assert reasons(PLUGIN, asking(spread_json(ZONE, WEB)), view) == {}


def test_two_constraints_on_one_key_count_apart() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0", labels={"app": "web", "tier": "x"}), web("q", "n1")])
    both = asking(spread_json(ZONE, WEB), spread_json(ZONE, {"tier": "x"}), labels={"app": "web", "tier": "x"})
    assert reasons(PLUGIN, both, view) == {"n0": UNEVEN}


def test_the_first_constraint_that_refuses_gives_the_reason() -> None:
    view = cluster(zones("a", "b", None), [web("p", "n0")])
    pending = asking(spread_json(HOST, WEB, max_skew=5), spread_json(ZONE, WEB))
    assert reasons(PLUGIN, pending, view) == {"n0": UNEVEN, "n2": MISSING}


def test_nodes_must_have_every_hard_key_to_count() -> None:
    nodes = [node("n0", zone="a"), node("n1", zone="b"), node("n2", zone="c", labels={"rack": "r"})]
    view = cluster(nodes, [web("p", "n0"), web("q", "n1"), web("r", "n2")])
    pending = asking(spread_json(ZONE, WEB), spread_json("rack", WEB, max_skew=9))
    assert reasons(PLUGIN, pending, view) == {"n0": MISSING, "n1": MISSING}


def test_a_pod_that_does_not_match_its_own_selector_adds_nothing() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0")])
    assert reasons(PLUGIN, asking(spread_json(ZONE, WEB), labels={"app": "db"}), view) == {}


def test_the_empty_selector_counts_no_pod_and_so_never_refuses() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0"), web("q", "n0")])
    assert reasons(PLUGIN, asking(spread_json(ZONE, {})), view) == {}


def test_no_selector_matches_nothing() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0"), web("q", "n0")])
    assert reasons(PLUGIN, asking(spread_json(ZONE, None, matchLabelKeys=["app"])), view) == {}


def test_match_label_keys_narrow_the_selector_to_the_pods_own_values() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0", labels={"app": "web", "hash": "old"})])
    keys = spread_json(ZONE, WEB, matchLabelKeys=["hash", "absent"])
    assert reasons(PLUGIN, asking(keys, labels={"app": "web", "hash": "new"}), view) == {}
    assert reasons(PLUGIN, asking(keys, labels={"app": "web", "hash": "old"}), view) == {"n0": UNEVEN}


def test_with_fewer_domains_than_asked_the_smallest_count_is_zero() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0"), web("q", "n1")])
    assert reasons(PLUGIN, asking(spread_json(ZONE, WEB, minDomains=2)), view) == {}
    assert reasons(PLUGIN, asking(spread_json(ZONE, WEB, minDomains=3)), view) == {"n0": UNEVEN, "n1": UNEVEN}


def test_nodes_that_the_pod_cannot_use_are_left_out_by_default() -> None:
    nodes = [node("n0", zone="a", labels={"disk": "ssd"}), node("n1", zone="b", labels={"disk": "hdd"})]
    view = cluster(nodes, [web("p", "n0")])
    ssd = {"disk": "ssd"}
    assert reasons(PLUGIN, asking(spread_json(ZONE, WEB), node_selector=ssd), view) == {}
    ignoring = spread_json(ZONE, WEB, nodeAffinityPolicy="Ignore")
    assert reasons(PLUGIN, asking(ignoring, node_selector=ssd), view) == {"n0": UNEVEN}


def test_tainted_nodes_count_by_default() -> None:
    view = cluster([node("n0", zone="a"), node("n1", zone="b", taints=["k:NoSchedule"])], [web("p", "n0")])
    assert reasons(PLUGIN, asking(spread_json(ZONE, WEB)), view) == {"n0": UNEVEN}
    honouring = spread_json(ZONE, WEB, nodeTaintsPolicy="Honor")
    assert reasons(PLUGIN, asking(honouring), view) == {}
    assert reasons(PLUGIN, asking(honouring, tolerations=["k"]), view) == {"n0": UNEVEN}


def test_a_bad_selector_is_an_error_and_not_a_refusal() -> None:
    bad = spread_json(ZONE, {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]})
    answer = PLUGIN.pre_filter(asking(bad), cluster(zones("a")))
    assert isinstance(answer, Refusal) and answer.code is Code.ERROR
    PLUGIN.fragment(asking(bad), cluster(zones("a")))


def test_without_hard_constraints_the_filter_is_skipped() -> None:
    view = cluster(zones("a"))
    assert PLUGIN.pre_filter(asking(spread_json(ZONE, WEB, soft=True)), view) is SKIP
    assert PLUGIN.pre_filter(info(), view) is SKIP


def test_a_dry_run_takes_away_terminating_pods_that_were_never_counted() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0", deleted=DELETED), web("q", "n0"), web("r", "n1")])
    pending = asking(spread_json(ZONE, WEB))
    state = PLUGIN.pre_filter(pending, view)
    assert isinstance(state, State)
    one = view.one_row(0)
    gone = one.table.pods[0]["pod-p"]
    one.table.remove_pod(0, "pod-p")
    changed = state.with_pod(one, 0, gone, -1)
    assert PLUGIN.filter_row(changed, pending, view, 1) is not None
    assert PLUGIN.filter_row(state, pending, view, 1) is None


def test_a_required_node_affinity_limits_the_nodes_that_count() -> None:
    nodes = [node("n0", zone="a", labels={"disk": "ssd"}), node("n1", zone="b")]
    view = cluster(nodes, [web("p", "n0")])
    pending = asking(spread_json(ZONE, WEB), affinity=affinity_json(node_required=[node_term("disk In ssd")]))
    assert reasons(PLUGIN, pending, view) == {}


# --- score ------------------------------------------------------------------------------------------------------------


def test_fewer_pods_score_higher_with_the_weight_of_the_number_of_zones() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0"), web("q", "n0")])
    pending = asking(spread_json(ZONE, WEB, soft=True))
    state = PLUGIN.pre_score(pending, view, view.ordered_rows)
    assert isinstance(state, State)
    assert PLUGIN.score(state, pending, view, view.rows).tolist() == [3, 0]
    assert normalized(pending, view) == {"n0": 0, "n1": 100}


def test_a_feasible_node_without_the_key_scores_nothing_for_own_constraints() -> None:
    view = cluster(zones("a", None))
    assert normalized(asking(spread_json(ZONE, WEB, soft=True)), view) == {"n0": 100, "n1": 0}


def test_only_feasible_nodes_make_domains_but_all_nodes_counts() -> None:
    view = cluster(zones("a", "a", "b", "c"), [web("p", "n1"), web("q", "n1"), web("r", "n2")])
    pending = asking(spread_json(ZONE, WEB, soft=True))
    state = PLUGIN.pre_score(pending, view, np.array([0, 2]))
    assert isinstance(state, State)
    assert PLUGIN.score(state, pending, view, np.array([0, 2])).tolist() == [3, 1]


def test_hostnames_are_counted_on_each_node_whatever_the_policies_say() -> None:
    nodes = [node("n0", taints=["k:NoSchedule"]), node("n1")]
    view = cluster(nodes, [web("p", "n0")])
    pending = asking(spread_json(HOST, WEB, soft=True, nodeTaintsPolicy="Honor"))
    assert normalized(pending, view) == {"n0": 0, "n1": 100}


def test_equal_nodes_all_score_the_most_when_nothing_is_counted() -> None:
    view = cluster(zones("a", "b"))
    assert normalized(asking(spread_json(ZONE, WEB, soft=True)), view) == {"n0": 100, "n1": 100}


def test_the_emptiest_node_gets_everything_and_the_fullest_what_the_least_count_is_worth() -> None:
    view = cluster(zones("a", "b"), [web(f"p{i}", "n0") for i in range(4)] + [web(f"q{i}", "n1") for i in range(2)])
    # Counts 4 and 2 with log(4): 6 and 3.
    assert normalized(asking(spread_json(ZONE, WEB, soft=True)), view) == {"n0": 50, "n1": 100}


# --- classes ----------------------------------------------------------------------------------------------------------


def test_pods_of_a_stateful_set_are_one_class() -> None:
    view = cluster(zones("a", "b"), [], [stateful_set("db", {"app": "db"})])
    fragments = {
        PLUGIN.fragment(
            info(f"db-{i}", labels={"app": "db", "pod-index": str(i)}, owner=owner_json("StatefulSet", "db")), view
        )
        for i in range(3)
    }
    assert len(fragments) == 1


def test_the_stamp_tells_of_pods_of_the_workload_and_of_nodes_and_of_nothing_else() -> None:
    cache = ClusterCache()
    for each in zones("a", "b"):
        cache.observe_node(each)
    fragment = PLUGIN.fragment(asking(spread_json(ZONE, WEB)), cache.view)
    stamp = PLUGIN.stamp(fragment, cache.view)
    cache.observe_pod(PodInfo(pod("other", node="n0", labels={"app": "db"})))
    assert PLUGIN.stamp(fragment, cache.view) == stamp
    cache.observe_pod(PodInfo(web("p", "n0")))
    counted = PLUGIN.stamp(fragment, cache.view)
    assert counted != stamp
    cache.observe_node(node("n9", zone="c"))
    assert PLUGIN.stamp(fragment, cache.view) != counted


def test_all_forms_of_the_score_agree() -> None:
    view = cluster(zones("a", "b", "b"), [web("p", "n0"), web("q", "n2")])
    pending = asking(spread_json(ZONE, WEB, soft=True), spread_json(HOST, WEB, soft=True, max_skew=2))
    assert raw_scores(PLUGIN, pending, view) == {"n0": 4, "n1": 2, "n2": 4}


def test_with_the_gate_of_comparison_operators_nodes_count_whose_number_is_tolerated() -> None:
    nodes = [node("a", zone="z1"), node("b", zone="z2", taints=["level=7:NoSchedule"])]
    view = cluster(nodes, [web("w", "a")])
    above = {"key": "level", "operator": "Gt", "value": "5"}
    pending = asking(spread_json(ZONE, WEB, nodeTaintsPolicy="Honor"), tolerations=[above])
    assert reasons(PLUGIN, pending, view) == {}, "only its own zone counts"
    assert reasons(ComparingPodTopologySpread(), pending, view) == {"a": UNEVEN}
    soft = asking(spread_json(ZONE, WEB, soft=True, nodeTaintsPolicy="Honor"), tolerations=[above])
    on_b = cluster(nodes, [web("w", "b"), web("v", "b")])
    assert raw_scores(PLUGIN, soft, on_b) == {"a": 0, "b": 0}, (
        "pods on nodes that the pod does not tolerate count nowhere"
    )
    compared = raw_scores(ComparingPodTopologySpread(), soft, on_b)
    assert compared is not None and compared["b"] > 0


def test_without_the_gate_of_label_keys_pods_count_whatever_values_they_have() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0", labels={"app": "web", "hash": "old"})])
    keys = spread_json(ZONE, WEB, matchLabelKeys=["hash"])
    pending = asking(keys, labels={"app": "web", "hash": "new"})
    assert reasons(PLUGIN, pending, view) == {}
    assert reasons(KeylessPodTopologySpread(), pending, view) == {"n0": UNEVEN}


def test_without_the_gate_of_label_keys_a_pod_with_another_value_that_goes_wakes_the_pod() -> None:
    pending = asking(spread_json(ZONE, WEB, matchLabelKeys=["hash"]), labels={"app": "web", "hash": "new"})
    gone = web("p", "n0", labels={"app": "web", "hash": "old"})
    for plugin, expected in ((PLUGIN, Hint.SKIP), (KeylessPodTopologySpread(), Hint.QUEUE)):
        (of_pods,) = [each for each in plugin.events() if each.event.resource is Resource.POD]
        assert of_pods.hint is not None and of_pods.hint(pending, PodInfo(gone), None) is expected
