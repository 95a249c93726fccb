"""The pages of the queue as plain values, ready for JSON: pod by pod, and by workload and reason.

Both are made in slices of about a millisecond, between which the engine may run: pods that have moved by then are
missing.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeVar

from scheduler.engine.engine import Engine
from scheduler.engine.explain import Wishes, being_bound, waiting_page
from scheduler.engine.explain_groups import waiting_groups
from scheduler.engine.wanted import EVERY_POD, Wanted
from scheduler.engine.workloads import last_message, workload_of
from scheduler.messages.page_limits import MAX_GROUPS_LISTED, MAX_WAITING_LISTED
from scheduler.objects.steps import Ended, signalling
from scheduler.objects.timestamps import format_seconds
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.story import Place

_SLICE_SEARCHED: Final = 1_000
_SLICE_GROUPED: Final = 100
_SLICE_DESCRIBED: Final = 32
"""Pods examined, pods grouped, and pods described, in about a millisecond."""

_NO_ENTRIES: Final[list[dict[str, Any]]] = []
Returned = TypeVar("Returned")
_Found = tuple[list[tuple[QueuedPod, Place]], dict[str, int]]
"""Pending pods where they are, and the number of pods in each part of the queue."""


def queue_page(engine: Engine, limit: int = MAX_WAITING_LISTED, wanted: Wanted = EVERY_POD) -> dict[str, Any]:
    """The first ``limit`` pending pods in the queue's order, the number of pods in each part of the queue, and the
    groups with pods that wait."""
    pods, rest = _all_of(queue_page_in_slices(engine, limit, wanted))
    return {**rest, "groups": waiting_groups(engine, wanted), "pods": pods}


def queue_page_in_slices(
    engine: Engine, limit: int = MAX_WAITING_LISTED, wanted: Wanted = EVERY_POD
) -> Generator[list[dict[str, Any]], None, dict[str, Any]]:
    """``queue_page`` in pieces: yields the pods' pages, returns what else is in the page but the groups of pods.

    The counts are of the whole queue, whichever pods are ``wanted``.
    """
    found, counts = yield from _pending(engine, limit, wanted)
    wishes: Wishes = {}
    for start in range(0, len(found), _SLICE_DESCRIBED):
        yield [waiting_page(engine, *one, wishes) for one in _still(engine, found[start : start + _SLICE_DESCRIBED])]
    return {"counts": counts}


def grouped_queue_page(engine: Engine, wanted: Wanted = EVERY_POD) -> dict[str, Any]:
    """The pending pods by workload and by the reason for which they wait, the largest group first.

    At most MAX_GROUPS_LISTED of them, of the first MAX_WAITING_LISTED pods in the queue's order; ``workloads`` is the
    number of all.
    """
    entries, rest = _all_of(grouped_queue_in_slices(engine, wanted))
    return {**rest, "groups": waiting_groups(engine, wanted), "waiting": entries}


def grouped_queue_in_slices(
    engine: Engine, wanted: Wanted = EVERY_POD
) -> Generator[list[dict[str, Any]], None, dict[str, Any]]:
    """``grouped_queue_page`` in pieces: yields the groups, returns what else is in the page but the groups of pods."""
    found, counts = yield from _pending(engine, MAX_WAITING_LISTED, wanted)
    groups: dict[tuple[str, ...], list[QueuedPod]] = {}
    for start in range(0, len(found), _SLICE_GROUPED):
        for record, place in _still(engine, found[start : start + _SLICE_GROUPED]):
            groups.setdefault(_group_of(engine, record, place), []).append(record)
        yield []
    largest = sorted(groups.items(), key=lambda group: -len(group[1]))[:MAX_GROUPS_LISTED]
    for start in range(0, len(largest), _SLICE_DESCRIBED):
        yield [_group_page(engine, *one) for one in largest[start : start + _SLICE_DESCRIBED]]
    return {"counts": counts, "workloads": len(groups), "pods": len(found)}


def _group_of(engine: Engine, record: QueuedPod, place: Place) -> tuple[str, ...]:
    """What the pods of a group have in common: namespace, workload (a pod without one is by itself), place, reason."""
    info = record.info
    workload = workload_of(info.pod, engine.cache.objects)
    return (
        info.namespace,
        workload or info.name,
        workload,
        place.value,
        record.gating_plugin,
        ", ".join(record.gating_reasons),
        ", ".join(sorted(record.rejectors)),
        last_message(engine, record),
    )


def _group_page(engine: Engine, key: tuple[str, ...], records: list[QueuedPod]) -> dict[str, Any]:
    first = records[0]
    return {
        "count": len(records),
        "pod": first.key,
        "workload": key[2],
        "place": key[3],
        "pendingSince": format_seconds(engine.queue.clock.wall(min(record.pending_since for record in records))),
        "rejectedBy": sorted(first.rejectors),
        "gatedBy": first.gating_plugin,
        "gatingReasons": list(first.gating_reasons),
        "message": key[-1],
    }


def _pending(engine: Engine, limit: int, wanted: Wanted) -> Generator[list[dict[str, Any]], None, _Found]:
    """The first ``limit`` pending pods that are wanted, those that are being tried or bound at the end."""
    within = limit if wanted.is_everything else sum(engine.queue.pending_counts().values())
    waiting = yield from signalling(engine.queue.first_waiting(within, _SLICE_SEARCHED), _NO_ENTRIES)
    chosen: list[tuple[QueuedPod, Place]] = []
    for start in range(0, len(waiting), _SLICE_SEARCHED):
        part = waiting[start : start + _SLICE_SEARCHED]
        chosen += [(record, engine.queue.place_of(record)) for record in part if wanted.includes(record)]
        yield []
    trying = [(record, Place.IN_FLIGHT) for record in engine.queue.in_flight.entries if isinstance(record, QueuedPod)]
    trying += being_bound(engine)
    counts = {**engine.queue.pending_counts(), "in flight": len(trying)}
    return [*chosen, *(one for one in trying if wanted.includes(one[0]))][:limit], counts


def _still(engine: Engine, found: list[tuple[QueuedPod, Place]]) -> list[tuple[QueuedPod, Place]]:
    """Those that are still there, where they are now: slices lie between the search and the page."""
    return [
        (record, place if place is Place.IN_FLIGHT else engine.queue.place_of(record))
        for record, place in found
        if place is Place.IN_FLIGHT or engine.queue.find(record.key) is record
    ]


def _all_of(slices: Generator[list[dict[str, Any]], None, Returned]) -> tuple[list[dict[str, Any]], Returned]:
    """What the generator yields, and what it returns."""
    ended = Ended(slices)
    entries = [entry for some in ended for entry in some]
    return entries, ended.result
