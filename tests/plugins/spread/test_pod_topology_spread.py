from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.events import Hint
from scheduler.framework.plugin import State
from scheduler.messages.status import SKIP, Code, Refusal
from scheduler.objects.kinds import Kind
from scheduler.objects.node import Node
from scheduler.objects.pod import TopologySpreadConstraint
from scheduler.plugins.spread.args import PodTopologySpreadArgs
from scheduler.plugins.spread.pod_topology_spread import (
    ComparingPodTopologySpread,
    PodTopologySpread,
)
from scheduler.testing.fragments import affinity_json as affinity
from scheduler.testing.fragments import node_term, owner_json, spread_json
from scheduler.testing.objects import node, pod
from tests.builders import replica_set, replication_controller, service, stateful_set
from tests.plugins.clusters import cluster, info, raw_scores, reasons, refusals

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = {"app": "web"}
UNEVEN = ("node(s) didn't match pod topology spread constraints",)
MISSING = ("node(s) didn't match pod topology spread constraints (missing required label)",)
DELETED = "2026-01-01T00:00:00Z"

PLUGIN = PodTopologySpread()


def web(name: str, node_name: str, **fields: Any) -> Any:
    return pod(name, node=node_name, **{"labels": WEB, **fields})


def zones(*zones: str | None) -> list[Node]:
    return [node(f"n{index}", zone=zone) for index, zone in enumerate(zones)]


def asking(*constraints: dict[str, Any], **fields: Any) -> PodInfo:
    return info(spread=constraints, **{"labels": WEB, **fields})


def normalized(pod: PodInfo, view: View, rows: list[int] | None = None, plugin: PodTopologySpread = PLUGIN) -> Any:
    """Node name -> score, None where the plugin skips; ``rows``: the feasible ones."""
    feasible = view.ordered_rows if rows is None else np.array(rows)
    state = plugin.pre_score(pod, view, feasible)
    if state is SKIP:
        return None
    assert isinstance(state, State)
    scores = plugin.normalize(state, plugin.score(state, pod, view, feasible), view, feasible)
    return {view.table.names[row]: score for row, score in zip(feasible.tolist(), scores.tolist(), strict=True)}


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


# --- defaults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "owner"),
    [
        ([service("s", WEB)], None),
        ([replica_set("o", WEB)], owner_json("ReplicaSet", "o")),
        ([stateful_set("o", WEB)], owner_json("StatefulSet", "o")),
        ([replication_controller("o", WEB)], owner_json("ReplicationController", "o", api_version="v1")),
    ],
)
def test_pods_of_a_workload_are_spread_by_default(objects: list[Any], owner: Any) -> None:
    view = cluster(zones("a", "b"), [web("p", "n0")], objects)
    scores = normalized(info(labels=WEB, owner=owner), view)
    assert scores is not None and scores["n0"] < scores["n1"]


@pytest.mark.parametrize(
    ("objects", "owner"),
    [
        ([], None),
        ([service("s", {"app": "db"})], None),
        ([service("s", WEB, namespace="other")], None),
        ([service("s", None)], None),
        ([service("s", {})], None),
        ([], owner_json("ReplicaSet", "gone")),
        ([replica_set("o", WEB)], owner_json("ReplicaSet", "o", api_version="extensions/v1beta1")),
        ([], owner_json("Job", "o", api_version="batch/v1")),
    ],
)
def test_pods_without_a_usable_selector_have_no_default_constraints(objects: list[Any], owner: Any) -> None:
    view = cluster(zones("a", "b"), [web("p", "n0")], objects)
    assert normalized(info(labels=WEB, owner=owner), view) is None


def test_a_new_service_is_noticed() -> None:
    cache = ClusterCache()
    for each in zones("a", "b"):
        cache.observe_node(each)
    pending = info(labels=WEB)
    before = PLUGIN.fragment(pending, cache.view)
    assert normalized(pending, cache.view) is None
    added = service("s", WEB)
    cache.objects.put(Kind.SERVICE, added.key, added)
    assert normalized(pending, cache.view) is not None
    assert PLUGIN.fragment(pending, cache.view) != before


def test_service_and_owner_must_both_match() -> None:
    hashed = {"app": "web", "hash": "1"}
    objects = [service("s", WEB), replica_set("o", {"hash": "1"})]
    view = cluster(zones("a", "b"), [web("p", "n0")], objects)
    pending = info(labels=hashed, owner=owner_json("ReplicaSet", "o"))
    assert normalized(pending, view) == {"n0": 100, "n1": 100}
    view = cluster(zones("a", "b"), [web("p", "n0", labels=hashed)], objects)
    assert normalized(pending, view)["n0"] < 100


def test_system_defaults_give_nodes_without_a_zone_a_domain_of_their_own() -> None:
    view = cluster(zones("a", "b", None), [web("p", "n0")], [service("s", WEB)])
    scores = normalized(info(labels=WEB), view)
    assert scores["n2"] >= scores["n1"] > scores["n0"]


def test_own_constraints_put_the_defaults_out_of_force() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0")], [service("s", WEB)])
    assert normalized(asking(spread_json(ZONE, WEB, max_skew=9)), view) is None


def test_listed_defaults_can_refuse() -> None:
    hard = TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule")
    plugin = PodTopologySpread(PodTopologySpreadArgs(default_constraints=(hard,), defaulting_type="List"))
    view = cluster(zones("a", "b"), [web("p", "n0")], [service("s", WEB)])
    assert reasons(plugin, info(labels=WEB), view) == {"n0": UNEVEN}
    assert reasons(plugin, info(labels={"app": "db"}), view) == {}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, []),
        ({"defaultingType": "Other"}, ["a.defaultingType"]),
        (
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}]},
            ["a.defaultingType"],
        ),
        (
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": ""},
                    {"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "Never", "labelSelector": {}},
                    {"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "Never"},
                ],
            },
            [
                "a.defaultConstraints[0].maxSkew",
                "a.defaultConstraints[0].topologyKey",
                "a.defaultConstraints[0].whenUnsatisfiable",
                "a.defaultConstraints[1].whenUnsatisfiable",
                "a.defaultConstraints[1].labelSelector",
                "a.defaultConstraints[2].whenUnsatisfiable",
                "a.defaultConstraints[2]",
            ],
        ),
    ],
)
def test_arguments_are_checked(args: dict[str, Any], expected: list[str]) -> None:
    faults = PodTopologySpread.validate_args(msgspec.convert(args, PodTopologySpreadArgs), "a")
    assert [path for path, _ in faults] == expected


def test_a_repeated_default_constraint_is_named() -> None:
    one = TopologySpreadConstraint(max_skew=1, topology_key="k", when_unsatisfiable="DoNotSchedule")
    faults = PodTopologySpread.validate_args(PodTopologySpreadArgs((one, one), "List"), "a")
    assert faults == (("a.defaultConstraints[1]", 'Duplicate value: "{k, DoNotSchedule}"'),)


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


# --- hints ------------------------------------------------------------------------------------------------------------

POD_HINT, NODE_HINT = (registration.hint for registration in PLUGIN.events())


def _placed(**fields: Any) -> PodInfo:
    return info("other", **{"node": "n0", "labels": WEB, **fields})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, _placed(), Hint.QUEUE),
        (None, _placed(labels={"app": "db"}), Hint.SKIP),
        (None, _placed(namespace="other"), Hint.SKIP),
        (None, _placed(node=None), Hint.SKIP),
        (None, _placed(node=None, nominated="n0"), Hint.QUEUE),
        (_placed(), None, Hint.QUEUE),
        (_placed(labels={"app": "db"}), _placed(), Hint.QUEUE),
        (_placed(labels={"app": "web", "x": "1"}), _placed(), Hint.SKIP),
        (_placed(), _placed(), Hint.SKIP),
    ],
)
def test_pods_that_change_the_counts_wake_the_pod(old: PodInfo | None, new: PodInfo | None, expected: Hint) -> None:
    assert POD_HINT(asking(spread_json(ZONE, WEB)), old, new) is expected


def test_own_new_tolerations_wake_the_pod_only_if_a_constraint_honours_taints() -> None:
    before, after = info(labels=WEB), info(labels=WEB, tolerations=["k"])
    assert POD_HINT(asking(spread_json(ZONE, WEB, nodeTaintsPolicy="Honor")), before, after) is Hint.QUEUE
    assert POD_HINT(asking(spread_json(ZONE, WEB)), before, after) is Hint.SKIP


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, node(zone="a"), Hint.QUEUE),
        (None, node(), Hint.SKIP),
        (node(zone="a"), None, Hint.QUEUE),
        (node(), None, Hint.SKIP),
        (node(), node(zone="a"), Hint.QUEUE),
        (node(zone="a"), node(), Hint.QUEUE),
        (node(zone="a"), node(zone="b"), Hint.QUEUE),
        (node(zone="a"), node(zone="a", taints=["k:NoSchedule"]), Hint.QUEUE),
        (node(zone="a"), node(zone="a", labels={"x": "y"}), Hint.SKIP),
        (node(), node(taints=["k:NoSchedule"]), Hint.SKIP),
    ],
)
def test_nodes_that_change_the_domains_wake_the_pod(old: Node | None, new: Node | None, expected: Hint) -> None:
    assert NODE_HINT(asking(spread_json(ZONE, WEB)), old, new) is expected


def test_a_required_node_affinity_limits_the_nodes_that_count() -> None:
    nodes = [node("n0", zone="a", labels={"disk": "ssd"}), node("n1", zone="b")]
    view = cluster(nodes, [web("p", "n0")])
    pending = asking(spread_json(ZONE, WEB), affinity=affinity(node_required=[node_term("disk In ssd")]))
    assert reasons(PLUGIN, pending, view) == {}


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
