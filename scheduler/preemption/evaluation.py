"""One attempt at preemption: eligibility, candidates, their victims, and the choice of a node.

Source: docs/kube-scheduler/preemption.md §1-§6.

In two halves, so that extenders can be asked in between: ``begin`` tries the nodes, ``conclude`` chooses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct, field

from scheduler.cluster.pod_info import PodInfo
from scheduler.errors import failed_at
from scheduler.framework.diagnosis import Diagnosis, DiagnosisBuilder, fit_error_text
from scheduler.framework.post_filter import (
    CLEAR_NOMINATION,
    KEEP_NOMINATION,
    PostFilterAnswer,
    PostFilterContext,
    PutOff,
    Remove,
    Room,
    WaitForBudget,
    WaitForVictims,
    nominate,
)
from scheduler.framework.preemption_policy import UPSTREAM_POLICY, PreemptionPolicy
from scheduler.messages.status import Code, Refusal, failure, unresolvable, unschedulable
from scheduler.objects.steps import Steps, run_to_end
from scheduler.preemption.candidates import candidates_wanted, potential_rows, walk, without_excluded
from scheduler.preemption.dry_run import NO_VICTIMS, VIOLATES_BUDGET, Candidate, trial_of
from scheduler.preemption.eligibility import TOO_MANY, VICTIMS_STILL_DYING, why_not_eligible
from scheduler.preemption.pod_columns import PodColumns
from scheduler.preemption.ranking import Criterion, choose
from scheduler.preemption.refused_rows import RefusedRows
from scheduler.preemption.wavefront import Search

_PREFIX = "preemption: "
NOT_HELPFUL = unresolvable("Preemption is not helpful for scheduling")
NO_CANDIDATE_LEFT = "no candidate node for preemption"
_WORTH_ANOTHER_TRY: Mapping[str, Room] = {TOO_MANY: PutOff(), VICTIMS_STILL_DYING: WaitForVictims()}
"""Why a pod may not preempt now → what it waits for."""

_MAX_ANSWERS: Final = 64
"""Answers that are kept for pods that outrank no other."""


class Extent(Struct, frozen=True):
    """How many candidates end the search: ``percentage`` of the potential nodes, but at least ``absolute``."""

    percentage: int = 10
    absolute: int = 100


DEFAULT_EXTENT: Final = Extent()


class Candidates(Struct, frozen=True):
    """What the dry runs found."""

    found: tuple[Candidate, ...]
    """Those that violate no budget first, each group in the order in which they were tried."""
    refused: RefusedRows = field(default_factory=RefusedRows)
    """Why removing pods does not help on the other nodes that were tried or excluded."""
    faults: tuple[str, ...] = ()
    """Errors of dry runs of many nodes, whose nodes were then tried one by one."""


class PreemptionEvidence(Struct, frozen=True):
    """What the Attempt keeps of a preemption."""

    eligible: bool
    message: str = ""
    """The text that preemption adds to the fit error; "" if it chose a node."""
    candidates: tuple[Candidate, ...] = ()
    refusals: tuple[tuple[Refusal, tuple[str, ...]], ...] = ()
    """The refusals of the other nodes that were tried, each with the names of its nodes."""
    equals: tuple[Candidate, ...] = ()
    """The candidates that no criterion tells apart, the chosen one first."""
    criterion: Criterion | None = None
    """The criterion that decided."""
    nominated_node: str = ""
    victims: tuple[PodInfo, ...] = ()
    """The victims on the nominated node, most important first; those that terminate already are among them."""
    faults: tuple[str, ...] = ()
    """See ``Candidates``: they cost time, but change no answer."""

    @property
    def best(self) -> tuple[str, ...]:
        """Names of the nodes that no criterion tells apart, the nominated one first."""
        return tuple([candidate.node_name for candidate in self.equals])

    @property
    def is_only_waiting(self) -> bool:
        """All victims terminate already: no pod is removed."""
        return bool(self.victims) and all(info.is_terminating for info in self.victims)

    @property
    def node_statuses(self) -> dict[str, Refusal]:
        """Node → why removing pods does not help there."""
        return {name: refusal for refusal, names in self.refusals for name in names}


def evaluate(
    context: PostFilterContext,
    extent: Extent = DEFAULT_EXTENT,
    policy: PreemptionPolicy = UPSTREAM_POLICY,
    columns: PodColumns | None = None,
) -> PostFilterAnswer:
    """The answer of one attempt at preemption. Success nominates a node, with the victims in the evidence; nothing has
    been removed yet. ``columns``: what attempts keep for each other; without, each node is tried by itself."""
    begun = run_to_end(begin_in_steps(context, extent, policy, columns))
    return begun if isinstance(begun, PostFilterAnswer) else conclude(context, begun, policy)


def begin_in_steps(
    context: PostFilterContext, extent: Extent, policy: PreemptionPolicy, columns: PodColumns | None = None
) -> Steps[PostFilterAnswer | Candidates]:
    """The candidates, at least one, or the answer that ends the attempt. Pauses where many nodes or pods are looked
    at."""
    answer = _not_eligible(context, policy) or _in_vain(context, policy)
    if answer is not None:
        return answer
    candidates = yield from _dry_runs(context, extent, policy, columns)
    return candidates if candidates.found else _nothing_found(context, candidates)


def _not_eligible(context: PostFilterContext, policy: PreemptionPolicy) -> PostFilterAnswer | None:
    reason = why_not_eligible(context, policy)
    if not reason:
        return None
    message = _PREFIX + reason
    evidence = PreemptionEvidence(eligible=False, message=message)
    return PostFilterAnswer(unschedulable(message), KEEP_NOMINATION, _WORTH_ANOTHER_TRY.get(reason), evidence)


class _VainAnswers:
    """The answers to pods that outrank no placed pod, shared by those that fail alike, whose diagnosis has the same
    codes."""

    __slots__ = ("_answers",)

    def __init__(self) -> None:
        self._answers: dict[int, tuple[Diagnosis, int, PostFilterAnswer]] = {}
        """By the identity of the codes, which are kept alive with their entry; and the number of nodes."""

    def of(self, context: PostFilterContext, policy: PreemptionPolicy) -> PostFilterAnswer:
        diagnosis, nodes = context.diagnosis, context.view.total_nodes
        known = self._answers.get(id(diagnosis.codes))
        if known is not None and known[1] == nodes:
            return known[2]
        answer = _nothing_found(context, dry_run_all(context, DEFAULT_EXTENT, policy))
        if len(self._answers) >= _MAX_ANSWERS:
            self._answers.clear()
        self._answers[id(diagnosis.codes)] = diagnosis, nodes, answer
        return answer


def _in_vain(context: PostFilterContext, policy: PreemptionPolicy) -> PostFilterAnswer | None:
    """The answer to a pod for which no pod may be removed, on any node; None for another."""
    if policy.excluded_nodes or _outranks_any(context):
        return None
    return context.kept.of(_VainAnswers).of(context, policy)


def dry_run_all(
    context: PostFilterContext, extent: Extent, policy: PreemptionPolicy, columns: PodColumns | None = None
) -> Candidates:
    """Try the nodes in turn from a random one on, until there are candidates enough."""
    return run_to_end(_dry_runs(context, extent, policy, columns))


def _dry_runs(
    context: PostFilterContext, extent: Extent, policy: PreemptionPolicy, columns: PodColumns | None
) -> Steps[Candidates]:
    """``dry_run_all``, with pauses."""
    refused = RefusedRows()
    rows, excluded = without_excluded(context, policy, potential_rows(context))
    for row, refusal in excluded.items():
        refused.add(refusal, (row,))
    if not len(rows):
        return Candidates((), refused)
    wanted = candidates_wanted(len(rows), extent.percentage, extent.absolute)
    if not _outranks_any(context):
        # A dry run would find the same on each node.
        refused.add(NO_VICTIMS, rows.tolist())
        return Candidates((), refused)
    rows = walk(rows, context.rng)
    trial = trial_of(context, policy)
    search = Search(wanted, refused)
    yield from search.in_waves(trial, rows, columns)
    return Candidates((*search.harmless, *search.violating), refused, tuple(search.faults))


def _outranks_any(context: PostFilterContext) -> bool:
    """Whether a placed pod may be less important than the preemptor; True where nothing counts them."""
    priorities = context.view.table.priorities
    if priorities is None:
        return True
    lowest = priorities.lowest
    return lowest is not None and lowest < context.pod.priority


def conclude(context: PostFilterContext, candidates: Candidates, policy: PreemptionPolicy) -> PostFilterAnswer:
    """The answer for the candidates that are left, which may be none once extenders had their say."""
    refusals = _by_refusal(context, candidates.refused)
    if not candidates.found:
        message = _PREFIX + NO_CANDIDATE_LEFT
        evidence = PreemptionEvidence(True, message, refusals=refusals, faults=candidates.faults)
        return PostFilterAnswer(unschedulable(message), KEEP_NOMINATION, evidence=evidence)
    choice = choose(candidates.found, context.now_nanoseconds, policy.prefer_other_than_daemon_sets)
    evidence = PreemptionEvidence(
        eligible=True,
        candidates=candidates.found,
        refusals=refusals,
        equals=choice.best,
        criterion=choice.criterion,
        nominated_node=choice.candidate.node_name,
        victims=choice.candidate.victims,
        faults=candidates.faults,
    )
    node, victims = choice.candidate.node_name, choice.candidate.victims
    return PostFilterAnswer(None, nominate(node), Remove(node, victims) if victims else None, evidence)


def _nothing_found(context: PostFilterContext, candidates: Candidates) -> PostFilterAnswer:
    """The answer without a candidate. The nomination is cleared, since no node can be made to fit; unless plugins
    failed, for then nothing is known."""
    refusals = _by_refusal(context, candidates.refused)
    errors = list(dict.fromkeys(refusal.message for refusal, _ in refusals if refusal.code is Code.ERROR))
    if errors:
        text = _PREFIX + (errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
        evidence = PreemptionEvidence(True, text, refusals=refusals, faults=candidates.faults)
        return PostFilterAnswer(failure(text), KEEP_NOMINATION, evidence=evidence)
    view = context.view
    builder = DiagnosisBuilder(view.table.size)
    for refusal, rows in candidates.refused:
        builder.refuse(np.array(rows, np.int64), refusal)
    message = _PREFIX + fit_error_text(view.total_nodes, builder.build(absent=NOT_HELPFUL))
    evidence = PreemptionEvidence(True, message, refusals=refusals, faults=candidates.faults)
    room = WaitForBudget() if any(refusal == VIOLATES_BUDGET for refusal, _ in refusals) else None
    return PostFilterAnswer(unschedulable(message), CLEAR_NOMINATION, room, evidence)


def _by_refusal(context: PostFilterContext, refused: RefusedRows) -> tuple[tuple[Refusal, tuple[str, ...]], ...]:
    name_of = context.view.table.names.__getitem__
    return tuple([(_in_full(refusal), tuple(map(name_of, rows))) for refusal, rows in refused])


def _in_full(refusal: Refusal) -> Refusal:
    """An error that a filter plugin answered, with the plugin's name in its text, as in a filter round; another refusal
    as it is."""
    if refusal.code is not Code.ERROR or not refusal.plugin:
        return refusal
    return failure(failed_at("Filter", refusal.plugin, refusal.message)).by(refusal.plugin)
