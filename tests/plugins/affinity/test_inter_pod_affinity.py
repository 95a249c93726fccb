from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Hint
from scheduler.framework.plugin import EMPTY_STATE, State
from scheduler.messages.status import SKIP, Code, Refusal
from scheduler.objects.node import Node
from scheduler.plugins.affinity.inter_pod_affinity import InterPodAffinity, InterPodAffinityArgs
from scheduler.testing.fragments import pod_term
from scheduler.testing.objects import namespace, node, pod
from tests.plugins.affinity.cases import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING,
    HOST,
    PLUGIN,
    WEB,
    ZONE,
    asking,
    placed,
    zones,
)
from tests.plugins.clusters import cluster, info, normalized_scores, raw_scores, reasons, refusals

# --- filter -----------------------------------------------------------------------------------------------------------


def test_a_pod_goes_only_to_domains_of_the_pods_that_it_wants_to_be_near() -> None:
    view = cluster(zones("a", "a", "b", None), [placed("p")])
    found = refusals(PLUGIN, asking(required=[pod_term(WEB, ZONE)]), view)
    assert sorted(found) == ["n2", "n3"]
    assert found["n2"].reasons == AFFINITY and found["n2"].code is Code.UNRESOLVABLE


def test_one_pod_must_satisfy_all_affinity_terms() -> None:
    both = asking(required=[pod_term(WEB, ZONE), pod_term({"tier": "x"}, ZONE)])
    apart = [placed("p"), placed("q", labels={"tier": "x"})]
    assert set(reasons(PLUGIN, both, cluster(zones("a", "b"), apart))) == {"n0", "n1"}
    together = [placed("p", labels={"app": "web", "tier": "x"})]
    assert set(reasons(PLUGIN, both, cluster(zones("a", "b"), together))) == {"n1"}


def test_the_first_pod_of_a_group_may_start_anywhere_that_has_the_key() -> None:
    first = asking(WEB, required=[pod_term(WEB, ZONE)])
    assert reasons(PLUGIN, first, cluster(zones("a", None))) == {"n1": AFFINITY}
    assert set(reasons(PLUGIN, asking(required=[pod_term(WEB, ZONE)]), cluster(zones("a", None)))) == {"n0", "n1"}


def test_pods_on_nodes_without_the_key_do_not_end_the_exception_for_the_first_pod() -> None:
    first = asking(WEB, required=[pod_term(WEB, ZONE)])
    view = cluster(zones("a", None), [placed("p", "n1"), placed("q", "gone")])
    assert reasons(PLUGIN, first, view) == {"n1": AFFINITY}


def test_terminating_pods_still_count() -> None:
    view = cluster(zones("a", "b"), [placed("p", deleted="2026-01-01T00:00:00Z")])
    assert reasons(PLUGIN, asking(anti_required=[pod_term(WEB, ZONE)]), view) == {"n0": ANTI_AFFINITY}


def test_a_pod_avoids_the_domains_of_pods_that_it_is_averse_to_and_nodes_without_the_key_pass() -> None:
    view = cluster(zones("a", "a", "b", None), [placed("p"), placed("q", "n3")])
    found = refusals(PLUGIN, asking(anti_required=[pod_term(WEB, ZONE)]), view)
    assert sorted(found) == ["n0", "n1"]
    assert found["n0"].code is Code.UNSCHEDULABLE and found["n0"].reasons == ANTI_AFFINITY


def test_each_anti_affinity_term_holds_on_its_own() -> None:
    view = cluster(zones("a", "b"), [placed("p"), placed("q", "n1", labels={"tier": "x"})])
    pending = asking(anti_required=[pod_term(WEB, ZONE), pod_term({"tier": "x"}, ZONE)])
    assert set(reasons(PLUGIN, pending, view)) == {"n0", "n1"}


def test_placed_pods_keep_others_away() -> None:
    view = cluster(zones("a", "a", "b"), [placed("p", labels={}, anti_required=[pod_term(WEB, ZONE)])])
    found = refusals(PLUGIN, asking(WEB), view)
    assert sorted(found) == ["n0", "n1"]
    assert found["n0"].code is Code.UNSCHEDULABLE and found["n0"].reasons == EXISTING
    assert PLUGIN.pre_filter(asking({"app": "db"}), view) is SKIP


def test_reasons_come_in_order_affinity_then_own_then_others_aversion() -> None:
    averse = placed("p", labels={"app": "db"}, anti_required=[pod_term(WEB, ZONE)])
    pending = asking(WEB, required=[pod_term({"tier": "x"}, ZONE)], anti_required=[pod_term({"app": "db"}, ZONE)])
    assert reasons(PLUGIN, pending, cluster(zones("a"), [averse])) == {"n0": AFFINITY}
    view = cluster(zones("a"), [averse, placed("q", labels={"tier": "x"})])
    assert reasons(PLUGIN, pending, view) == {"n0": ANTI_AFFINITY}


def test_a_pod_that_no_placed_pod_keeps_away_any_more_is_skipped_as_one_that_none_ever_did() -> None:
    """Else nominated pods would count for it, which they do not where the plugin skips. Another pod has the term, on a
    node where it holds for no domain."""
    cache = ClusterCache()
    term: dict[str, Any] = {"anti_required": [pod_term({"app": "db"}, ZONE)]}
    keeper = PodInfo(placed("keeper", **term))
    cache.observe_node(node("n0", zone="a"))
    cache.observe_node(node("n1"))
    cache.observe_pod(keeper)
    cache.observe_pod(PodInfo(placed("other", "n1", **term)))
    asked = asking({"app": "db"})
    state = PLUGIN.pre_filter(asked, cache.view)
    assert isinstance(state, State)
    cache.remove_pod(keeper.uid)
    assert PLUGIN.recounted(state, asked, cache.view) is None
    assert PLUGIN.pre_filter(asked, cache.view) is SKIP


def test_a_term_that_cannot_be_parsed_refuses_the_pod_as_a_whole() -> None:
    bad = pod_term({"matchExpressions": [{"key": "app", "operator": "In", "values": []}]})
    answer = PLUGIN.pre_filter(asking(required=[bad]), cluster(zones("a")))
    assert isinstance(answer, Refusal) and answer.code is Code.UNRESOLVABLE
    assert answer.reasons[0].startswith("parsing pod: requiredAffinityTerms: ")


# --- namespaces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "refused"),
    [
        ({}, False),
        ({"namespaces": ["other"]}, True),
        ({"namespaces": ["third"]}, False),
        ({"namespace_selector": {}}, True),
        ({"namespace_selector": {"matchLabels": {"team": "x"}}}, True),
        ({"namespace_selector": {"matchLabels": {"team": "y"}}}, False),
        ({"namespaces": ["other"], "namespace_selector": {"matchLabels": {"team": "y"}}}, True),
    ],
)
def test_namespaces_are_listed_or_selected(term: dict[str, Any], refused: bool) -> None:
    objects = [namespace("other", {"team": "x"}), namespace("default")]
    own = asking(anti_required=[pod_term(WEB, ZONE, **term)])
    view = cluster(zones("a"), [placed("p", namespace="other")], objects)
    assert bool(reasons(PLUGIN, own, view)) is refused
    theirs = placed("p", namespace="default", labels={}, anti_required=[pod_term(WEB, ZONE, **term)])
    view = cluster(zones("a"), [theirs], objects)
    assert bool(reasons(PLUGIN, asking(WEB, namespace="other"), view)) is refused


def test_own_terms_with_a_selector_of_negations_alone_are_about_every_namespace() -> None:
    unlike = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}
    view = cluster(zones("a"), [placed("p", namespace="other")], [namespace("other", {"team": "x"})])
    assert reasons(PLUGIN, asking(anti_required=[pod_term(WEB, ZONE, namespace_selector=unlike)]), view) == {
        "n0": ANTI_AFFINITY
    }


def test_terms_of_placed_pods_see_the_namespaces_labels_as_they_are() -> None:
    unlike = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}
    theirs = placed("p", labels={}, anti_required=[pod_term(WEB, ZONE, namespace_selector=unlike)])
    view = cluster(zones("a"), [theirs], [namespace("other", {"team": "x"})])
    assert reasons(PLUGIN, asking(WEB, namespace="other"), view) == {}
    assert reasons(PLUGIN, asking(WEB, namespace="unknown"), view) == {"n0": EXISTING}


# --- score ------------------------------------------------------------------------------------------------------------


def test_preferences_add_up_by_domain() -> None:
    view = cluster(
        zones("a", "a", "b", None), [placed("p"), placed("q", "n1"), placed("r", "n2", labels={"app": "db"})]
    )
    pending = asking(
        preferred=[(10, pod_term(WEB, ZONE)), (1, pod_term(WEB, HOST))],
        anti_preferred=[(5, pod_term({"app": "db"}, ZONE))],
    )
    assert raw_scores(PLUGIN, pending, view) == {"n0": 21, "n1": 21, "n2": -5, "n3": 0}
    assert normalized_scores(PLUGIN, pending, view) == {"n0": 100, "n1": 100, "n2": 0, "n3": 19}


def test_what_placed_pods_want_counts_too() -> None:
    near = pod_term(WEB, ZONE)
    pods = [
        placed("p", labels={}, required=[near]),
        placed("q", "n1", labels={}, preferred=[(7, near)]),
        placed("r", "n2", labels={}, anti_preferred=[(4, near)]),
    ]
    view = cluster(zones("a", "b", "c"), pods)
    assert raw_scores(PLUGIN, asking(WEB), view) == {"n0": 1, "n1": 7, "n2": -4}
    heavy = InterPodAffinity(InterPodAffinityArgs(hard_pod_affinity_weight=50))
    assert raw_scores(heavy, asking(WEB), view) == {"n0": 50, "n1": 7, "n2": -4}
    weightless = InterPodAffinity(InterPodAffinityArgs(hard_pod_affinity_weight=0))
    assert raw_scores(weightless, asking(WEB), view) == {"n0": 0, "n1": 7, "n2": -4}


def test_without_any_term_that_holds_the_plugin_does_not_score() -> None:
    view = cluster(zones("a"), [placed("p", preferred=[(7, pod_term({"app": "db"}, ZONE))])])
    assert raw_scores(PLUGIN, asking(WEB), view) is None
    assert raw_scores(PLUGIN, asking(preferred=[(7, pod_term({"app": "x"}, ZONE))]), view) is None


def test_terms_that_cancel_out_still_make_the_plugin_score() -> None:
    view = cluster(zones("a"), [placed("p")])
    pending = asking(preferred=[(7, pod_term(WEB, ZONE))], anti_preferred=[(7, pod_term(WEB, ZONE))])
    assert raw_scores(PLUGIN, pending, view) == {"n0": 0}
    assert normalized_scores(PLUGIN, pending, view) == {"n0": 0}


def test_preferences_of_placed_pods_can_be_ignored_for_pods_without_their_own() -> None:
    ignoring = InterPodAffinity(InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True))
    view = cluster(zones("a"), [placed("p", preferred=[(7, pod_term(WEB, ZONE))])])
    assert raw_scores(ignoring, asking(WEB), view) is None
    own = asking(WEB, preferred=[(1, pod_term(WEB, ZONE))])
    assert raw_scores(ignoring, own, view) == {"n0": 8}


@pytest.mark.parametrize(
    ("score", "highest", "expected"),
    [(29, 100, 28), (29, 50, 57), (57, 100, 56), (58, 100, 57), (87, 150, 57), (50, 100, 50)],
)
def test_scores_are_normalised_in_floating_point(score: int, highest: int, expected: int) -> None:
    view = cluster(zones("a"))
    normal = PLUGIN.normalize(EMPTY_STATE, np.array([0, score, highest]), view, np.arange(3))
    assert normal.tolist() == [0, expected, 100]


@pytest.mark.parametrize("raws", [[0, 1, 3], [-7, 100, 29, -7], [5, 5], [2**40, -3, 17]])
def test_some_scores_are_normalised_as_all_are(raws: list[int]) -> None:
    plugin, view = InterPodAffinity(), cluster([node("n1")])
    whole = plugin.normalize(EMPTY_STATE, np.array(raws, np.int64), view, view.rows).tolist()
    assert plugin.normalize_few(raws, min(raws), max(raws)) == whole
    assert plugin.normalize_few(raws[1:2], min(raws), max(raws)) == whole[1:2]


def test_a_weight_above_100_is_a_fault_at_its_path() -> None:
    args = msgspec.convert({"hardPodAffinityWeight": 101}, InterPodAffinityArgs)
    ((path, message),) = InterPodAffinity.validate_args(args, "a")
    assert path == "a.hardPodAffinityWeight" and message.endswith("not in valid range [0, 100]")
    assert InterPodAffinity.validate_args(InterPodAffinityArgs(), "a") == ()


# --- classes ----------------------------------------------------------------------------------------------------------


def test_pods_that_differ_in_labels_no_selector_reads_are_one_class() -> None:
    view = cluster(zones("a"), [placed("p", anti_required=[pod_term(WEB, ZONE)])])
    term: dict[str, Any] = {"anti_required": [pod_term(WEB, ZONE)]}
    fragments = {PLUGIN.fragment(asking({"app": "web", "index": str(i)}, **term), view) for i in range(3)}
    assert len(fragments) == 1
    assert PLUGIN.fragment(asking({"app": "db"}, **term), view) not in fragments


def test_pods_that_no_term_is_about_stand_on_nothing() -> None:
    cache = ClusterCache()
    cache.observe_pod(PodInfo(placed("p", anti_required=[pod_term(WEB, ZONE)])))
    fragment = PLUGIN.fragment(asking({"app": "db"}), cache.view)
    assert PLUGIN.stamp(fragment, cache.view) == ()


def test_the_stamp_tells_of_pods_that_matter_of_new_terms_and_of_nodes_and_of_nothing_else() -> None:
    def indifferent(name: str) -> PodInfo:
        return PodInfo(placed(name, labels={"app": "x"}, anti_required=[pod_term({"app": "y"}, ZONE)]))

    cache = ClusterCache()
    cache.observe_node(node("n0", zone="a"))
    cache.observe_pod(PodInfo(placed("p", labels={}, anti_required=[pod_term(WEB, ZONE)])))
    fragment = PLUGIN.fragment(asking(WEB, required=[pod_term({"app": "db"}, ZONE)]), cache.view)
    stamps = [PLUGIN.stamp(fragment, cache.view)]
    for change in (
        lambda: cache.observe_pod(indifferent("q")),
        lambda: cache.observe_pod(PodInfo(placed("db", labels={"app": "db"}))),
        lambda: cache.observe_pod(PodInfo(placed("r", labels={}, anti_required=[pod_term(WEB, ZONE)]))),
        lambda: cache.observe_node(node("n1", zone="b")),
    ):
        change()
        stamp = PLUGIN.stamp(fragment, cache.view)
        assert stamp not in stamps
        stamps.append(stamp)
    for name in ("like-q", "plain"):
        cache.observe_pod(indifferent(name) if name == "like-q" else PodInfo(placed(name, labels={"app": "x"})))
        assert PLUGIN.stamp(fragment, cache.view) == stamps[-1]


# --- hints ------------------------------------------------------------------------------------------------------------

POD_HINT, NODE_HINT = (registration.hint for registration in PLUGIN.events())
DB = {"app": "db"}


def _other(labels: dict[str, str], **fields: Any) -> PodInfo:
    return PodInfo(placed("other", labels=labels, **fields))


@pytest.mark.parametrize(
    ("terms", "old", "new", "expected"),
    [
        ({"required": [pod_term(WEB)]}, None, _other(WEB), Hint.QUEUE),
        ({"required": [pod_term(WEB)]}, None, _other(DB), Hint.SKIP),
        ({"required": [pod_term(WEB)]}, None, PodInfo(pod("unplaced", labels=WEB)), Hint.SKIP),
        ({"required": [pod_term(WEB)]}, None, PodInfo(pod("promised", labels=WEB, nominated="n")), Hint.QUEUE),
        ({"required": [pod_term(WEB)]}, _other(DB), _other(WEB), Hint.QUEUE),
        ({"required": [pod_term(WEB)]}, _other(WEB), _other(DB), Hint.SKIP),
        ({"required": [pod_term(WEB)]}, _other(WEB), None, Hint.SKIP),
        ({"anti_required": [pod_term(WEB)]}, _other(WEB), None, Hint.QUEUE),
        ({"anti_required": [pod_term(WEB)]}, _other(DB), None, Hint.SKIP),
        ({"anti_required": [pod_term(WEB), pod_term(DB)]}, _other(WEB), None, Hint.SKIP),
        ({"anti_required": [pod_term(WEB)]}, _other(WEB), _other(DB), Hint.QUEUE),
        ({"anti_required": [pod_term(WEB)]}, None, _other(WEB), Hint.SKIP),
        ({}, _other(DB, anti_required=[pod_term(WEB)]), None, Hint.QUEUE),
        ({}, _other(DB, anti_required=[pod_term(DB)]), None, Hint.SKIP),
        ({}, None, _other(WEB), Hint.SKIP),
    ],
)
def test_pods_that_attract_or_cease_to_repel_wake_the_pod(
    terms: dict[str, Any], old: PodInfo | None, new: PodInfo | None, expected: Hint
) -> None:
    assert POD_HINT(asking(WEB, **terms), old, new) is expected


def test_own_new_labels_wake_the_pod() -> None:
    assert POD_HINT(asking(WEB), info(labels=DB), info(labels=WEB)) is Hint.QUEUE


@pytest.mark.parametrize(
    ("terms", "old", "new", "expected"),
    [
        ({"required": [pod_term(WEB, ZONE)]}, None, node(zone="a"), Hint.QUEUE),
        ({"required": [pod_term(WEB, ZONE)]}, None, node(), Hint.SKIP),
        ({"required": [pod_term(WEB, ZONE)]}, node(), node(zone="a"), Hint.QUEUE),
        ({"required": [pod_term(WEB, ZONE)]}, node(zone="a"), node(zone="b"), Hint.QUEUE),
        ({"required": [pod_term(WEB, ZONE)]}, node(zone="a"), node(), Hint.SKIP),
        ({"anti_required": [pod_term(WEB, ZONE)]}, None, node(), Hint.QUEUE),
        ({"anti_required": [pod_term(WEB, ZONE)]}, node(zone="a"), node(), Hint.QUEUE),
        ({"anti_required": [pod_term(WEB, ZONE)]}, node(zone="a"), node(zone="b"), Hint.QUEUE),
        ({"anti_required": [pod_term(WEB, ZONE)]}, node(), node(zone="b"), Hint.SKIP),
        ({}, None, node(zone="a"), Hint.SKIP),
    ],
)
def test_nodes_that_bring_or_lose_the_key_wake_the_pod(
    terms: dict[str, Any], old: Node | None, new: Node, expected: Hint
) -> None:
    assert NODE_HINT(asking(WEB, **terms), old, new) is expected
