from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.node_matching import (
    matches_required,
    matches_requirement,
    matches_selector,
    tolerated_taint_sets,
)
from scheduler.cluster.table import NodeTable
from scheduler.objects.node_selectors import parse_node_selector, required_node_affinity
from scheduler.objects.requirements import Operator, Requirement
from scheduler.objects.taints import PREFER_NO_SCHEDULE, first_untolerated_taint
from scheduler.testing.fragments import affinity_json, node_term
from scheduler.testing.objects import node, pod

ALL = slice(None)


def table_of(*labels: dict[str, str], **fields: Any) -> NodeTable:
    table = NodeTable()
    for index, own in enumerate(labels):
        table.put_node(node(f"n{index}", labels=own, **fields))
    return table


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        (Operator.IN, ("a", "never-seen"), [True, False, False]),
        (Operator.NOT_IN, ("a",), [False, True, True]),
        (Operator.EXISTS, (), [True, True, False]),
        (Operator.ABSENT, (), [False, False, True]),
    ],
)
def test_requirements_are_asked_of_labels(operator: Operator, values: tuple[str, ...], expected: list[bool]) -> None:
    table = table_of({"k": "a"}, {"k": "b"}, {})
    assert matches_requirement(table, Requirement("k", operator, values), ALL).tolist() == expected
    assert matches_requirement(table, Requirement("k", operator, values), np.array([2, 0])).tolist() == [
        expected[2],
        expected[0],
    ]


def test_numbers_are_compared_as_numbers_and_other_values_match_neither() -> None:
    table = table_of({"k": "9"}, {"k": "10"}, {"k": "x"}, {})
    greater = Requirement("k", Operator.GREATER, ("9",))
    less = Requirement("k", Operator.LESS, ("10",))
    assert matches_requirement(table, greater, ALL).tolist() == [False, True, False, False]
    assert matches_requirement(table, less, ALL).tolist() == [True, False, False, False]


def test_a_node_selector_works_on_labels_that_no_pod_selected_before() -> None:
    table = table_of({"disk": "ssd"}, {"disk": "hdd"})
    required = required_node_affinity(pod(node_selector={"disk": "ssd"}))
    assert matches_required(table, required, ALL).tolist() == [True, False]


EXPRESSIONS = st.sampled_from(
    ["k In a", "k In a,b", "k NotIn a", "k Exists", "k DoesNotExist", "n Gt 4", "n Lt 4", "n In 4", "bad! In x"]
)
FIELDS = st.sampled_from(["metadata.name In n0", "metadata.name NotIn n1", "metadata.name In gone", "other NotIn x"])
NODE_TERMS = st.builds(
    lambda expressions, fields: node_term(*expressions, fields=fields),
    st.lists(EXPRESSIONS, max_size=2),
    st.lists(FIELDS, max_size=2),
)
LABELS = st.fixed_dictionaries({}, optional={"k": st.sampled_from("abc"), "n": st.sampled_from(["3", "4", "5", "x"])})


@settings(max_examples=100)
@given(
    st.lists(LABELS, min_size=1, max_size=4),
    st.one_of(st.none(), st.lists(NODE_TERMS, max_size=3)),
    st.sampled_from([None, {"k": "a"}, {"k": "b", "n": "4"}]),
)
def test_masks_say_what_matching_each_node_says(labels: Any, terms: Any, node_selector: Any) -> None:
    table = table_of(*labels)
    asking = pod(node_selector=node_selector, affinity=affinity_json(node_required=terms))
    required = required_node_affinity(asking)
    each = [required.matches(found.metadata.labels, found.metadata.name) for found in table.nodes if found is not None]
    assert matches_required(table, required, ALL).tolist() == each
    affinity = asking.node_affinity
    if affinity is not None and affinity.required is not None:
        selector = parse_node_selector(affinity.required)
        each = [selector.matches(found.metadata.labels, found.metadata.name) for found in table.nodes if found]
        assert matches_selector(table, selector, ALL).tolist() == each


TAINTS = st.lists(
    st.sampled_from(["a=1:NoSchedule", "a=2:NoExecute", "b:PreferNoSchedule", "b:NoSchedule"]), max_size=3
)
TOLERATIONS = st.lists(st.sampled_from(["a", "a=1", "b:NoSchedule", "b:PreferNoSchedule", ""]), max_size=2)


@settings(max_examples=80)
@given(st.lists(TAINTS, min_size=1, max_size=5), TOLERATIONS)
def test_taint_sets_are_judged_as_their_taints_are(taints: list[list[str]], tolerations: list[str]) -> None:
    table = NodeTable()
    asking = pod(tolerations=tolerations)
    for index, own in enumerate(taints):
        table.put_node(node(f"n{index}", taints=own))
        accepts = tolerated_taint_sets(table, asking.spec.tolerations)[table.taint_set]
        each = [first_untolerated_taint(n.spec.taints, asking.spec.tolerations) is None for n in table.nodes if n]
        assert accepts.tolist() == each


def test_only_taints_with_the_effects_asked_about_count() -> None:
    table = table_of({}, taints=["a:NoSchedule"])
    table.put_node(node("soft", taints=["b:PreferNoSchedule"]))
    accepts = tolerated_taint_sets(table, (), (PREFER_NO_SCHEDULE,))
    assert accepts[table.taint_set].tolist() == [True, False]
