from __future__ import annotations

from typing import Any

import pytest

from scheduler.config.args import decode_args
from scheduler.framework.events import Hint
from scheduler.framework.plugin import NodeSubset
from scheduler.messages.status import SKIP, Code, Refusal
from scheduler.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from scheduler.testing.fragments import affinity_json, node_term
from scheduler.testing.objects import node
from tests.plugins.clusters import cluster, info, normalized_scores, raw_scores, reasons, refusals

OTHER = "node(s) didn't match Pod's node affinity/selector"
NODES = [
    node("ssd", labels={"disk": "ssd", "cores": "8"}),
    node("hdd", labels={"disk": "hdd", "cores": "4"}),
    node("none"),
]


def requiring(*terms: Any, **fields: Any) -> Any:
    return info(affinity=affinity_json(node_required=list(terms)), **fields)


def with_args(raw: dict[str, Any]) -> NodeAffinity:
    args, faults = decode_args(NodeAffinityArgs, raw, "args", "NodeAffinity")
    assert args is not None and not faults, faults
    return NodeAffinity(args)


def test_a_node_selector_asks_for_equal_values() -> None:
    found = refusals(NodeAffinity(), info(node_selector={"disk": "ssd"}), cluster(NODES))
    assert sorted(found) == ["hdd", "none"]
    assert found["hdd"] == Refusal(Code.UNRESOLVABLE, (OTHER,))


def test_a_value_that_no_node_has_fits_nowhere() -> None:
    assert len(refusals(NodeAffinity(), info(node_selector={"disk": "tape"}), cluster(NODES))) == 3


@pytest.mark.parametrize(
    ("expressions", "fitting"),
    [
        (["disk In ssd,hdd"], {"ssd", "hdd"}),
        (["disk NotIn ssd"], {"hdd", "none"}),
        (["disk Exists"], {"ssd", "hdd"}),
        (["disk DoesNotExist"], {"none"}),
        (["cores Gt 4"], {"ssd"}),
        (["cores Lt 8"], {"hdd"}),
        (["cores Gt 3", "disk NotIn ssd"], {"hdd"}),
        (["disk Gt 1"], set()),
        (["disk In"], set()),
    ],
)
def test_a_term_holds_when_all_its_expressions_do(expressions: list[str], fitting: set[str]) -> None:
    refused = refusals(NodeAffinity(), requiring(node_term(*expressions)), cluster(NODES))
    assert {"ssd", "hdd", "none"} - set(refused) == fitting


def test_one_term_is_enough_and_an_unusable_one_matches_nothing() -> None:
    pod = requiring(node_term("disk In"), {}, node_term("disk In hdd"))
    assert sorted(refusals(NodeAffinity(), pod, cluster(NODES))) == ["none", "ssd"]


def test_required_affinity_without_terms_or_with_an_empty_one_fits_nowhere() -> None:
    assert len(refusals(NodeAffinity(), requiring(), cluster(NODES))) == 3
    assert len(refusals(NodeAffinity(), requiring({}), cluster(NODES))) == 3


def test_selector_and_affinity_must_both_hold() -> None:
    pod = requiring(node_term("cores Exists"), node_selector={"disk": "hdd"})
    assert sorted(refusals(NodeAffinity(), pod, cluster(NODES))) == ["none", "ssd"]


def test_terms_that_name_nodes_restrict_the_search_to_them() -> None:
    pod = requiring(
        node_term(fields=["metadata.name In ssd"]), node_term("disk In hdd", fields=["metadata.name In gone"])
    )
    answer = NodeAffinity().pre_filter(pod, cluster(NODES))
    assert isinstance(answer, NodeSubset)
    assert answer.names == {"ssd", "gone"}


def test_one_term_without_a_name_lifts_the_restriction() -> None:
    pod = requiring(node_term(fields=["metadata.name In ssd"]), node_term("disk In hdd"))
    assert not isinstance(NodeAffinity().pre_filter(pod, cluster(NODES)), NodeSubset)
    assert sorted(refusals(NodeAffinity(), pod, cluster(NODES))) == ["none"]


def test_terms_that_name_different_nodes_at_once_conflict() -> None:
    pod = requiring(node_term(fields=["metadata.name In ssd", "metadata.name In hdd"]))
    answer = NodeAffinity().pre_filter(pod, cluster(NODES))
    assert answer == Refusal(Code.UNRESOLVABLE, ("pod affinity terms conflict",))


def test_a_pod_that_asks_for_nothing_is_skipped() -> None:
    view = cluster(NODES)
    assert NodeAffinity().pre_filter(info(), view) is SKIP
    assert raw_scores(NodeAffinity(), info(), view) is None


def test_preferred_terms_add_their_weights() -> None:
    preferred = [(5, node_term("disk In ssd")), (3, node_term("cores Exists")), (0, node_term("disk In")), (9, {})]
    pod = info(affinity=affinity_json(node_preferred=preferred))
    view = cluster(NODES)
    assert raw_scores(NodeAffinity(), pod, view) == {"ssd": 8, "hdd": 3, "none": 0}
    assert normalized_scores(NodeAffinity(), pod, view) == {"ssd": 100, "hdd": 37, "none": 0}


def test_preferred_values_of_a_label_that_many_nodes_have_add_their_weights() -> None:
    nodes = [node(f"{zone}{number}", zone=zone) for zone in "abc" for number in range(30)]
    zone = "topology.kubernetes.io/zone"
    preferred = [
        (5, node_term(f"{zone} In a,b")),
        (3, node_term(f"{zone} In b,elsewhere")),
        (2, node_term("cores In 4")),
    ]
    found = raw_scores(NodeAffinity(), info(affinity=affinity_json(node_preferred=preferred)), cluster(nodes))
    assert found is not None
    assert (found["a0"], found["b0"], found["c0"]) == (5, 8, 0)


def test_an_unusable_preferred_term_is_an_error() -> None:
    pod = info(affinity=affinity_json(node_preferred=[(1, node_term("disk In"))]))
    view = cluster(NODES)
    answer = NodeAffinity().pre_score(pod, view, view.ordered_rows)
    assert isinstance(answer, Refusal)
    assert answer.code is Code.ERROR


def test_added_affinity_is_refused_in_its_own_words_and_adds_to_the_score() -> None:
    plugin = with_args(
        {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [node_term("disk Exists")]},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 4, "preference": node_term("disk In hdd")}
                ],
            }
        }
    )
    view = cluster(NODES)
    assert reasons(plugin, info(), view) == {"none": ("node(s) didn't match scheduler-enforced node affinity",)}
    assert reasons(plugin, info(node_selector={"disk": "hdd"}), view) == {
        "none": ("node(s) didn't match scheduler-enforced node affinity",),
        "ssd": (OTHER,),
    }
    assert raw_scores(plugin, info(), view) == {"ssd": 0, "hdd": 4, "none": 0}


def test_unusable_added_affinity_refuses_the_configuration() -> None:
    bad = {"nodeSelectorTerms": [node_term("disk In")]}
    args, _ = decode_args(
        NodeAffinityArgs,
        {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": bad}},
        "args",
        "NodeAffinity",
    )
    assert args is not None
    ((path, message),) = NodeAffinity.validate_args(args, "args")
    assert path == (
        "args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        ".nodeSelectorTerms[0].matchExpressions[0].values"
    )
    assert "values set can't be empty" in message


def test_a_node_wakes_pods_when_its_labels_begin_to_match() -> None:
    (registration,) = NodeAffinity().events()
    pod = info(node_selector={"disk": "ssd"})
    ssd, hdd = node("n", labels={"disk": "ssd"}), node("n", labels={"disk": "hdd"})
    assert registration.hint(pod, hdd, ssd) is Hint.QUEUE
    assert registration.hint(pod, None, ssd) is Hint.QUEUE
    assert registration.hint(pod, ssd, hdd) is Hint.SKIP
    assert registration.hint(pod, ssd, ssd) is Hint.SKIP
    assert registration.hint(pod, None, hdd) is Hint.SKIP
    assert registration.hint(requiring(node_term("disk In")), hdd, ssd) is Hint.QUEUE
