"""Explanations as plain values, ready for JSON: attempts, the queue and single pods.

Nothing is decided here. A pending pod's present chances come from the engine's preview, which runs the same cycle.
Names are camel case, times RFC 3339.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.alternatives import alternatives_page
from scheduler.engine.attempt import Attempt
from scheduler.engine.attempt_memory import MAX_CANDIDATES, MAX_NAMES, refused_nodes
from scheduler.engine.cycle_context import Depth
from scheduler.engine.engine import Engine
from scheduler.engine.explain_groups import group_summary, waiting_groups
from scheduler.engine.outcome import Placed
from scheduler.engine.why_not import MAX_NAMES as MAX_NAMED
from scheduler.engine.why_not import refusal_pages, why_not, why_not_beside
from scheduler.engine.workloads import last_message, workload_of
from scheduler.framework.events import Action
from scheduler.framework.node_filter import rivals
from scheduler.messages.now import Now
from scheduler.messages.page_limits import MAX_WAITING_LISTED
from scheduler.messages.status import Refusal
from scheduler.objects.pod import Pod
from scheduler.objects.timestamps import format_seconds
from scheduler.preemption.evaluation import PreemptionEvidence
from scheduler.preemption.summary import PreemptionSummary, RefusedNodes, VictimSummary, summary_of
from scheduler.queue.hints import EXTENDER, registrations_of
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.story import Place

Wishes = dict[tuple[str, str], list[str]]
"""(profile, plugin) → the events it registered for, as text; filled while a page is made."""

MAX_LISTED = 50
"""Candidates listed one by one; the count beside them is complete."""
_SLICE_SEARCHED, _SLICE_TOLD = 1_000, 32
"""Pods examined, and pods described, in about a millisecond."""
MAX_NODES = 500
"""Nodes of a preview listed one by one."""


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
        summary = summary_of(attempt.preemption, MAX_CANDIDATES, most_names=0)
        self._attempts[attempt.uid] = msgspec.structs.replace(attempt, diagnosis=None, preemption=summary)
        if len(self._attempts) > self._limit:
            del self._attempts[next(iter(self._attempts))]

    def of(self, uid: str) -> Attempt | None:
        return self._attempts.get(uid)


def pod_page(
    engine: Engine, key: str, now: Now, memory: PreemptionMemory | None = None, node: str = ""
) -> dict[str, Any] | None:
    """Everything known about one pod (``namespace/name``): its last attempt, the preemption that made room for it, its
    place in the queue and, while it is pending, a preview; once it has a node, the other nodes that it could have.
    ``node``: one node that is explained in full. None for a pod that is neither in the cluster nor remembered."""
    info = engine.known_pods.get(key)
    attempt = engine.attempt_of(key)
    if info is None and attempt is None:
        return None
    if info is not None and attempt is not None and attempt.uid != info.uid:
        attempt = None  # of a pod of the same name that is gone
    page: dict[str, Any] = {"pod": key, "node": "", "nominatedNode": ""}
    if info is not None:
        page |= {
            "uid": info.uid,
            "schedulerName": info.pod.spec.scheduler_name,
            "node": info.pod.node_name,
            "nominatedNode": info.pod.nominated_node_name,
            "isOurs": info.pod.spec.scheduler_name in engine.profiles,
        }
    if info is not None and (group := engine.cache.groups.key_of(info)):
        page["group"] = group_summary(engine, group)
    if info is not None and (findings := _findings(engine, info)):
        page["findings"] = findings
    if attempt is not None:
        page["attempt"] = attempt_page(engine, attempt)
        made_room = memory.of(attempt.uid) if memory is not None else None
        if made_room is not None:
            page["madeRoom"] = {
                "number": made_room.number,
                "at": format_seconds(made_room.started_wall),
                **preemption_page(made_room.preemption),
            }
    for record, place in _waiting_as(engine, key):
        page["queue"] = waiting_page(engine, record, place, {})
        if engine.bindings.get(record.uid) is None:
            page["preview"] = preview_page(engine, record.info, now, node) | {"isOfGroup": bool(record.group)}
    if info is not None and page["isOurs"]:
        page["weights"] = {
            plugin.name: weight for plugin, weight in engine.profiles[page["schedulerName"]].score_plugins
        }
        if info.pod.node_name and not info.pod.is_finished:
            if attempt is None:
                page["decidedEarlier"] = _decided_earlier(engine, info.pod)
            page["alternatives"] = alternatives_page(engine, info, now, node)
    return page


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
            findings.append({"plugin": plugin.name, "count": 0, "nodes": [], "lines": [f"no details: {error!r}"]})
            continue
        findings += [
            {"plugin": plugin.name, "count": one.count, "nodes": list(one.nodes), "lines": list(one.lines)}
            for one in found
        ]
    return findings


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which pending pods are asked for; "" stands for all."""

    namespace: str = ""
    profile: str = ""
    plugin: str = ""
    """A plugin that rejected the pod, or holds it back."""

    @property
    def is_everything(self) -> bool:
        return not (self.namespace or self.profile or self.plugin)

    def includes(self, record: QueuedPod) -> bool:
        if self.namespace and record.info.namespace != self.namespace:
            return False
        if self.profile and record.profile != self.profile:
            return False
        return not self.plugin or self.plugin == record.gating_plugin or self.plugin in record.rejectors


EVERY_POD = Wanted()


def queue_page(engine: Engine, limit: int = MAX_WAITING_LISTED, wanted: Wanted = EVERY_POD) -> dict[str, Any]:
    """The first ``limit`` pending pods in the queue's order, the number of pods in each part of the queue, and the
    groups with pods that wait."""
    pods: list[dict[str, Any]] = []
    slices = queue_page_in_slices(engine, limit, wanted)
    while True:
        try:
            pods += next(slices)
        except StopIteration as end:
            return {"counts": end.value, "groups": waiting_groups(engine), "pods": pods}


def queue_page_in_slices(
    engine: Engine, limit: int = MAX_WAITING_LISTED, wanted: Wanted = EVERY_POD
) -> Generator[list[dict[str, Any]], None, dict[str, int]]:
    """``queue_page`` in pieces of about a millisecond: yields the pods' pages, returns the counts.

    The engine may run between two slices: pods that have moved by then are missing. The counts are of the whole queue,
    whichever pods are ``wanted``.
    """
    within = limit if wanted.is_everything else sum(engine.queue.pending_counts().values())
    searching = engine.queue.first_waiting(within, _SLICE_SEARCHED)
    while True:
        try:
            next(searching)
        except StopIteration as end:
            waiting: tuple[QueuedPod, ...] = end.value
            break
        yield []
    if not wanted.is_everything:
        chosen: list[QueuedPod] = []
        for start in range(0, len(waiting), _SLICE_SEARCHED):
            chosen += filter(wanted.includes, waiting[start : start + _SLICE_SEARCHED])
            yield []
        waiting = tuple(chosen[:limit])
    wishes: Wishes = {}
    for start in range(0, len(waiting), _SLICE_TOLD):
        still = [record for record in waiting[start : start + _SLICE_TOLD] if engine.queue.find(record.key) is record]
        yield [waiting_page(engine, record, engine.queue.story(record).place, wishes) for record in still]
    trying = [(record, Place.IN_FLIGHT) for record in engine.queue.in_flight.entries if isinstance(record, QueuedPod)]
    trying += _being_bound(engine)
    counts = {**engine.queue.pending_counts(), "in flight": len(trying)}
    listed = [one for one in trying if wanted.includes(one[0])][: max(limit - len(waiting), 0)]
    for start in range(0, len(listed), _SLICE_TOLD):
        yield [waiting_page(engine, *one, wishes) for one in listed[start : start + _SLICE_TOLD]]
    return counts


def attempt_page(engine: Engine, attempt: Attempt) -> dict[str, Any]:
    """One attempt. Nodes are named as of now: those removed since are only counted."""
    page: dict[str, Any] = {
        "number": attempt.number,
        "at": format_seconds(attempt.started_wall),
        "profile": attempt.scheduler_name,
        "result": attempt.result,
        "node": attempt.node,
        "message": attempt.message,
        "nodes": attempt.total_nodes,
        "evaluatedNodes": attempt.evaluated_nodes,
        "feasibleNodes": attempt.feasible_nodes,
        "queuedSeconds": attempt.queued_seconds,
        "microseconds": {point: round(seconds * 1e6) for point, seconds in attempt.durations.items()},
    }
    refused = attempt.refused
    if attempt.diagnosis is not None:
        refused = refused_nodes(attempt.diagnosis, engine.cache.table.names, attempt.total_nodes)
    if refused:
        page["refusals"] = [_refused_nodes(entry) for entry in refused]
    if attempt.total:
        page["scores"] = _scores(attempt, attempt.total)
    if attempt.extender_faults:
        page["extenderFaults"] = [
            {"extender": one.extender, "verb": one.verb, "message": one.message, "skipped": one.is_skipped}
            for one in attempt.extender_faults
        ]
    if attempt.nominated_node:
        page["nominatedNode"] = attempt.nominated_node
    if attempt.victims:
        page["victims"] = list(attempt.victims)
    if isinstance(attempt.preemption, PreemptionEvidence | PreemptionSummary):
        page["preemption"] = preemption_page(attempt.preemption)
    return page


def preview_page(engine: Engine, info: PodInfo, now: Now, node: str = "") -> dict[str, Any]:
    """The result that a pod would get if it were tried now, node by node; changes nothing. ``node``: one node that is
    explained in full."""
    pod = info.pod
    attempt, outcome = engine.preview(pod, now, Depth.EXPLAIN)
    page: dict[str, Any] = {"fits": isinstance(outcome, Placed), "nodes": attempt.total_nodes}
    view, profile = engine.cache.view, engine.profiles[pod.spec.scheduler_name]
    answer = why_not(profile, info, view, view.ordered_rows)
    page["refusals"] = refusal_pages(answer, view.table.names)
    if node:
        page["asked"] = _asked(engine, info, attempt, node)
    diagnosis = attempt.diagnosis
    if not isinstance(outcome, Placed):
        page["message"] = outcome.message
    if diagnosis is None:
        return page
    if diagnosis.pre_filter is not None:
        page["refusal"] = _refusal(diagnosis.pre_filter)
        return page
    table = engine.cache.table
    shown = table.order.rows[:MAX_NODES]
    refused_by = answer.plugins_by_row(shown)
    beside = np.setdiff1d(np.flatnonzero(diagnosis.codes), answer.refusing_rows()).tolist()
    if beside:
        page["besideNominated"] = {"count": len(beside), "nodes": [table.names[row] for row in beside[:MAX_NAMED]]}
    listed: list[dict[str, Any]] = []
    for row in shown.tolist():
        name = table.names[row]
        entry: dict[str, Any] = {"node": name}
        is_left_out = attempt.only_nodes is not None and name not in attempt.only_nodes
        if is_left_out or diagnosis.codes[row]:
            entry |= _refusal(diagnosis.at(row)) | {"refusedBy": refused_by.get(row, [])}
        elif name in attempt.total:
            entry |= {"total": attempt.total[name], "scores": _scores_of(attempt, name)}
        listed.append(entry)
    page["listed"] = listed
    return page


def _asked(engine: Engine, info: PodInfo, attempt: Attempt, node: str) -> dict[str, Any]:
    """What every plugin says of one node, beside the pods that are nominated to it."""
    view, profile = engine.cache.view, engine.profiles[info.pod.spec.scheduler_name]
    page: dict[str, Any] = {"node": node}
    row = view.table.existing_row(node)
    if row is None:
        return page | {"unknown": True}
    if node in attempt.total:
        page |= {"total": attempt.total[node], "scores": _scores_of(attempt, node)}
    answer = why_not(profile, info, view, np.array([row]))
    page["refusals"] = refusal_pages(answer, view.table.names)
    if not page["refusals"] and (others := rivals(info, engine.nominator.pods_for_node(node))):
        answer.refusals = why_not_beside(profile, info, view, row, others)
        page["refusals"] = refusal_pages(answer, [node])
        page["beside"] = [other.key for other in others[:MAX_NAMED]]
    return page


def preemption_page(evidence: PreemptionEvidence | PreemptionSummary) -> dict[str, Any]:
    """Whether preemption was allowed, its candidates, its victims, and the criterion that decided."""
    if isinstance(evidence, PreemptionEvidence):
        evidence = summary_of(evidence, MAX_LISTED, MAX_NAMES)
    return {
        "eligible": evidence.eligible,
        "message": evidence.message,
        "nominatedNode": evidence.nominated_node,
        "victims": [_victim(one) for one in evidence.victims],
        "criterion": evidence.criterion,
        "candidateCount": evidence.candidate_count,
        "candidates": [
            {
                "node": candidate.node_name,
                "victims": [_victim(one) for one in candidate.victims],
                "violatedBudgets": candidate.pdb_violations,
            }
            for candidate in evidence.candidates
        ],
        "refusals": [_refused_nodes(entry) for entry in evidence.refusals],
    }


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
        yield record, engine.queue.story(record).place
    yield from ((record, place) for record, place in _being_bound(engine) if record.key == key)


def _being_bound(engine: Engine) -> Iterator[tuple[QueuedPod, Place]]:
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


def _refused_nodes(entry: RefusedNodes) -> dict[str, Any]:
    return {**_refusal(entry.refusal), "count": entry.count, "nodes": list(entry.names)}


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {"plugin": refusal.plugin, "status": refusal.code.value, "reasons": list(refusal.reasons)}


def _scores(attempt: Attempt, nodes: Iterable[str]) -> list[dict[str, Any]]:
    """Scores by node, best node first."""
    best = sorted(nodes, key=lambda node: (node != attempt.node, -attempt.total[node], node))[:MAX_NAMES]
    return [{"node": node, "total": attempt.total[node], "scores": _scores_of(attempt, node)} for node in best]


def _scores_of(attempt: Attempt, node: str) -> dict[str, int]:
    if attempt.shares is not None:
        return dict(attempt.shares) if node in attempt.total else {}
    return {plugin: scores[node] for plugin, scores in attempt.scores.items() if node in scores}


def _victim(victim: VictimSummary) -> dict[str, Any]:
    return {"pod": victim.key, "priority": victim.priority}
