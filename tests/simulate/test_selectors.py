from __future__ import annotations

import pytest

from scheduler.simulate.apiserver.failures import Failure
from scheduler.simulate.apiserver.kinds import NODES, PODS
from scheduler.simulate.apiserver.selectors import matcher, object_selector_matches, selector_text


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("a=1", True),
        ("a==1,b=2", True),
        ("a!=1", False),
        ("absent!=1", True),
        ("a in (0,1)", True),
        ("a in (0, 2)", False),
        ("a notin (0,2),b", True),
        ("!a", False),
        ("!absent", True),
        ("n>4", True),
        ("n<5", False),
        ("a>0,b", True),
        ("", True),
    ],
)
def test_label_selectors_read_as_in_kubectl(selector: str, matches: bool) -> None:
    wanted = matcher(selector, "", PODS)
    labels = {"a": "1", "b": "2", "n": "5"}
    assert (wanted is None or wanted({"metadata": {"labels": labels}})) is matches


@pytest.mark.parametrize("selector", ["a inn b", "a in b", "a in (b", "a=1 b=2"])
def test_a_malformed_label_selector_is_refused(selector: str) -> None:
    with pytest.raises(Failure) as refused:
        matcher(selector, "", PODS)
    assert refused.value.code == 400


def test_field_selectors_take_absent_fields_for_empty() -> None:
    unbound = matcher("", "spec.nodeName=,status.phase!=Failed", PODS)
    assert unbound is not None
    assert unbound({"metadata": {}, "spec": {}, "status": {"phase": "Pending"}})
    assert not unbound({"metadata": {}, "spec": {"nodeName": "n"}, "status": {}})


def test_boolean_fields_are_false_when_absent() -> None:
    cordoned = matcher("", "spec.unschedulable=true", NODES)
    assert cordoned is not None
    assert cordoned({"metadata": {}, "spec": {"unschedulable": True}})
    assert not cordoned({"metadata": {}, "spec": {}})


def test_a_field_that_the_kind_does_not_offer_is_refused() -> None:
    with pytest.raises(Failure, match=r"field label not supported: spec\.nodeName"):
        matcher("", "spec.nodeName=n", NODES)


def test_an_absent_label_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert not object_selector_matches(None, {"a": "1"})
    assert object_selector_matches({}, {"a": "1"})


def test_match_expressions_join_match_labels() -> None:
    selector = {
        "matchLabels": {"a": "1"},
        "matchExpressions": [
            {"key": "b", "operator": "NotIn", "values": ["x"]},
            {"key": "c", "operator": "DoesNotExist"},
        ],
    }
    assert object_selector_matches(selector, {"a": "1"})
    assert not object_selector_matches(selector, {"a": "1", "b": "x"})
    assert not object_selector_matches(selector, {"a": "1", "c": ""})
    assert selector_text(selector) == "a=1,b notin (x),!c"
