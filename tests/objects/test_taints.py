from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects.node import Taint
from scheduler.objects.pod import Toleration
from scheduler.objects.taints import (
    TolerationIndex,
    count_intolerable_preferences,
    first_untolerated_taint,
    preference_tolerations,
    tolerated,
    tolerates,
)
from scheduler.testing import fragments


def toleration(text: str) -> Toleration:
    return msgspec.convert(fragments.toleration(text), Toleration)


def taint(text: str) -> Taint:
    return msgspec.convert(fragments.taint(text), Taint)


@pytest.mark.parametrize(
    ("tolerating", "tainted", "expected"),
    [
        ("a=b:NoSchedule", "a=b:NoSchedule", True),
        ("a=b:NoSchedule", "a=c:NoSchedule", False),
        ("a=b:NoSchedule", "a=b:NoExecute", False),
        ("a=b", "a=b:NoExecute", True),
        ("a", "a=b:NoExecute", True),
        ("a", "b=b:NoExecute", False),
        ("", "b=b:NoExecute", True),
        (":NoSchedule", "b=b:NoExecute", False),
    ],
)
def test_which_toleration_covers_which_taint(tolerating: str, tainted: str, expected: bool) -> None:
    assert tolerates(toleration(tolerating), taint(tainted)) is expected


def test_no_operator_means_equal_and_an_unknown_one_covers_nothing() -> None:
    assert tolerates(Toleration(key="a", value="b"), taint("a=b:NoSchedule"))
    assert not tolerates(Toleration(key="a", operator="Like", value="b"), taint("a=b:NoSchedule"))


def test_without_a_key_equal_compares_the_values_only() -> None:
    assert tolerates(Toleration(operator="Equal", value="b"), taint("a=b:NoSchedule"))
    assert not tolerates(Toleration(operator="Equal", value="c"), taint("a=b:NoSchedule"))


@pytest.mark.parametrize(
    ("operator", "limit", "actual", "expected"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "-6", True),
        ("Lt", "5", "5", False),
        ("Gt", "+5", "6", False),
        ("Gt", "5", "06", False),
        ("Gt", "-0", "6", False),
        ("Gt", "5", "9223372036854775808", False),
    ],
)
def test_comparisons_need_their_gate_and_canonical_numbers(
    operator: str, limit: str, actual: str, expected: bool
) -> None:
    comparing = Toleration(key="a", operator=operator, value=limit)
    tainted = Taint(key="a", value=actual, effect="NoSchedule")
    assert tolerates(comparing, tainted, comparison_operators=True) is expected
    assert not tolerates(comparing, tainted)


def test_the_first_taint_that_repels_decides() -> None:
    taints = [taint("soft:PreferNoSchedule"), taint("a:NoSchedule"), taint("b:NoExecute")]
    assert first_untolerated_taint(taints, []) == taints[1]
    assert first_untolerated_taint(taints, [toleration("a")]) == taints[2]
    assert first_untolerated_taint(taints, [toleration("a"), toleration("b")]) is None
    assert first_untolerated_taint(taints, TolerationIndex([])) == taints[1]
    assert first_untolerated_taint(taints, TolerationIndex([toleration("a")])) == taints[2]
    assert first_untolerated_taint(taints, TolerationIndex([toleration("a"), toleration("b")])) is None


def test_preferences_are_counted_against_the_tolerations_that_speak_of_them() -> None:
    taints = [taint("a:PreferNoSchedule"), taint("b:PreferNoSchedule"), taint("c:NoSchedule")]
    speaking = preference_tolerations([toleration("a"), toleration("b:NoSchedule")])
    assert speaking == (toleration("a"),)
    assert count_intolerable_preferences(taints, TolerationIndex(speaking)) == 1
    assert count_intolerable_preferences(taints, TolerationIndex(())) == 2


TOLERATIONS = st.builds(
    Toleration,
    key=st.sampled_from(["", "a", "b"]),
    operator=st.sampled_from(["", "Equal", "Exists", "Gt", "Lt", "Odd"]),
    value=st.sampled_from(["", "1", "2"]),
    effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
)
TAINTS = st.builds(
    Taint,
    key=st.sampled_from(["a", "b", "c"]),
    value=st.sampled_from(["", "1", "2"]),
    effect=st.sampled_from(["NoSchedule", "NoExecute"]),
)


@given(st.lists(TOLERATIONS, max_size=4), TAINTS, st.booleans())
def test_an_index_of_tolerations_says_what_all_of_them_say(
    tolerations: list[Toleration], taint: Taint, compares: bool
) -> None:
    index = TolerationIndex(tolerations, comparison_operators=compares)
    assert index.tolerates(taint) == tolerated(taint, tolerations, comparison_operators=compares)
