"""What a pod with very many labels, or very many selectors, costs the counts."""

from __future__ import annotations

from scheduler.cluster.pod_counts import NO_QUERY
from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.selector_fields import LabelSelector, SelectorExpression
from scheduler.objects.selectors import NOTHING, parse_selector
from scheduler.objects.steps import Pace, run_to_end
from tests.cluster.test_pod_counts import DEFAULT, WEB, Placed, placed
from tests.plugins.test_rows_touched import counted


class Compared(str):
    """A text that counts how often one of its kind is compared with an equal one."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other) is True

    __hash__ = str.__hash__


def test_a_pods_labels_are_compared_once_when_it_goes() -> None:
    cluster = Placed()

    def labelled() -> PodInfo:
        info = placed("p")
        info.labels = {Compared(f"key-{number}"): "x" for number in range(1_000)}
        return info

    cluster.add(labelled())
    Compared.times = 0
    cluster.remove(labelled())
    assert Compared.times <= 1_000
    cluster.counts.check()


def test_what_is_counted_in_steps_is_what_a_counter_says_and_makes_none() -> None:
    cluster = Placed(limit=1)
    for index, name in enumerate(["n0", "n2", "n2"]):
        cluster.add(placed(f"p{index}", name, app=f"app-{index}"))
    kept = cluster.counts.intern(DEFAULT, WEB)
    either = parse_selector(
        LabelSelector(match_expressions=(SelectorExpression(key="app", operator="NotIn", values=("app-1",)),))
    )
    pace = Pace(2)
    counts = run_to_end(cluster.counts.count_in_steps(DEFAULT, either, pace))
    assert (counts.items(), pace.slices) == ({0: 1, 2: 1}, 1)
    assert len(cluster.counts) == 1
    assert cluster.counts.intern(DEFAULT, WEB) == kept
    assert run_to_end(cluster.counts.count_in_steps(DEFAULT, NOTHING, pace)).is_zero


def test_every_pod_is_a_change_once_a_query_without_a_counter_was_asked() -> None:
    cluster = Placed()
    before = cluster.counts.changes
    cluster.add(placed("p0"))
    assert cluster.counts.changes == before
    run_to_end(cluster.counts.count_in_steps(DEFAULT, WEB, Pace()))
    cluster.add(placed("p1"))
    assert cluster.counts.changes > before
    assert cluster.counts.version(NO_QUERY) != cluster.counts.version(NO_QUERY)


def test_a_pod_with_very_many_labels_is_filed_under_none_of_them_and_counted_like_others() -> None:
    cluster = Placed()
    own = {f"key-{number}": "x" for number in range(1_001)}
    large, few = placed("large", labels=own), placed("few")
    cluster.add(few)
    with counted() as lines:
        cluster.add(large)
    assert lines.count < 500
    one = parse_selector(LabelSelector(match_labels={"key-7": "x"}))
    query = cluster.counts.intern(DEFAULT, one)
    assert cluster.counts.counts(query).sum() == 1
    cluster.counts.check()
    cluster.remove(large)
    assert cluster.counts.counts(query).sum() == 0
    cluster.counts.check()


def test_a_query_about_very_many_namespaces_counts_the_pods_of_these_alone() -> None:
    cluster = Placed()
    named = frozenset(["default", *[f"namespace-{number}" for number in range(1_001)]])
    other = frozenset([f"namespace-{number}" for number in range(1_001)])
    with counted() as lines:
        both = cluster.counts.intern(named, WEB), cluster.counts.intern(other, WEB)
    assert lines.count < 3_000
    cluster.add(placed("p0"))
    assert [cluster.counts.counts(query).sum() for query in both] == [1, 0]
    cluster.counts.check()
