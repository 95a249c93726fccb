"""Explanations of groups of pods as plain values, ready for JSON. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.engine import Engine
from scheduler.engine.group_attempt import GroupAttempt
from scheduler.objects.timestamps import format_seconds

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


def waiting_groups(engine: Engine) -> list[dict[str, Any]]:
    """The groups with pods that wait, in no particular order: for the queue's page."""
    return list(islice(_waiting_groups(engine), MAX_GROUPS_LISTED))


def _waiting_groups(engine: Engine) -> Iterator[dict[str, Any]]:
    for key in engine.cache.groups.keys:
        counts = counts_of(engine, key)
        if not counts["waiting"]:
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
    record = engine.queue.find(info.key) or next(engine.queue.in_flight.named(info.key), None)
    if record is not None:
        story = engine.queue.story(record)
        page |= {"place": story.place.value, "since": format_seconds(story.since), "attempts": story.attempts}
        if story.gated_by:
            page["message"] = f"held back by {story.gated_by}: {', '.join(story.gating_reasons)}"
    attempt = engine.attempt_of(info.key)
    if attempt is not None and attempt.message and "message" not in page:
        page["message"] = attempt.message
    return page
