from __future__ import annotations

from typing import Unpack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.cluster.pod_counts import ALL_NAMESPACES, Namespaces, PodCounts
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.errors import InvariantViolation
from scheduler.objects.requirements import Operator, Requirement
from scheduler.objects.selector_fields import LabelSelector, SelectorExpression
from scheduler.objects.selectors import EVERYTHING, NOTHING, Selector, equality_selector, parse_selector
from scheduler.testing.documents import PodFields
from scheduler.testing.objects import node, pod

WEB = equality_selector({"app": "web"})
DEFAULT: Namespaces = frozenset({"default"})


class Placed:
    """A table with pods in it and the counts that belong to it, as the cluster cache keeps them."""

    def __init__(self, limit: int = 1024, max_bytes: int = 2**20, nodes: int = 3) -> None:
        self.table = NodeTable()
        self.counts = PodCounts(self.table, limit, max_bytes)
        for number in range(nodes):
            self.table.put_node(node(f"n{number}"))

    def add(self, info: PodInfo) -> None:
        self.counts.add(info, self.table.add_pod(info))

    def remove(self, info: PodInfo) -> None:
        row = self.table.row(info.node_name)
        assert row is not None
        self.counts.remove(info, row)
        self.table.remove_pod(row, info.uid)


def placed(name: str, node_name: str = "n0", app: str = "web", **fields: Unpack[PodFields]) -> PodInfo:
    return PodInfo(pod(name, **({"node": node_name, "labels": {"app": app}} | fields)))


def test_pods_are_counted_on_their_rows() -> None:
    cluster = Placed()
    for index, name in enumerate(["n0", "n2", "n2"]):
        cluster.add(placed(f"p{index}", name))
    query = cluster.counts.intern(DEFAULT, WEB)
    assert cluster.counts.counts(query).tolist() == [1, 0, 2]
    assert cluster.counts.counts(query).dtype == np.int64


def test_pods_that_come_and_go_after_a_query_was_interned_are_counted_too() -> None:
    cluster = Placed()
    query = cluster.counts.intern(DEFAULT, WEB)
    assert cluster.counts.counts(query).tolist() == [0, 0, 0]
    first, second = placed("a"), placed("b", "n1")
    cluster.add(first)
    cluster.add(second)
    cluster.remove(first)
    assert cluster.counts.counts(query).tolist() == [0, 1, 0]


def test_terminating_pods_are_counted_but_are_not_live() -> None:
    cluster = Placed()
    cluster.add(placed("a", deleted="2026-01-01T00:00:00Z"))
    cluster.add(placed("b"))
    query = cluster.counts.intern(DEFAULT, WEB)
    assert cluster.counts.counts(query)[0] == 2
    assert cluster.counts.live_counts(query)[0] == 1


def test_a_pod_that_begins_to_terminate_ceases_to_be_live() -> None:
    cluster = Placed()
    query = cluster.counts.intern(DEFAULT, WEB)
    before, after = placed("a"), placed("a", deleted="2026-01-01T00:00:00Z")
    cluster.add(before)
    assert cluster.counts.live_counts(query)[0] == 1
    cluster.table.replace_pod(0, after)
    cluster.counts.replace(before, after, 0)
    assert cluster.counts.live_counts(query)[0] == 0
    assert cluster.counts.counts(query)[0] == 1
    cluster.counts.check()


@pytest.mark.parametrize(
    ("namespaces", "selector", "expected"),
    [
        (DEFAULT, WEB, 1),
        (ALL_NAMESPACES, WEB, 2),
        (frozenset({"default", "other"}), WEB, 2),
        (frozenset({"absent"}), WEB, 0),
        (frozenset(), WEB, 0),
        (ALL_NAMESPACES, EVERYTHING, 3),
        (ALL_NAMESPACES, NOTHING, 0),
        (
            DEFAULT,
            parse_selector(LabelSelector(match_expressions=(SelectorExpression(key="app", operator="Exists"),))),
            2,
        ),
        (
            ALL_NAMESPACES,
            parse_selector(
                LabelSelector(match_expressions=(SelectorExpression(key="app", operator="NotIn", values=("web",)),))
            ),
            1,
        ),
    ],
)
def test_a_query_is_about_namespaces_and_a_selector(namespaces: Namespaces, selector: Selector, expected: int) -> None:
    cluster = Placed()
    early = cluster.counts.intern(namespaces, selector)
    cluster.add(placed("a"))
    cluster.add(placed("b", namespace="other"))
    cluster.add(placed("c", app="db"))
    assert cluster.counts.counts(early).sum() == expected
    late = PodCounts(cluster.table)
    for info in cluster.table.pods[0].values():
        late.add(info, 0)
    assert late.counts(late.intern(namespaces, selector)).sum() == expected


def test_a_pod_of_another_application_leaves_the_version_alone() -> None:
    cluster = Placed()
    query = cluster.counts.intern(DEFAULT, WEB)
    version = cluster.counts.version(query)
    cluster.add(placed("a", app="db"))
    cluster.add(placed("b", namespace="other"))
    assert cluster.counts.version(query) == version
    cluster.add(placed("c"))
    assert cluster.counts.version(query) != version


def test_a_change_of_the_status_alone_leaves_the_version_alone() -> None:
    cluster = Placed()
    query = cluster.counts.intern(DEFAULT, WEB)
    before, after = placed("a"), placed("a", phase="Running")
    cluster.add(before)
    version = cluster.counts.version(query)
    cluster.counts.replace(before, after, 0)
    assert cluster.counts.version(query) == version


def test_the_query_asked_for_longest_ago_is_evicted_and_counted_again_when_asked_for() -> None:
    cluster = Placed(limit=2)
    cluster.add(placed("a"))
    web = cluster.counts.intern(DEFAULT, WEB)
    cluster.counts.intern(DEFAULT, equality_selector({"app": "db"}))
    assert cluster.counts.intern(DEFAULT, WEB) == web
    cluster.counts.intern(DEFAULT, equality_selector({"app": "cache"}))
    assert cluster.counts.intern(DEFAULT, WEB) == web
    cluster.counts.intern(DEFAULT, equality_selector({"app": "x"}))
    cluster.counts.intern(DEFAULT, equality_selector({"app": "y"}))
    assert len(cluster.counts) == 2
    cluster.add(placed("b", "n1"))
    again = cluster.counts.intern(DEFAULT, WEB)
    assert again != web
    assert cluster.counts.counts(again).tolist() == [1, 1, 0]


def test_counts_of_many_selectors_are_bounded_in_bytes() -> None:
    """A thousand selectors that all match pods on a hundred nodes: an array of 128 bytes each."""
    cluster = Placed(max_bytes=64 * 128, nodes=100)
    for number in range(100):
        cluster.add(placed(f"p{number}", f"n{number}"))
    for number in range(1_000):
        others = Selector((Requirement("app", Operator.NOT_IN, (f"app-{number}",)),))
        cluster.counts.counts(cluster.counts.intern(DEFAULT, others))
    assert 64 <= len(cluster.counts) <= 64 * 9 // 8 + 1
    cluster.counts.check()


def test_the_version_of_an_evicted_query_never_equals_one_seen_before() -> None:
    cluster = Placed(limit=1)
    web = cluster.counts.intern(DEFAULT, WEB)
    seen = {cluster.counts.version(web)}
    cluster.counts.intern(DEFAULT, EVERYTHING)
    for _ in range(3):
        version = cluster.counts.version(web)
        assert version not in seen
        seen.add(version)
    with pytest.raises(KeyError):
        cluster.counts.counts(web)


def test_label_sets_of_pods_that_are_gone_are_forgotten() -> None:
    cluster = Placed()
    infos = [placed(f"web-{index}", app=f"web-{index}") for index in range(50)]
    for info in infos:
        cluster.add(info)
    assert len(cluster.counts._groups) == 50
    for info in infos:
        cluster.remove(info)
    assert not cluster.counts._groups


class Text(str):
    """Counts how often a text is compared with an equal one that is another object."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Text.compared += 1
        return str.__eq__(self, other)


def test_a_pod_with_many_labels_goes_without_its_labels_being_compared_for_each_of_them() -> None:
    cluster = Placed()
    count = 400

    def version() -> PodInfo:
        labelled = placed("labelled").pod
        labels = {Text(f"key-{number}"): Text("x") for number in range(count)}
        return PodInfo(replace(labelled, metadata=replace(labelled.metadata, labels=labels)))

    cluster.add(version())
    Text.compared = 0
    cluster.remove(version())
    assert 0 < Text.compared < 20 * count


def test_more_rows_and_more_pods_than_fit_the_sparse_form_are_counted() -> None:
    cluster = Placed()
    query = cluster.counts.intern(DEFAULT, WEB)
    for index in range(200):
        cluster.add(placed(f"p{index}", f"node-{index}"))
    counts = cluster.counts.counts(query)
    assert len(counts) == cluster.table.size == 203
    assert counts.sum() == 200
    cluster.counts.check()


def test_counts_cannot_be_written_to() -> None:
    cluster = Placed()
    query = cluster.counts.intern(DEFAULT, WEB)
    with pytest.raises(ValueError):
        cluster.counts.counts(query)[0] = 7


def test_removing_a_pod_that_was_never_added_is_a_bug() -> None:
    with pytest.raises(InvariantViolation):
        Placed().counts.remove(placed("a"), 0)


def test_a_wrong_count_is_noticed() -> None:
    cluster = Placed()
    info = placed("a")
    cluster.counts.add(info, 1)
    cluster.table.add_pod(info)
    with pytest.raises(InvariantViolation):
        cluster.counts.check()


def test_a_copy_stays_as_it_was_and_answers_new_queries() -> None:
    cluster = Placed()
    first = placed("a")
    cluster.add(first)
    query = cluster.counts.intern(DEFAULT, WEB)
    assert cluster.counts.counts(query).tolist() == [1, 0, 0]
    frozen = cluster.counts.fork(cluster.table.fork())
    cluster.add(placed("b", "n1"))
    cluster.add(placed("c", "n-new"))
    cluster.remove(first)
    assert frozen.counts(query).tolist() == [1, 0, 0]
    fresh = frozen.intern(ALL_NAMESPACES, EVERYTHING)
    assert frozen.counts(fresh).tolist() == [1, 0, 0]
    assert frozen.live_counts(query).tolist() == [1, 0, 0]
    assert cluster.counts.counts(query).tolist() == [0, 1, 0, 1]
    cluster.counts.check()


def test_ids_made_in_a_copy_never_mean_something_else_in_the_original() -> None:
    cluster = Placed()
    frozen = cluster.counts.fork(cluster.table.fork())
    assert frozen.intern(DEFAULT, WEB) != cluster.counts.intern(DEFAULT, EVERYTHING)


NAMESPACES = st.sampled_from(["default", "other"])
LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xyz"), max_size=2)
EXPRESSIONS = st.one_of(
    st.builds(
        SelectorExpression,
        key=st.sampled_from("ab"),
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(st.sampled_from("xyz"), min_size=1, max_size=2).map(tuple),
    ),
    st.builds(SelectorExpression, key=st.sampled_from("ab"), operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
QUERIES = st.tuples(
    st.one_of(st.none(), st.frozensets(NAMESPACES, max_size=2)),
    st.builds(LabelSelector, match_labels=LABELS, match_expressions=st.lists(EXPRESSIONS, max_size=2).map(tuple)).map(
        parse_selector
    ),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), NAMESPACES, LABELS, st.integers(0, 3), st.booleans()),
        st.tuples(st.just("remove"), st.integers(0, 100)),
        st.tuples(st.just("ask"), QUERIES),
        st.tuples(st.just("copy")),
    ),
    max_size=40,
)


@settings(max_examples=80)
@given(STEPS, st.lists(QUERIES, min_size=1, max_size=3))
def test_counts_always_equal_a_recount(steps: list[tuple], queries: list[tuple[Namespaces, Selector]]) -> None:  # type: ignore[type-arg]
    cluster = Placed(limit=3)
    there: list[PodInfo] = []
    copies: list[tuple[PodCounts, list[PodInfo], int]] = []
    for number, step in enumerate(steps):
        match step:
            case "add", namespace, labels, row, terminating:
                deleted = "2026-01-01T00:00:00Z" if terminating else None
                info = PodInfo(pod(f"p{number}", node=f"n{row}", namespace=namespace, labels=labels, deleted=deleted))
                cluster.add(info)
                there.append(info)
            case "remove", index if there:
                cluster.remove(there.pop(index % len(there)))
            case "ask", query:
                _assert_counts(cluster.counts, query, there, cluster.table, cluster.table.size)
            case ("copy",):
                copies.append((cluster.counts.fork(cluster.table.fork()), list(there), cluster.table.size))
        cluster.counts.check()
    for query in queries:
        _assert_counts(cluster.counts, query, there, cluster.table, cluster.table.size)
        for frozen, then, size in copies:
            _assert_counts(frozen, query, then, cluster.table, size)


def _assert_counts(
    counts: PodCounts, query: tuple[Namespaces, Selector], there: list[PodInfo], table: NodeTable, size: int
) -> None:
    namespaces, selector = query
    everywhere, live = [0] * size, [0] * size
    for info in there:
        if (namespaces is None or info.namespace in namespaces) and selector.matches(info.labels):
            row = int(info.node_name[1:])
            everywhere[row] += 1
            live[row] += not info.is_terminating
    query_id = counts.intern(namespaces, selector)
    assert counts.counts(query_id).tolist() == everywhere
    assert counts.live_counts(query_id).tolist() == live
