"""Summaries of preemptions for the memory of attempts: names and texts in place of objects.

The evidence of an attempt refers to the pods themselves, also to those that are gone since, and to every node that was
tried. A summary refers to neither, so thousands of them can be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.messages.status import Refusal
from scheduler.preemption.dry_run import Candidate
from scheduler.preemption.evaluation import PreemptionEvidence


class RefusedNodes(Struct, frozen=True, gc=False):
    """Nodes with one and the same refusal: how many, and the names of the first of them."""

    refusal: Refusal
    count: int
    names: tuple[str, ...] = ()


class VictimSummary(Struct, frozen=True, gc=False):
    key: str
    """namespace/name"""
    priority: int


class CandidateSummary(Struct, frozen=True, gc=False):
    node_name: str
    victims: tuple[VictimSummary, ...]
    """Most important first."""
    pdb_violations: int


class PreemptionSummary(Struct, frozen=True, gc=False):
    """``PreemptionEvidence`` without its objects; ``candidates`` are the first of ``candidate_count``, and the node
    that was chosen is always among them."""

    eligible: bool
    message: str
    nominated_node: str
    criterion: str
    """What decided, "" where nothing was chosen."""
    victims: tuple[VictimSummary, ...]
    candidate_count: int
    candidates: tuple[CandidateSummary, ...]
    refusals: tuple[RefusedNodes, ...]
    faults: tuple[str, ...] = ()


def summary_of_candidate(candidate: Candidate) -> CandidateSummary:
    return CandidateSummary(candidate.node_name, _victims(candidate.victims), candidate.pdb_violations)


def summary_of(
    evidence: PreemptionEvidence,
    max_candidates: int,
    max_names: int,
    summary_of_candidate: Callable[[Candidate], CandidateSummary] = summary_of_candidate,
) -> PreemptionSummary:
    """The number of candidates kept, and of node names for each refusal."""
    kept = list(evidence.candidates[:max_candidates])
    nominated = evidence.nominated_node
    if kept and all(one.node_name != nominated for one in kept):
        chosen = [one for one in evidence.candidates[max_candidates:] if one.node_name == nominated]
        kept[-1:] = chosen[:1] or kept[-1:]
    return PreemptionSummary(
        eligible=evidence.eligible,
        message=evidence.message,
        nominated_node=nominated,
        criterion=evidence.criterion.value if evidence.criterion is not None else "",
        victims=_victims(evidence.victims),
        candidate_count=len(evidence.candidates),
        candidates=tuple(map(summary_of_candidate, kept)),
        refusals=tuple([RefusedNodes(one, len(names), names[:max_names]) for one, names in evidence.refusals]),
        faults=evidence.faults,
    )


def _victims(infos: Iterable[PodInfo]) -> tuple[VictimSummary, ...]:
    return tuple([VictimSummary(info.key, info.priority) for info in infos])
