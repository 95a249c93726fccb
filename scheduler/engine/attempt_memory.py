"""The last attempt of each pod, for ``why``: bounded in number and in bytes.

An attempt that found no node holds an entry for every node, and preemption's evidence holds the pods that it looked at:
60 KB at 5,000 nodes, so that ten thousand such attempts would fill 600 MB. Only the newest are kept whole. The others
keep the counts and the names of the first nodes and candidates, which is all that is shown.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from scheduler.engine.attempt import Attempt
from scheduler.framework.diagnosis import Diagnosis
from scheduler.preemption.dry_run import Candidate
from scheduler.preemption.evaluation import PreemptionEvidence
from scheduler.preemption.summary import (
    CandidateSummary,
    PreemptionSummary,
    RefusedNodes,
    summary_of,
    summary_of_candidate,
)

MAX_NAMES: Final = 50
"""Nodes listed by name for one refusal."""

MAX_CANDIDATES: Final = 10
"""Candidates kept with their victims in an attempt that is not among the newest."""

_WHOLE: Final = 64
_PLAIN_BYTES: Final = 2500
"""Approximate size in bytes of an attempt that found a node."""
_MAX_BYTES: Final = 32 * 2**20
_MAX_REDUCED: Final = 32
"""Evidence whose reduced form is cached, for the templates whose pods fail in turn. Each may hold an entry for every
node."""
_MAX_KNOWN_CANDIDATES: Final = 1024


class _Refused(Struct, frozen=True):
    """The reduced form of a diagnosis. ``diagnosis`` itself is kept so that its codes, which attempts that failed alike
    share, stay alive: they are found by their identity."""

    diagnosis: Diagnosis
    total_nodes: int
    nodes: tuple[RefusedNodes, ...]
    nbytes: int


class _Summary(Struct, frozen=True):
    """The reduced form of the evidence of a preemption, which is kept alive with it: it is found by its identity."""

    evidence: PreemptionEvidence
    summary: PreemptionSummary
    nbytes: int


class AttemptMemory:
    """The last attempt of each pod. ``remember`` each at the end of its cycle; ``names`` are the node table's row
    names.

    At most ``max_attempts`` pods are known, and fewer where their attempts take more than ``max_bytes`` together: those
    whose first attempt is the longest ago go first.
    """

    def __init__(self, max_attempts: int, names: Callable[[], Sequence[str]], max_bytes: int = _MAX_BYTES) -> None:
        self._max_attempts = max_attempts
        self._max_bytes = max_bytes
        self._names = names
        self._attempts: OrderedDict[str, Attempt] = OrderedDict()
        self._whole: deque[Attempt] = deque()
        self._bytes_of: dict[str, int] = {}
        """Key of each pod whose attempt was reduced → its size in bytes."""
        self.bytes = 0
        self._refused: dict[int, _Refused] = {}
        """By the identity of a diagnosis's codes."""
        self._summaries: dict[int, _Summary] = {}
        """By the identity of the evidence of a preemption in vain; a preemptor's is its own."""
        self._candidates: dict[int, tuple[Candidate, CandidateSummary]] = {}
        """By the identity of a candidate, which lives as long: preemptors that are alike share most of them."""

    def __len__(self) -> int:
        return len(self._attempts)

    def of(self, key: str) -> Attempt | None:
        """The last attempt at the pod ``key`` (``namespace/name``); None if none is remembered."""
        return self._attempts.get(key)

    def remember(self, attempt: Attempt) -> None:
        """Replace the pod's last attempt. The outcome may still be filled in later."""
        if not self._max_attempts:
            return
        self.bytes -= self._bytes_of.pop(attempt.pod, 0)
        self._attempts[attempt.pod] = attempt
        if attempt.diagnosis is None and attempt.preemption is None and not attempt.scores:
            self._bytes_of[attempt.pod] = _PLAIN_BYTES
            self.bytes += _PLAIN_BYTES
        else:
            self._whole.append(attempt)
            if len(self._whole) > _WHOLE:
                self._cut_down(self._whole.popleft())
        if len(self._attempts) > self._max_attempts or self.bytes > self._max_bytes:
            self._evict()

    def _cut_down(self, attempt: Attempt) -> None:
        if self._attempts.get(attempt.pod) is not attempt:
            return
        size = _own_bytes(attempt)
        if attempt.diagnosis is not None:
            refused = self._refused_in(attempt.diagnosis, attempt.total_nodes)
            attempt.refused, attempt.diagnosis = refused.nodes, None
            size += refused.nbytes
        if isinstance(attempt.preemption, PreemptionEvidence):
            found = self._summary_of(attempt.preemption)
            attempt.preemption = found.summary
            size += found.nbytes
        self._bytes_of[attempt.pod] = size
        self.bytes += size

    def _refused_in(self, diagnosis: Diagnosis, total_nodes: int) -> _Refused:
        key = id(diagnosis.codes)
        known = self._refused.get(key)
        if known is not None and known.total_nodes == total_nodes:
            return known
        nodes = refused_nodes(diagnosis, self._names(), total_nodes)
        nbytes = sum([150 + 8 * len(entry.names) for entry in nodes])
        if len(self._refused) >= _MAX_REDUCED:
            self._refused.clear()
        made = self._refused[key] = _Refused(diagnosis, total_nodes, nodes, nbytes)
        return made

    def _summary_of(self, evidence: PreemptionEvidence) -> _Summary:
        known = self._summaries.get(id(evidence))
        if known is not None:
            return known
        summary = summary_of(evidence, MAX_CANDIDATES, MAX_NAMES, self._summary_of_candidate)
        made = _Summary(evidence, summary, _bytes_of(summary))
        if not evidence.candidates:
            if len(self._summaries) >= _MAX_REDUCED:
                self._summaries.clear()
            self._summaries[id(evidence)] = made
        return made

    def _summary_of_candidate(self, candidate: Candidate) -> CandidateSummary:
        known = self._candidates.get(id(candidate))
        if known is not None:
            return known[1]
        if len(self._candidates) >= _MAX_KNOWN_CANDIDATES:
            self._candidates.clear()
        summary = summary_of_candidate(candidate)
        self._candidates[id(candidate)] = candidate, summary
        return summary

    def _evict(self) -> None:
        while self._attempts and (len(self._attempts) > self._max_attempts or self.bytes > self._max_bytes):
            key, _ = self._attempts.popitem(last=False)
            self.bytes -= self._bytes_of.pop(key, 0)


def refused_nodes(diagnosis: Diagnosis, names: Sequence[str], total_nodes: int) -> tuple[RefusedNodes, ...]:
    """Each refusal with its nodes, most frequent first; nodes removed since are only counted."""
    if diagnosis.pre_filter is not None:
        return (RefusedNodes(diagnosis.pre_filter, total_nodes),)
    counts = np.bincount(diagnosis.codes, minlength=len(diagnosis.refusals) + 1).tolist()
    entries: list[RefusedNodes] = []
    for number, refusal in enumerate(diagnosis.refusals, start=1):
        if counts[number]:
            rows = np.flatnonzero(diagnosis.codes == number)[:MAX_NAMES].tolist()
            entries.append(RefusedNodes(refusal, counts[number], tuple([name for row in rows if (name := names[row])])))
    others = total_nodes - diagnosis.explicit_count
    if others > 0 and diagnosis.absent.reasons:
        entries.append(RefusedNodes(diagnosis.absent, others))
    return tuple(sorted(entries, key=lambda entry: -entry.count))


def _own_bytes(attempt: Attempt) -> int:
    """The approximate size in bytes of an attempt beside its evidence."""
    size = 1200 + len(attempt.message) + 100 * len(attempt.total)
    if attempt.shares:
        size += 80 * len(attempt.shares)
    return size + sum([200 + 80 * len(scores) for scores in attempt.scores.values()]) if attempt.scores else size


def _bytes_of(found: PreemptionSummary) -> int:
    """The approximate size in bytes of reduced evidence. It counts for each attempt that shares it."""
    size = 300 + len(found.message) + sum([150 + 8 * len(entry.names) for entry in found.refusals])
    size += sum(map(len, found.faults)) + 150 * len(found.victims)
    return size + sum([150 + 150 * len(one.victims) for one in found.candidates])
