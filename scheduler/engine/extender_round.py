"""Extenders in a scheduling cycle: called by commands, so that a waiting cycle does not block the engine."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.engine.attempt import Attempt, ExtenderFault
from scheduler.engine.feasible import Feasible
from scheduler.engine.tickets import CycleTicket, GroupTicket, Tickets
from scheduler.extenders.answers import ExtenderError
from scheduler.extenders.documents import Documents
from scheduler.extenders.extender import Extender
from scheduler.messages.commands import CallExtender
from scheduler.messages.status import unresolvable, unschedulable
from scheduler.messages.stimuli import ExtenderAnswered
from scheduler.objects.kinds import Kind

EXTENDER_REJECTOR = "Extender"
"""The plugin name under which extenders that removed nodes count as having rejected the pod."""

Answers = tuple[ExtenderAnswered, ...]
Calls = tuple[CallExtender, ...]
"""Calls to be made concurrently; the answers are sent back in the order of the calls."""


class ExtenderRound:
    """The extenders interested in one pod."""

    def __init__(
        self,
        extenders: Sequence[Extender],
        pod: PodInfo,
        attempt: Attempt,
        tickets: Tickets,
        documents: Documents,
        asks_for: CycleTicket | GroupTicket,
    ) -> None:
        self.filters: Sequence[Extender] = ()
        self.scorers: Sequence[Extender] = ()
        self.preempters: Sequence[Extender] = ()
        if extenders:
            interested = [extender for extender in extenders if extender.is_interested(pod.pod)]
            self.filters = [extender for extender in interested if extender.has_filter]
            self.scorers = [extender for extender in interested if extender.has_prioritize]
            self.preempters = [extender for extender in interested if extender.has_preempt]
        self._pod = pod
        self._attempt = attempt
        self._tickets = tickets
        self._asks_for = asks_for
        self.documents = documents
        self._raw_pod: msgspec.Raw | None = None
        self._raw_nodes: dict[str, msgspec.Raw] = {}

    @property
    def is_needed(self) -> bool:
        """Whether an extender's answer is needed to know if the pod fits anywhere."""
        return bool(self.filters or self.scorers)

    def filter(self, view: View, feasible: Feasible) -> Generator[Calls, Answers, str | None]:
        """Filter the rows, one extender after the other. Returns the error if it ends the attempt."""
        table = view.table
        for extender in self.filters:
            rows = feasible.rows.tolist()
            if not rows:
                return None
            names = [table.names[row] for row in rows]
            try:
                call = self._nodes_call(extender, extender.configuration.filter_verb, view, names)
                (answered,) = yield (call,)
                answer = extender.read_filter(body_of(answered), names)
            except ExtenderError as error:
                self.note(extender, "filter", error, is_skipped=extender.is_ignorable)
                if extender.is_ignorable:
                    continue
                return str(error)
            row_of = dict(zip(names, rows, strict=True))
            for name, text in answer.failed.items():
                feasible.refusals[row_of[name]] = unschedulable(text).by(EXTENDER_REJECTOR)
            for name, text in answer.unresolvable.items():
                feasible.refusals[row_of[name]] = unresolvable(text).by(EXTENDER_REJECTOR)
            passed = set(answer.passed)
            left = [row for name, row in row_of.items() if name in passed]
            if len(left) < len(rows):
                feasible.rejectors = feasible.rejectors | {EXTENDER_REJECTOR}
                feasible.is_whole_class = False
                for name in row_of.keys() - passed - answer.failed.keys() - answer.unresolvable.keys():
                    # Dropped without a reason: what an extender before it has said of the node holds, else it counts as
                    # not examined, so preemption skips it too.
                    feasible.refusals.setdefault(row_of[name], unresolvable().by(EXTENDER_REJECTOR))
            feasible.rows = np.array(left, dtype=np.int64)
        return None

    def score(self, view: View, rows: npt.NDArray[np.int64]) -> Generator[Calls, Answers, npt.NDArray[np.int64]]:
        """The extenders' scores to add to the totals of ``rows``, int64; asked concurrently. A failing one adds
        nothing."""
        names = [view.table.names[row] for row in rows.tolist()]
        place = {name: index for index, name in enumerate(names)}
        added = np.zeros(len(rows), np.int64)
        answers = yield tuple(
            self._nodes_call(extender, extender.configuration.prioritize_verb, view, names) for extender in self.scorers
        )
        for extender, answered in zip(self.scorers, answers, strict=True):
            try:
                scores = extender.read_scores(body_of(answered))
            except ExtenderError as error:
                self.note(extender, "prioritize", error, is_skipped=True)
                continue
            for name, score in scores.items():
                if name in place:
                    added[place[name]] += score
        return added

    def note(self, extender: Extender, verb: str, error: ExtenderError, *, is_skipped: bool) -> None:
        """Record a failed call in the attempt, with which it is counted and logged."""
        self._attempt.extender_faults += (ExtenderFault(extender.name, verb, str(error), is_skipped),)

    def call(self, extender: Extender, verb: str, body: bytes) -> CallExtender:
        return CallExtender(
            ticket=self._tickets.issue(self._asks_for),
            extender=extender.number,
            verb=verb,
            url=extender.url(verb),
            body=body,
            timeout_seconds=extender.timeout_seconds,
        )

    @property
    def raw_pod(self) -> msgspec.Raw:
        if self._raw_pod is None:
            self._raw_pod = self.documents.of(Kind.POD, self._pod.pod)
        return self._raw_pod

    def _nodes_call(self, extender: Extender, verb: str, view: View, names: Sequence[str]) -> CallExtender:
        """A call about these nodes; whole nodes are encoded once a round for all extenders."""
        nodes = self._raw_nodes
        if not extender.configuration.node_cache_capable:
            table = view.table
            for name in names:
                row = table.existing_row(name)
                node = table.nodes[row] if row is not None else None
                if node is not None and name not in nodes:
                    nodes[name] = self.documents.of(Kind.NODE, node)
        return self.call(extender, verb, extender.nodes_body(self.raw_pod, names, nodes))


def body_of(answered: ExtenderAnswered) -> bytes:
    """The body of the answer. Raises ExtenderError if there was none."""
    if answered.error:
        raise ExtenderError(answered.error)
    return answered.body
