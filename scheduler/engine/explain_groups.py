"""Explanations of groups of pods as plain values, ready for JSON. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.engine import Engine
from scheduler.engine.group_attempt import GroupAttempt
from scheduler.engine.wanted import EVERY_POD, Wanted
from scheduler.objects.timestamps import format_seconds
from scheduler.queue.queued_pod import QueuedPod

MAX_MEMBERS_LISTED = 500
"""Members of a group listed one by one; the counts beside them are complete."""
MAX_GROUPS_LISTED = 500
"""Groups with waiting pods listed beside the queue."""


def group_page(engine: Engine, key: str) -> dict[str, Any] | None:
    """Everything known about a group (``namespace/name``): what it demands, how many of its pods are there and on
    nodes, its last attempt, and what each member waits for. None for a group without an object and without pods."""
    groups = engine.cache.groups
    group, members = groups.get(key), groups.members(key)
    if group is None and not members.count:
        return None
    page = group_summary(engine, key)
    if group is not None:
        page |= {
            "kind": group.reference.kind.entry.name,
            "apiVersion": group.reference.kind.entry.api_version,
            "topologyKey": group.topology_key,
            "priority": group.priority,
            "disruptionMode": group.disruption.value,
            "isScheduled": group.scheduled is not None and group.scheduled.status == "True",
        }
    waiting = [_member_page(engine, info) for info in islice(members.unscheduled, MAX_MEMBERS_LISTED)]
    placed = [
        {"pod": info.key, "node": info.node_name, "isBound": not engine.cache.is_assumed(info.uid)}
        for info in islice(members.placed.values(), MAX_MEMBERS_LISTED - len(waiting))
    ]
    return {**page, "members": waiting + placed}


def group_summary(engine: Engine, key: str) -> dict[str, Any]:
    """What decides whether the group's pods start: how many are there, and the last attempt at all of them."""
    page: dict[str, Any] = {"group": key, **counts_of(engine, key)}
    if engine.cache.groups.get(key) is None:
        page["missing"] = "no object describes the group: its pods wait until one does"
    remembered = engine.group_reports.of(key)
    if remembered is not None:
        page["attempt"] = {
            **_attempt_page(remembered.attempt),
            "attempts": remembered.attempts,
            "since": format_seconds(remembered.since_wall),
        }
    return page


def counts_of(engine: Engine, key: str) -> dict[str, Any]:
    """How many pods the group has, how many are on nodes, and its quorum (None without one)."""
    group, members = engine.cache.groups.get(key), engine.cache.groups.members(key)
    assumed = sum(engine.cache.is_assumed(uid) for uid in members.placed)
    return {
        "minCount": None if group is None else group.min_count,
        "pods": members.count,
        "onNodes": len(members.placed),
        "held": assumed,
        "waiting": len(members.unscheduled),
    }


def waiting_groups(engine: Engine, wanted: Wanted = EVERY_POD) -> list[dict[str, Any]]:
    """The groups with pods that wait, in no particular order: for the queue's page.

    Of a group with a wanted pod among its first MAX_MEMBERS_LISTED waiting ones; its counts are of the whole group.
    """
    return list(islice(_waiting_groups(engine, wanted), MAX_GROUPS_LISTED))


def _waiting_groups(engine: Engine, wanted: Wanted) -> Iterator[dict[str, Any]]:
    for key in engine.cache.groups.keys:
        counts = counts_of(engine, key)
        if not counts["waiting"] or not _is_wanted(engine, key, wanted):
            continue
        remembered = engine.group_reports.of(key)
        page = {"group": key, **counts}
        if remembered is not None:
            page |= {
                "result": remembered.attempt.result.value,
                "message": remembered.attempt.message,
                "attempts": remembered.attempts,
                "since": format_seconds(remembered.since_wall),
            }
        yield page


def _is_wanted(engine: Engine, key: str, wanted: Wanted) -> bool:
    if wanted.is_everything:
        return True
    if wanted.namespace and key.partition("/")[0] != wanted.namespace:
        return False
    waiting = islice(engine.cache.groups.members(key).unscheduled, MAX_MEMBERS_LISTED)
    records = (_record_of(engine, info) for info in waiting)
    return any(record is not None and wanted.includes(record) for record in records)


def _record_of(engine: Engine, info: PodInfo) -> QueuedPod | None:
    return engine.queue.find(info.key) or next(engine.queue.in_flight.named(info.key), None)


def _attempt_page(attempt: GroupAttempt) -> dict[str, Any]:
    page: dict[str, Any] = {
        "at": format_seconds(attempt.started_wall),
        "profile": attempt.scheduler_name,
        "result": attempt.result.value,
        "message": attempt.message,
        "tried": attempt.tried,
        "found": len(attempt.placed),
        "microseconds": round(attempt.duration_seconds * 1e6),
    }
    if attempt.victims:
        page["victims"] = attempt.victims
    if attempt.placements:
        page["placements"] = attempt.placements
    if attempt.placement:
        page["placement"] = attempt.placement
    return page


def _member_page(engine: Engine, info: PodInfo) -> dict[str, Any]:
    page: dict[str, Any] = {"pod": info.key, "node": ""}
    record = _record_of(engine, info)
    if record is not None:
        story = engine.queue.story(record)
        page |= {"place": story.place.value, "since": format_seconds(story.since), "attempts": story.attempts}
        if story.gated_by:
            page["message"] = f"held back by {story.gated_by}: {', '.join(story.gating_reasons)}"
    attempt = engine.attempt_of(info.key)
    if attempt is not None and attempt.message and "message" not in page:
        page["message"] = attempt.message
    return page
