"""Lists of thousands, which one object may hold, mean what the same list of a few would mean."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.node_selectors import parse_node_selector
from scheduler.objects.qualified_names import (
    are_label_values,
    are_qualified_names,
    label_value_faults,
    qualified_name_faults,
)
from scheduler.objects.requirements import MAX_SORTED, Operator, Requirement, in_order
from scheduler.objects.resource_names import is_scalar_resource, scalar_names
from scheduler.objects.selector_fields import (
    LabelSelector,
    NodeSelectorFields,
    NodeSelectorTermFields,
    SelectorExpression,
)
from scheduler.objects.selectors import parse_selector, parse_selector_in_steps
from scheduler.objects.steps import run_to_end
from scheduler.objects.taints import TolerationIndex
from scheduler.testing.objects import node, pod
from tests.plugins.test_rows_touched import counted

TEXTS = st.lists(st.text("aZ0-_./\n é", max_size=5) | st.just("x" * 64), max_size=6)


@given(TEXTS)
def test_many_label_values_are_valid_if_each_of_them_is(texts: list[str]) -> None:
    assert are_label_values(texts) == (not any(label_value_faults(text) for text in texts))


@given(TEXTS)
def test_many_names_are_valid_if_each_of_them_is(texts: list[str]) -> None:
    assert are_qualified_names(texts) == (not any(qualified_name_faults(text) for text in texts))


@given(st.lists(st.sampled_from(["a.b/c", "requests.a/c", "x.kubernetes.io/c", "/c", "a/", "cpu", "hugepages-2Mi"])))
def test_many_resources_are_scalars_if_each_of_them_is(few: list[str]) -> None:
    names = few + [f"example.com/r-{number}" for number in range(100)]
    assert scalar_names(names) == [name for name in names if is_scalar_resource(name)]


def test_a_value_is_found_among_many_without_comparing_it_with_each() -> None:
    values = in_order(tuple([f"v{number}" for number in range(50_000)] * 2))
    assert len(values) == 50_000
    one = Requirement("key", Operator.IN, values)
    with counted() as lines:
        assert one.matches({"key": "v49999"})
        assert not one.matches({"key": "other"})
        assert not one.matches({})
    assert lines.count < 50


def test_values_of_two_orders_are_one_list_unless_they_are_very_many() -> None:
    texts = tuple([f"v{number}" for number in range(MAX_SORTED)])
    assert in_order(texts) == in_order(texts[::-1]) == tuple(sorted(texts))


def labels(number: int) -> LabelSelector:
    return LabelSelector(
        match_labels={f"key-{each}": "x" for each in range(number)},
        match_expressions=(SelectorExpression(key="zone", operator="NotIn", values=("a",)),),
    )


def test_a_very_long_selector_is_parsed_in_slices_as_at_once() -> None:
    steps = parse_selector_in_steps(labels(3 * MAX_SORTED))
    assert len(list(steps)) == 4
    selector = run_to_end(parse_selector_in_steps(labels(3 * MAX_SORTED)))
    assert selector == parse_selector(labels(3 * MAX_SORTED))
    assert len(selector.requirements) == 3 * MAX_SORTED + 1
    own = {f"key-{each}": "x" for each in range(3 * MAX_SORTED)}
    assert selector.matches(own)
    assert not selector.matches(own | {"zone": "a"})
    assert not selector.matches(own | {"key-7": "y"})


def test_a_term_with_a_fault_among_many_requirements_says_which() -> None:
    parts = [SelectorExpression(key=f"key-{number}", operator="Exists") for number in range(100)]
    parts[70] = SelectorExpression(key="key-70", operator="In")
    fields = NodeSelectorFields(node_selector_terms=(NodeSelectorTermFields(match_expressions=tuple(parts)),))
    [fault] = parse_node_selector(fields).faults
    assert fault.startswith("nodeSelectorTerms[0].matchExpressions[70].values: Invalid value")


def test_a_taint_is_looked_up_among_many_tolerations() -> None:
    many = [{"key": f"taint-{number}", "operator": "Exists"} for number in range(10_000)]
    info = PodInfo(pod(spec={"tolerations": many}))
    index = info.tolerations(comparison_operators=False)
    assert index == TolerationIndex(info.pod.spec.tolerations)
    [taint] = node(taints=["taint-9999=x:NoSchedule"]).spec.taints
    with counted() as lines:
        assert info.tolerations(comparison_operators=False).tolerates(taint)
    assert lines.count < 50
