from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.queue.pod_heap import PodHeap
from scheduler.queue.queued_pod import QueuedPod
from scheduler.testing.objects import pod


def record(name: str, timestamp: int) -> QueuedPod:
    return QueuedPod(PodInfo(pod(name)), timestamp)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(("put", "remove", "take")), st.integers(0, 3))))
def test_whatever_is_put_and_removed_the_smallest_comes_out_once(steps: list[tuple[str, str, int]]) -> None:
    heap = PodHeap(lambda record: (record.timestamp,))
    plain: dict[str, QueuedPod] = {}
    for name, step, timestamp in steps:
        key = f"default/{name}"
        if step == "put":
            plain[key] = record(name, timestamp)
            heap.put(plain[key])
        elif step == "remove":
            assert heap.remove(key) is plain.pop(key, None)
        else:
            first = min(plain.values(), key=lambda one: one.timestamp, default=None)
            taken = heap.take()
            assert (taken is None) == (first is None)
            if taken is not None and first is not None:
                assert taken.timestamp == first.timestamp and plain.pop(taken.key) is taken
        assert len(heap) == len(plain) and all(key in heap for key in plain)


def test_equals_come_out_as_they_went_in_even_after_an_update() -> None:
    heap = PodHeap(lambda record: (record.timestamp,))
    for name in ("b", "a", "c"):
        heap.put(record(name, 1))
    heap.put(record("b", 1))
    assert [one.info.name for one in heap.in_order()] == ["b", "a", "c"]


def test_a_heap_that_is_mostly_dead_is_rebuilt() -> None:
    heap = PodHeap(lambda record: (record.timestamp,))
    for timestamp in range(1000):
        heap.put(record("a", timestamp))
    assert heap.take() is not None
    assert heap.take() is None
