"""Explanations of single pods as plain values, ready for JSON; ``attempt_pages.py`` has the attempts.

Nothing is decided here. A pending pod's present chances come from the engine's preview, which runs the same cycle.
Names are camel case, times RFC 3339.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.alternatives import alternatives_in_slices
from scheduler.engine.attempt import Attempt
from scheduler.engine.attempt_memory import MAX_CANDIDATES
from scheduler.engine.attempt_pages import attempt_page, preemption_page, preview_page_in_slices
from scheduler.engine.binding import Binding
from scheduler.engine.engine import Engine
from scheduler.engine.explain_groups import group_summary
from scheduler.engine.why_not import MAX_NAMES
from scheduler.engine.workloads import last_message, workload_of
from scheduler.errors import type_and_message
from scheduler.framework.events import Action
from scheduler.messages.now import Now
from scheduler.objects.pod import Pod
from scheduler.objects.steps import Steps, run_to_end
from scheduler.objects.timestamps import format_seconds
from scheduler.preemption.eligibility import is_dying_victim
from scheduler.preemption.evaluation import PreemptionEvidence
from scheduler.preemption.summary import PreemptionSummary, summary_of
from scheduler.queue.hints import EXTENDER, registrations_of
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.story import Place

Wishes = dict[tuple[str, str], list[str]]
"""(profile, plugin) → the events it registered for, as text; filled while a page is made."""


class PreemptionMemory:
    """The last attempt of each pod that preempted: the attempts that follow at once would replace it.

    ``observe`` each completed attempt; at most ``limit`` pods are remembered.
    """

    def __init__(self, limit: int = 1_000) -> None:
        self._limit = limit
        self._attempts: dict[str, Attempt] = {}

    def observe(self, attempt: Attempt) -> None:
        if not isinstance(attempt.preemption, PreemptionEvidence) or not attempt.preemption.victims:
            return
        self._attempts.pop(attempt.uid, None)
        summary = summary_of(attempt.preemption, MAX_CANDIDATES, max_names=0)
        self._attempts[attempt.uid] = msgspec.structs.replace(attempt, diagnosis=None, preemption=summary)
        if len(self._attempts) > self._limit:
            del self._attempts[next(iter(self._attempts))]

    def of(self, uid: str) -> Attempt | None:
        return self._attempts.get(uid)


def pod_page(
    engine: Engine, key: str, now: Now, memory: PreemptionMemory | None = None, node: str = ""
) -> dict[str, Any] | None:
    """``pod_page_in_slices`` without pauses."""
    return run_to_end(pod_page_in_slices(engine, key, now, memory, node))


def pod_page_in_slices(
    engine: Engine, key: str, now: Now, memory: PreemptionMemory | None = None, node: str = ""
) -> Steps[dict[str, Any] | None]:
    """Everything known about one pod (``namespace/name``): its last attempt, the preemption that made room for it, its
    place in the queue and, while it is pending, a preview; once it has a node, the other nodes that it could have.
    ``node``: one node that is explained in full. None for a pod that is neither in the cluster nor remembered. Pauses
    for a large pod: what is said of the nodes is of the beginning."""
    info = engine.known_pods.get(key)
    attempt = engine.attempt_of(key)
    if info is None and attempt is None:
        return None
    if info is not None and attempt is not None and attempt.uid != info.uid:
        attempt = None  # an earlier pod of the same name
    page: dict[str, Any] = {"pod": key, "node": "", "nominatedNode": ""}
    if info is not None:
        page |= _facts(engine, info)
    if attempt is not None:
        page["attempt"] = attempt_page(engine, attempt)
        if memory is not None and (made_room := _made_room(memory, attempt.uid)):
            page["madeRoom"] = made_room
    if info is not None and info.pod.nominated_node_name and not info.node_name:
        page["victimsLeft"] = _victims_left(engine, info, memory.of(info.uid) if memory is not None else None)
    for record, place in list(_waiting_as(engine, key)):
        page["queue"] = waiting_page(engine, record, place, {})
        binding = engine.bindings.get(record.uid)
        if binding is not None:
            page["queue"]["bindingWaits"] = list(_binding_waits(binding, now))
        else:
            preview = yield from preview_page_in_slices(engine, record.info, now, node)
            page["preview"] = preview | {"isOfGroup": bool(record.group)}
            if unasked := unasked_extenders(engine, record.info.pod):
                page["preview"]["unaskedExtenders"] = list(unasked)
    if info is not None and (profile := engine.profiles.get(info.pod.spec.scheduler_name)) is not None:
        page["weights"] = {plugin.name: weight for plugin, weight in profile.score_plugins}
        if info.pod.node_name and not info.pod.is_finished:
            if attempt is None:
                page["decidedEarlier"] = _decided_earlier(engine, info.pod)
            page["alternatives"] = yield from alternatives_in_slices(engine, info, now, node)
    return page


def _facts(engine: Engine, info: PodInfo) -> dict[str, Any]:
    """What the pod's object says, its group, and the plugins' findings."""
    page: dict[str, Any] = {
        "uid": info.uid,
        "schedulerName": info.pod.spec.scheduler_name,
        "node": info.pod.node_name,
        "nominatedNode": info.pod.nominated_node_name,
        "isOurs": info.pod.spec.scheduler_name in engine.profiles,
    }
    if info.is_terminating:
        page["leaving"] = _leaving(info)
    if group := engine.cache.groups.key_of(info):
        page["group"] = group_summary(engine, group)
    if findings := _findings(engine, info):
        page["findings"] = findings
    return page


def _made_room(memory: PreemptionMemory, uid: str) -> dict[str, Any]:
    """The preemption that made room for the pod; empty if none is remembered."""
    attempt = memory.of(uid)
    if attempt is None or not isinstance(attempt.preemption, PreemptionSummary):
        return {}
    return {
        "number": attempt.number,
        "at": format_seconds(attempt.started_wall),
        **preemption_page(attempt.preemption),
    }


def unasked_extenders(engine: Engine, pod: Pod) -> tuple[str, ...]:
    """The names of the extenders that an attempt asks about the pod, and a preview or a trial does not."""
    return tuple([one.name for one in engine.extenders if (one.has_filter or one.has_bind) and one.is_interested(pod)])


def _leaving(info: PodInfo) -> dict[str, Any]:
    """Since when a pod is being deleted, by its deletion timestamp, and what may keep it."""
    metadata = info.pod.metadata
    return {"deletedAt": metadata.deletion_timestamp, "finalizers": list(metadata.finalizers[:MAX_NAMES])}


def _victims_left(engine: Engine, info: PodInfo, made_room: Attempt | None) -> list[dict[str, Any]]:
    """The victims that are still on the node where room is made, those of an earlier scheduler too."""
    table = engine.cache.table
    row = table.existing_row(info.pod.nominated_node_name)
    if row is None:
        return []
    evidence = made_room.preemption if made_room is not None else None
    chosen = {victim.key for victim in evidence.victims} if isinstance(evidence, PreemptionSummary) else set()
    return [
        {"pod": one.key, **(_leaving(one) if one.is_terminating else {})}
        for one in table.pods[row].values()
        if one.key in chosen or (is_dying_victim(one) and one.priority < info.priority)
    ]


def _binding_waits(binding: Binding, now: Now) -> Iterator[dict[str, Any]]:
    """The plugins that the bind waits for, and until when at the latest."""
    ends = {name: binding.waits_since + seconds for name, seconds in binding.waits.items()}
    doing = {name: flight.doing for name, (_, flight) in binding.running.items()}
    for name in (*ends, *doing):
        end = ends.get(name, binding.give_up_at.get(name))
        until = "" if end is None else format_seconds(now.wall + round((end - now.monotonic) * 1e9))
        point = "Permit" if name in ends else "PreBind"
        yield {"plugin": name, "point": point, "doing": doing.get(name, ""), "until": until}


def _decided_earlier(engine: Engine, pod: Pod) -> dict[str, str]:
    """When this scheduler started and, where the pod's condition says so, when the pod got its node."""
    scheduled = pod.condition("PodScheduled")
    at = (scheduled.last_transition_time or "") if scheduled is not None and scheduled.status == "True" else ""
    return {"startedAt": format_seconds(engine.started.wall), "scheduledAt": at}


def _findings(engine: Engine, info: PodInfo) -> list[dict[str, Any]]:
    """The plugins' findings beyond their refusals. A plugin that raises is named with its error."""
    profile = engine.profiles.get(info.pod.spec.scheduler_name)
    findings: list[dict[str, Any]] = []
    for plugin in profile.plugins if profile is not None else ():
        try:
            found = plugin.findings(info, engine.cache.view)
        except Exception as error:  # noqa: BLE001 - a page goes on without what one plugin would have added
            findings.append(
                {"plugin": plugin.name, "count": 0, "nodes": [], "lines": [f"no details: {type_and_message(error)}"]}
            )
            continue
        findings += [
            {"plugin": plugin.name, "count": one.count, "nodes": list(one.nodes), "lines": list(one.lines)}
            for one in found
        ]
    return findings


def waiting_page(engine: Engine, record: QueuedPod, place: Place, wishes: Wishes) -> dict[str, Any]:
    """Where the queue keeps a pod, why, which events would wake it, and when it is tried without one."""
    clock = engine.queue.clock
    page: dict[str, Any] = {
        "pod": record.key,
        "uid": record.uid,
        "profile": record.profile,
        "priority": record.info.priority,
        "place": place.value,
        "since": format_seconds(clock.wall(record.timestamp)),
        "pendingSince": format_seconds(clock.wall(record.pending_since)),
        "attempts": record.attempts,
        "rejections": record.unschedulable_count,
        "errorsInARow": record.error_count,
        "rejectedBy": sorted(record.unschedulable_plugins),
        "pendingOn": sorted(record.pending_plugins),
        "gatedBy": record.gating_plugin,
        "gatingReasons": list(record.gating_reasons),
        "wasFlushed": record.was_flushed,
        "workload": workload_of(record.info.pod, engine.cache.objects),
        "message": last_message(engine, record),
    }
    if place in (Place.BACKOFF, Place.ERROR_BACKOFF) and record.backoff_expiration is not None:
        page["backsOffUntil"] = format_seconds(clock.wall(record.backoff_expiration))
    next_try = engine.queue.next_try(record, place)
    if next_try is not None:
        page["nextTry"] = format_seconds(next_try)
    if place is Place.IN_FLIGHT and (binding := engine.bindings.get(record.uid)) is not None:
        page["binding"] = binding.state.value
        page["node"] = binding.pod.node_name
    if place in (Place.UNSCHEDULABLE, Place.GATED):
        plugins = (record.gating_plugin,) if record.is_gated else sorted(record.rejectors)
        page["wokenBy"] = [
            {"plugin": plugin, "events": events}
            for plugin in plugins
            if (events := _events_wanted(engine, record.profile, plugin, wishes))
        ]
    return page


def _waiting_as(engine: Engine, key: str) -> Iterator[tuple[QueuedPod, Place]]:
    """The queued pods of one name: several if a pod was recreated while its predecessor is being tried."""
    waiting = engine.queue.find(key)
    for record in (*((waiting,) if waiting is not None else ()), *engine.queue.in_flight.named(key)):
        yield record, engine.queue.place_of(record)
    yield from ((record, place) for record, place in being_bound(engine) if record.key == key)


def being_bound(engine: Engine) -> Iterator[tuple[QueuedPod, Place]]:
    """Pods in a binding cycle: for the queue their attempt is over, but it may still fail."""
    for binding in engine.bindings.under_way:
        if not engine.queue.is_in_flight(binding.queued.uid):
            yield binding.queued, Place.IN_FLIGHT


def _events_wanted(engine: Engine, profile: str, plugin: str, wishes: Wishes) -> list[str]:
    """The events a plugin registered for, such as ``Node: Add, UpdateNodeAllocatable``. Cached in ``wishes``."""
    known = wishes.get((profile, plugin))
    if known is None:
        plugins = engine.profiles[profile].plugins if profile in engine.profiles else ()
        registered = registrations_of(plugins, has_extenders=plugin == EXTENDER).get(plugin, ())
        known = [f"{one.event.resource.value}: {_actions(one.event.action)}" for one in registered]
        wishes[profile, plugin] = known
    return known


def _actions(action: Action) -> str:
    if action == Action.ALL:
        return "any change"
    names = ["Update"] if action & Action.UPDATE == Action.UPDATE else []
    bits = action & ~Action.UPDATE if names else action
    words = [bit.name.title().replace("_", "") for bit in bits if bit.name]
    return ", ".join(words + names)
