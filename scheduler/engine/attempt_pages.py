"""The pages of one attempt, as values ready for JSON: how it ended, a preview of the next one, its preemption.."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt import Attempt
from scheduler.engine.attempt_memory import MAX_NAMES, refused_nodes
from scheduler.engine.cycle_context import Depth
from scheduler.engine.engine import Engine
from scheduler.engine.outcome import Placed
from scheduler.engine.searching import takes_long
from scheduler.engine.why_not import MAX_NAMES as MAX_NAMED
from scheduler.engine.why_not import reasons_page, refusal_pages, why_not_beside, why_not_in_steps
from scheduler.framework.node_filter import rivals
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.status import Refusal
from scheduler.objects.steps import Steps, run_to_end
from scheduler.objects.timestamps import format_seconds
from scheduler.preemption.evaluation import PreemptionEvidence
from scheduler.preemption.summary import PreemptionSummary, RefusedNodes, VictimSummary, summary_of

MAX_LISTED = 50
"""Candidates listed one by one; the count beside them is complete."""


MAX_NODES = 500
"""Nodes of a preview listed one by one."""


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


def preview_page_in_slices(engine: Engine, info: PodInfo, now: Now, node: str = "") -> Steps[dict[str, Any]]:
    """The result that a pod would get if it were tried now, node by node; changes nothing. ``node``: one node that is
    explained in full. With pauses for a large pod, whose page shows the cluster as it was at the beginning."""
    if not takes_long(info, engine.cache.volumes):
        return run_to_end(_preview_in_slices(engine, engine.cache, info, now, node))
    return (yield from _preview_in_slices(engine, engine.cache.fork(), info, now, node))


def _preview_in_slices(
    engine: Engine, cache: ClusterCache, info: PodInfo, now: Now, node: str
) -> Steps[dict[str, Any]]:
    pod, view, profile = info.pod, cache.view, engine.profiles[info.pod.spec.scheduler_name]
    fork = cache if cache is not engine.cache else None
    attempt, outcome = yield from engine.preview_in_steps(pod, now, Depth.EXPLAIN, fork)
    page: dict[str, Any] = {"fits": isinstance(outcome, Placed), "nodes": attempt.total_nodes}
    answer = yield from why_not_in_steps(profile, info, view, view.ordered_rows)
    page["refusals"] = refusal_pages(answer, view.table.names)
    if node:
        page["asked"] = yield from _asked(profile, cache, info, attempt, node)
    diagnosis = attempt.diagnosis
    if not isinstance(outcome, Placed):
        page["message"] = outcome.message
    if diagnosis is None:
        return page
    if diagnosis.pre_filter is not None:
        page["refusal"] = _refusal(diagnosis.pre_filter)
        return page
    table = cache.table
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


def _asked(profile: Profile, cache: ClusterCache, info: PodInfo, attempt: Attempt, node: str) -> Steps[dict[str, Any]]:
    """What every plugin says of one node, beside the pods that are nominated to it."""
    view = cache.view
    page: dict[str, Any] = {"node": node}
    row = view.table.existing_row(node)
    if row is None:
        return page | {"unknown": True}
    if node in attempt.total:
        page |= {"total": attempt.total[node], "scores": _scores_of(attempt, node)}
    answer = yield from why_not_in_steps(profile, info, view, np.array([row]))
    page["refusals"] = refusal_pages(answer, view.table.names)
    if not page["refusals"] and (others := rivals(info, cache.nominator.pods_for_node(node))):
        answer.refusals = why_not_beside(profile, info, view, row, others)
        page["refusals"] = refusal_pages(answer, [node])
        page["beside"] = [other.key for other in others[:MAX_NAMED]]
    return page


def preemption_page(evidence: PreemptionEvidence | PreemptionSummary) -> dict[str, Any]:
    """Whether preemption was allowed, its candidates, its victims, and the criterion that decided."""
    if isinstance(evidence, PreemptionEvidence):
        evidence = summary_of(evidence, MAX_LISTED, MAX_NAMES)
    page: dict[str, Any] = {
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
    if evidence.faults:
        page["faults"] = list(evidence.faults)
    return page


def _refused_nodes(entry: RefusedNodes) -> dict[str, Any]:
    return {**_refusal(entry.refusal), "count": entry.count, "nodes": list(entry.names)}


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {"plugin": refusal.plugin, "status": refusal.code.value, "reasons": reasons_page(refusal)}


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
