"""Pods taken early from the back-off, without those that are like one that has found no node."""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_template import template_key
from scheduler.queue.early_heap import EarlyHeap
from scheduler.queue.pool import UnschedulablePool
from scheduler.queue.queued_pod import QueuedPod
from scheduler.testing.objects import pod


def order(record: QueuedPod) -> tuple[int, ...]:
    return (record.timestamp,)


def class_of(record: QueuedPod) -> Hashable:
    return record.info.labels.get("app", record.uid)


def waiting(name: str, app: str, at: int) -> QueuedPod:
    return QueuedPod(PodInfo(pod(name, labels={"app": app})), at)


def heap_of(*records: QueuedPod) -> EarlyHeap:
    heap = EarlyHeap(order, class_of)
    for record in records:
        heap.put(record)
    return heap


def taken(heap: EarlyHeap, state: Hashable) -> str:
    record = heap.take_early(state)
    return record.info.name if record is not None else ""


def test_pods_like_one_that_failed_are_passed_over_until_the_state_changes() -> None:
    heap = heap_of(waiting("a", "web", 1), waiting("b", "web", 2), waiting("c", "db", 3))
    failed = heap.take_early("one")
    assert failed is not None
    heap.failed(failed, "one")
    assert taken(heap, "one") == "c"
    assert taken(heap, "one") == ""
    assert len(heap) == 1
    assert taken(heap, "two") == "b"


def test_pods_that_were_passed_over_keep_their_place_in_the_order() -> None:
    heap = heap_of(waiting("a", "web", 1), waiting("b", "web", 2), waiting("c", "db", 3))
    failed = heap.take_early("one")
    assert failed is not None
    heap.failed(failed, "one")
    assert heap.take_early("one") is not None
    heap.put(waiting("d", "db", 4))
    heap.put(waiting("e", "db", 1))
    assert [taken(heap, "two") for _ in range(4)] == ["e", "b", "d", ""]


def test_a_failure_without_a_state_passes_over_no_pod() -> None:
    heap = heap_of(waiting("a", "web", 1), waiting("b", "web", 2))
    failed = heap.take_early(None)
    assert failed is not None
    heap.failed(failed, None)
    assert taken(heap, None) == "b"


def test_forgetting_failures_brings_all_back() -> None:
    heap = heap_of(waiting("a", "web", 1), waiting("b", "web", 2))
    failed = heap.take_early("one")
    assert failed is not None
    heap.failed(failed, "one")
    assert taken(heap, "one") == ""
    heap.forget_failures()
    assert taken(heap, "one") == "b"


def test_a_pod_that_changes_its_class_leaves_the_old_one() -> None:
    heap = heap_of(waiting("a", "web", 1), waiting("b", "web", 2))
    failed = heap.take_early("one")
    assert failed is not None
    heap.failed(failed, "one")
    heap.put(waiting("b", "db", 2))
    assert taken(heap, "one") == "b"
    assert not len(heap)


def pool_of(*records: QueuedPod) -> UnschedulablePool:
    pool = UnschedulablePool(template_key)
    for record in records:
        pool.put(record)
    return pool


def test_while_one_that_failed_waits_for_an_event_those_like_it_are_passed_over_in_each_state() -> None:
    heap = heap_of(waiting("a", "web", 1), waiting("b", "web", 2))
    failed = heap.take_early("one")
    assert failed is not None
    heap.failed(failed, "one")
    pool = pool_of(failed)
    assert heap.take_early("two", pool.waits) is None
    assert heap.take_early("three", pool.waits) is None
    pool.remove(failed.key)
    assert heap.take_early("three", pool.waits) is None
    found = heap.take_early("four", pool.waits)
    assert found is not None and found.info.name == "b"


def test_one_that_has_been_tried_again_since_says_nothing_of_the_others() -> None:
    heap = heap_of(waiting("a", "web", 1), waiting("b", "web", 2))
    failed = heap.take_early("one")
    assert failed is not None
    heap.failed(failed, "one")
    failed.attempts += 1
    assert heap.take_early("two", pool_of(failed).waits) is not None


def test_one_that_a_gate_holds_back_says_nothing_of_the_others() -> None:
    heap = heap_of(waiting("a", "web", 1), waiting("b", "web", 2))
    failed = heap.take_early("one")
    assert failed is not None
    heap.failed(failed, "one")
    failed.gating_plugin = "SchedulingGates"
    assert heap.take_early("two", pool_of(failed).waits) is not None


def test_one_that_is_no_longer_like_the_others_says_nothing_of_them() -> None:
    heap = heap_of(waiting("a", "web", 1), waiting("b", "web", 2))
    failed = heap.take_early("one")
    assert failed is not None
    heap.failed(failed, "one")
    failed.replace_pod(waiting("a", "db", 1).info)
    assert heap.take_early("two", pool_of(failed).waits) is not None


def test_one_whose_claims_are_no_longer_like_those_of_the_others_says_nothing_of_them() -> None:
    classes = {"a": "bound", "b": "bound"}
    heap = EarlyHeap(order, lambda record: classes[record.info.name])
    for record in (waiting("a", "db", 1), waiting("b", "db", 2)):
        heap.put(record)
    failed = heap.take_early("one")
    assert failed is not None
    heap.failed(failed, "one", has_claims=True)
    assert heap.take_early("two", pool_of(failed).waits) is None
    classes["a"] = "lost"
    assert heap.take_early("three", pool_of(failed).waits) is not None


def test_one_whose_claims_have_changed_is_not_passed_over_for_those_that_it_was_like() -> None:
    classes = {"a": "bound", "b": "bound", "c": "bound"}
    heap = EarlyHeap(order, lambda record: classes[record.info.name])
    for record in (waiting("a", "db", 1), waiting("b", "db", 2), waiting("c", "db", 3)):
        heap.put(record)
    failed = heap.take_early("one")
    assert failed is not None
    heap.failed(failed, "one", has_claims=True)
    pool = pool_of(failed)
    assert heap.take_early("two", pool.waits) is None
    classes["b"] = "grown"
    found = heap.take_early("three", pool.waits)
    assert found is not None and found.info.name == "b"
    assert heap.take_early("four", pool.waits) is None


def test_a_witness_is_kept_with_the_heap() -> None:
    heap = heap_of(waiting("a", "web", 1), waiting("b", "web", 2))
    failed = heap.take_early("one")
    assert failed is not None
    heap.failed(failed, "one")
    heap, pool = pickle.loads(pickle.dumps((heap, pool_of(failed))))
    assert heap.take_early("two", pool.waits) is None


NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES, st.sampled_from(["web", "db"]), st.integers(0, 3)),
        st.tuples(st.just("remove"), NAMES),
        st.tuples(st.just("take")),
        st.tuples(st.just("early"), st.booleans()),
        st.tuples(st.just("state")),
        st.tuples(st.just("forget")),
        st.tuples(st.just("pickle")),
    ),
    max_size=60,
)


@given(STEPS)
def test_it_is_the_first_in_the_order_that_is_not_like_a_failed_one(steps: list[tuple[object, ...]]) -> None:
    """Against a list that is searched from its beginning each time."""
    heap, state = EarlyHeap(order, class_of), 0
    present: dict[str, tuple[int, int, QueuedPod]] = {}
    failed: dict[str, int] = {}
    number = 0

    def plain(eligible: bool) -> str:
        found = sorted(
            (at, count, name)
            for name, (at, count, record) in present.items()
            if not eligible or failed.get(str(class_of(record))) != state
        )
        return found[0][2] if found else ""

    def left(name: str) -> None:
        _, _, record = present.pop(name)
        if all(class_of(other) != class_of(record) for _, _, other in present.values()):
            # What is known of a class is dropped with its last pod.
            failed.pop(str(class_of(record)), None)

    for step in steps:
        match step:
            case ("put", str(name), str(app), int(at)):
                number += 1
                record = waiting(name, app, at)
                before = present.get(name)
                if before is not None and class_of(before[2]) != app:
                    left(name)
                elif before is not None and sum(class_of(other) == app for _, _, other in present.values()) == 1:
                    failed.pop(app, None)
                present[name] = at, before[1] if before is not None else number, record
                heap.put(record)
            case ("remove", str(name)):
                known = heap.remove(f"default/{name}")
                assert (known is not None) == (name in present)
                if known is not None:
                    left(name)
            case ("take",):
                expected = plain(eligible=False)
                first = heap.take()
                assert (first.info.name if first is not None else "") == expected
                if first is not None:
                    left(expected)
            case ("early", bool(fails)):
                expected = plain(eligible=True)
                found = heap.take_early(state)
                assert (found.info.name if found is not None else "") == expected
                if found is not None:
                    left(expected)
                    if fails:
                        heap.failed(found, state)
                        if any(class_of(other) == class_of(found) for _, _, other in present.values()):
                            failed[str(class_of(found))] = state
            case ("state",):
                state += 1
            case ("forget",):
                heap.forget_failures()
                failed.clear()
            case ("pickle",):
                heap = pickle.loads(pickle.dumps(heap))
        assert len(heap) == len(present)


class Key:
    """A class of one pod."""


@pytest.mark.parametrize("is_removed", [True, False])
def test_the_classes_of_pods_that_have_left_are_not_kept(is_removed: bool) -> None:
    kept = weakref.WeakSet[Key]()

    def of_its_own(_: QueuedPod) -> Key:
        kept.add(key := Key())
        return key

    heap = EarlyHeap(order, of_its_own)
    for number in range(500):
        record = waiting(f"p{number}", "web", number)
        heap.put(record)
        assert (heap.remove(record.key) if is_removed else heap.take()) is record
    assert len(kept) < 100
