"""Many terms by the node's labels, against going through them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.node_selectors import MAX_REMEMBERED_TERMS, NodeSelector, parse_node_selector
from scheduler.objects.pod import Pod
from scheduler.objects.selector_fields import NodeSelectorFields
from scheduler.objects.selectors import SelectorError
from scheduler.objects.term_index import TermIndex
from scheduler.testing.documents import pod_json
from scheduler.testing.objects import build
from tests.plugins.test_rows_touched import counted

_values = st.sampled_from(("1", "2", "10", "x"))
_expressions = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from("ab"),
        st.sampled_from(("In", "NotIn")),
        st.lists(_values, min_size=1, max_size=3),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from("ab"),
        st.sampled_from(("Exists", "DoesNotExist", "No such")),
    ),
    st.builds(
        lambda key, operator, value: {"key": key, "operator": operator, "values": [value]},
        st.sampled_from("ab"),
        st.sampled_from(("Gt", "Lt")),
        _values,
    ),
)
_fields = st.builds(
    lambda operator, name: {"key": "metadata.name", "operator": operator, "values": [name]},
    st.sampled_from(("In", "NotIn")),
    st.sampled_from(("n1", "n2")),
)
_terms = st.lists(
    st.builds(
        lambda expressions, fields: {"matchExpressions": expressions, "matchFields": fields},
        st.lists(_expressions, max_size=2),
        st.lists(_fields, max_size=2),
    ),
    max_size=5,
)
_labels = st.dictionaries(st.sampled_from("abc"), _values)


def answer(selector: NodeSelector | TermIndex, labels: dict[str, str], name: str) -> bool | str:
    try:
        return selector.evaluate(labels, name)
    except SelectorError as error:
        return str(error)


@given(_terms, _labels, st.sampled_from(("n1", "n2", "n3")))
def test_the_index_answers_as_the_selector_does(terms: list[dict[str, Any]], labels: dict[str, str], name: str) -> None:
    selector = parse_node_selector(msgspec.convert({"nodeSelectorTerms": terms}, NodeSelectorFields))
    assert answer(TermIndex(selector), labels, name) == answer(selector, labels, name)


@pytest.mark.parametrize(
    ("operator", "number", "wanted"), [("Gt", "5", True), ("Gt", "3", False), ("Lt", "5", True), ("Lt", "10", False)]
)
@pytest.mark.parametrize("limits", [("3", "10"), ("10", "3")])
def test_of_several_limits_of_one_label_the_easiest_counts_in_any_order(
    operator: str, number: str, wanted: bool, limits: tuple[str, str]
) -> None:
    terms = [_one("a", operator, limit) for limit in limits]
    selector = parse_node_selector(msgspec.convert({"nodeSelectorTerms": terms}, NodeSelectorFields))
    assert answer(TermIndex(selector), {"a": number}, "n") is answer(selector, {"a": number}, "n") is wanted


def _one(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    "term",
    [
        lambda number: _one("host", "In", f"h{number}"),
        lambda number: _one("host", "Gt", str(number)),
        lambda number: _one("host", "NotIn", "h", f"h{number}"),
        lambda number: {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"h{number}"]}]},
    ],
)
def test_a_waiting_pod_with_many_terms_is_asked_about_a_node_as_quickly_as_one_with_few(term: Any) -> None:
    def lines(count: int) -> int:
        document = pod_json("waiting")
        required = {"nodeSelectorTerms": [term(number) for number in range(count)]}
        document["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        info = PodInfo(build(Pod, document))
        info.wants_node({"host": "h"}, "n1")
        with counted() as found:
            assert not info.wants_node({"host": "h"}, "n1")
        return found.count

    assert lines(2_000) <= lines(MAX_REMEMBERED_TERMS + 1) + 10
