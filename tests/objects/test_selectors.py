from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects.selector_fields import LabelSelector
from scheduler.objects.selectors import (
    EVERYTHING,
    NOTHING,
    Selector,
    SelectorError,
    combined,
    equality_selector,
    parse_selector,
)
from scheduler.testing.fragments import expression


def selector(labels: dict[str, str] | None = None, *expressions: str) -> Selector:
    document = {"matchLabels": labels or {}, "matchExpressions": [expression(text) for text in expressions]}
    return parse_selector(msgspec.convert(document, LabelSelector))


def fault_of(labels: dict[str, str] | None = None, *expressions: dict[str, Any]) -> str:
    document = {"matchLabels": labels or {}, "matchExpressions": list(expressions)}
    with pytest.raises(SelectorError) as caught:
        parse_selector(msgspec.convert(document, LabelSelector))
    return str(caught.value)


def test_no_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert parse_selector(None) is NOTHING and not NOTHING.matches({}) and not NOTHING.is_everything
    assert selector() is EVERYTHING and EVERYTHING.matches({}) and EVERYTHING.is_everything


def test_all_parts_must_match() -> None:
    both = selector({"app": "web"}, "tier In a,b")
    assert both.matches({"app": "web", "tier": "b", "more": "x"})
    assert not both.matches({"app": "web", "tier": "c"})
    assert not both.matches({"tier": "a"})


@pytest.mark.parametrize(
    ("text", "present", "other", "absent"),
    [
        ("k In v", True, False, False),
        ("k NotIn v", False, True, True),
        ("k Exists", True, True, False),
        ("k DoesNotExist", False, False, True),
    ],
)
def test_each_operator_accepts_its_value_another_one_or_the_absence_of_the_key(
    text: str, present: bool, other: bool, absent: bool
) -> None:
    one = selector(None, text)
    assert (one.matches({"k": "v"}), one.matches({"k": "w"}), one.matches({})) == (present, other, absent)


def test_an_empty_value_is_not_an_absent_label() -> None:
    assert selector(None, "k Exists").matches({"k": ""})
    assert selector({"k": ""}).matches({"k": ""})
    assert not selector({"k": ""}).matches({})


def test_the_same_said_otherwise_is_the_same_selector() -> None:
    one = selector({"b": "2", "a": "1"}, "c In y,x,x", "d Exists")
    other = selector({"a": "1"}, "d Exists", "c In x,y", "b In 2", "b In 2")
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == "a=1,b=2,c in (x,y),d"


def test_an_equality_selector_checks_nothing_and_equals_the_parsed_one() -> None:
    assert equality_selector({"a": "1", "b": "2"}) == selector({"b": "2", "a": "1"})
    assert equality_selector({}) is EVERYTHING
    assert equality_selector({"not a key": "1"}).matches({"not a key": "1"})


def test_combined_selectors_match_what_all_of_them_match() -> None:
    assert combined(selector({"a": "1"}), selector({"b": "2"}), EVERYTHING) == selector({"a": "1", "b": "2"})
    assert combined(selector({"a": "1"}), NOTHING) is NOTHING
    assert combined() is EVERYTHING


def test_faults_are_reported_in_the_words_of_kubernetes() -> None:
    assert fault_of(None, {"key": "a", "operator": "Gt", "values": ["1"]}) == (
        '"Gt" is not a valid label selector operator'
    )
    assert fault_of(None, {"key": "a", "operator": "In"}) == (
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    )
    assert fault_of(None, {"key": "a", "operator": "Exists", "values": ["x"]}) == (
        'values: Invalid value: ["x"]: values set must be empty for exists and does not exist'
    )
    assert fault_of({"a b": "x"}).startswith('key: Invalid value: "a b": name part must consist of alphanumeric')
    assert fault_of({"a": "-5"}).startswith('values[0][a]: Invalid value: "-5": a valid label must be an empty string')
    assert fault_of({"/a": "x"}) == 'key: Invalid value: "/a": prefix part must be non-empty'


values = st.sampled_from(["", "1", "2", "x"])
keys = st.sampled_from(["a", "b", "example.com/c"])
expressions = st.one_of(
    st.builds(
        lambda key, operator, chosen: {"key": key, "operator": operator, "values": chosen},
        keys,
        st.sampled_from(["In", "NotIn"]),
        st.lists(values, min_size=1, max_size=3),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator}, keys, st.sampled_from(["Exists", "DoesNotExist"])
    ),
)


def says(one: dict[str, Any], labels: dict[str, str]) -> bool:
    match one["operator"]:
        case "In":
            return one["key"] in labels and labels[one["key"]] in one["values"]
        case "NotIn":
            return one["key"] not in labels or labels[one["key"]] not in one["values"]
        case "Exists":
            return one["key"] in labels
        case _:
            return one["key"] not in labels


@given(st.lists(expressions, max_size=5), st.dictionaries(keys, values), st.randoms())
def test_order_and_repetition_never_matter(written: list[dict[str, Any]], labels: dict[str, str], random: Any) -> None:
    one = parse_selector(msgspec.convert({"matchExpressions": written}, LabelSelector))
    mixed = written + written[:2]
    random.shuffle(mixed)
    other = parse_selector(msgspec.convert({"matchExpressions": mixed}, LabelSelector))
    assert one == other and hash(one) == hash(other)
    assert one.matches(labels) is all(says(part, labels) for part in written)
