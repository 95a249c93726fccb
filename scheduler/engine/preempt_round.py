"""Extenders in a preemption: they may drop candidate nodes, drop victims, or name others.

The plugin tries the nodes, the extenders are asked in turn, each about the candidates that the one before it left,
and the plugin chooses among the rest (docs/kube-scheduler/extenders.md §6).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

import msgspec
from msgspec.structs import replace

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.extender_round import Answers, Calls, ExtenderRound, body_of
from scheduler.extenders.answers import ExtenderError
from scheduler.extenders.documents import Documents
from scheduler.extenders.extender import Extender, VictimsAnswer
from scheduler.framework.post_filter import KEEP_NOMINATION, PostFilterAnswer, PostFilterContext
from scheduler.messages.status import failure
from scheduler.objects.kinds import Kind
from scheduler.preemption.dry_run import Candidate, candidate_of
from scheduler.preemption.evaluation import Candidates
from scheduler.preemption.importance import most_important_first
from scheduler.preemption.plugin import PreemptionPlugin


def ask_about_victims(
    plugin: PreemptionPlugin, context: PostFilterContext, extenders: ExtenderRound
) -> Generator[Calls, Answers, PostFilterAnswer]:
    """The answer of preemption with extenders: each in turn may change the candidates and their victims before one is
    chosen. A failing extender that is not ignorable ends the attempt with an error."""
    begun = plugin.begin(replace(context, may_others_name_victims=True))
    if isinstance(begun, PostFilterAnswer):
        return begun
    found = begun.found
    for extender in extenders.preempters:
        if not found:
            break
        body = extender.preempt_body(extenders.raw_pod, _as_sent(found, extenders.documents))
        (answered,) = yield (extenders.call(extender, extender.configuration.preempt_verb, body),)
        try:
            found = _as_answered(extender, extender.read_victims(body_of(answered)), found, context)
        except ExtenderError as error:
            extenders.note(extender, "preempt", error, is_skipped=extender.is_ignorable)
            if not extender.is_ignorable:
                return PostFilterAnswer(failure(f"preemption: {error}"), KEEP_NOMINATION)
    with_victims = tuple([candidate for candidate in found if candidate.victims])
    return plugin.conclude(context, Candidates(with_victims, begun.refused, begun.faults))


def _as_sent(
    found: tuple[Candidate, ...], documents: Documents
) -> Mapping[str, tuple[list[tuple[str, msgspec.Raw]], int]]:
    return {
        candidate.node_name: (
            [(victim.uid, documents.of(Kind.POD, victim.pod)) for victim in candidate.victims],
            candidate.pdb_violations,
        )
        for candidate in found
    }


def _as_answered(
    extender: Extender,
    answer: Mapping[str, VictimsAnswer],
    sent: tuple[Candidate, ...],
    context: PostFilterContext,
) -> tuple[Candidate, ...]:
    """The candidates after an extender's answer: known ones in their order, then the nodes it added.

    Raises ExtenderError for nodes and pods that are not there or out of reach, for victims that are not less important
    than the pod, and for a node left without a victim, unless the extender is ignorable: then only the node is dropped.
    A node that was sent without victims may stay so.
    """
    order = {candidate.node_name: place for place, candidate in enumerate(sent)}
    without_victims = {candidate.node_name for candidate in sent if not candidate.victims}
    found: list[Candidate] = []
    for name in sorted(answer, key=lambda name: (order.get(name, len(order)), name)):
        row = context.view.table.existing_row(name)
        wrong = _is_no_place(context, row, name)
        if row is None or wrong:
            raise ExtenderError(f"extender: {extender.name} claims to preempt pods on node: {name}, {wrong}")
        victims = [_victim(extender, context, row, name, uid) for uid in dict.fromkeys(answer[name].uids)]
        if victims or name in without_victims:
            ordered = tuple(most_important_first(victims, context.now_nanoseconds))
            found.append(candidate_of(row, name, ordered, answer[name].budget_violations))
        elif not extender.is_ignorable:
            raise ExtenderError(f'expected at least one victim pod on node "{name}"')
    return tuple(found)


def _is_no_place(context: PostFilterContext, row: int | None, node: str) -> str:
    """Why the pod may make no room on this node, "" if it may."""
    policy, table = context.policy, context.view.table
    if row is None:
        return "which is not known"
    if not policy.node_scope.is_everything and not table.selected(policy.node_scope)[row]:
        return "which is outside of the profile's nodeScope"
    return policy.excluded_nodes.get(node, "")


def _victim(extender: Extender, context: PostFilterContext, row: int, node: str, uid: str) -> PodInfo:
    victim = context.view.table.pods[row].get(uid)
    if victim is None:
        raise ExtenderError(
            f"extender: {extender.name} claims to preempt pod (UID: {uid}) on node: {node}, "
            "but the pod is not found on that node"
        )
    if victim.priority >= context.pod.priority:
        raise ExtenderError(
            f"extender: {extender.name} claims to preempt pod (UID: {uid}) on node: {node}, "
            "whose priority is not lower than the preemptor's"
        )
    if not context.policy.allows(victim, context.pod):
        raise ExtenderError(
            f"extender: {extender.name} claims to preempt pod (UID: {uid}) on node: {node}, "
            "which another scheduler has placed"
        )
    return victim
