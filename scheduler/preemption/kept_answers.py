"""What dry runs said of each row, kept for the next pod that asks the same.

A thousand preemptors of one Deployment ask the same thousand nodes, and from one to the next hardly more than one node
has changed. So an answer holds for pods of the same template as long as its row has the same Node, the same pods, and
the same pods nominated to it. Nothing is kept where more than that has a say: where there is a budget, where a plugin
counts pods, or looks at other objects of the cluster.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_template import template_key
from scheduler.framework.plugin import PreFilterPlugin
from scheduler.framework.traits import traits_of
from scheduler.messages.status import Refusal
from scheduler.preemption.dry_run import Candidate, Trial
from scheduler.preemption.wave_filters import AskedFilter, WaveFilters

Answer = Candidate | Refusal

_MAX_TEMPLATES = 8


class RowAnswers:
    """Those of one template. ``shared``: what all rows' answers depend on, besides the template."""

    __slots__ = ("_answers", "_shared", "_since")

    def __init__(self, shared: tuple[object, ...], now: int) -> None:
        self._shared = shared
        self._since = now
        self._answers: dict[int, tuple[int, tuple[PodInfo, ...], Answer]] = {}
        """Row → its version in the columns, the pods nominated to it, the answer."""

    def hold(self, shared: tuple[object, ...], now: int) -> bool:
        """Whether they are still good; with a clock that went back, pods without a start may be in another order."""
        before, self._since = self._since, now
        return now >= before and len(shared) == len(self._shared) and all(map(_is, shared, self._shared))

    def known(self, trial: Trial, rows: list[int], versions: Sequence[int]) -> dict[int, Answer]:
        """Row → answer, where that is known. ``versions``: of each row of the columns, which are up to date."""
        names, nominated, kept = trial.view.table.names, trial.context.nominated_pods, self._answers
        found = {}
        for row in rows:
            entry = kept.get(row)
            if entry is not None and entry[0] == versions[row] and entry[1] == tuple(nominated(names[row])):
                found[row] = entry[2]
        own = _own_row(trial)
        if own is not None:
            found.pop(own, None)
        return found

    def keep(self, trial: Trial, answers: Mapping[int, Answer], versions: Sequence[int]) -> None:
        names, nominated = trial.view.table.names, trial.context.nominated_pods
        own = _own_row(trial)
        for row, answer in answers.items():
            if row != own:
                self._answers[row] = versions[row], tuple(nominated(names[row])), answer


class KeptAnswers:
    """Those of the templates that were asked for last."""

    def __init__(self) -> None:
        self._templates: OrderedDict[Hashable, RowAnswers] = OrderedDict()

    def of(self, trial: Trial, filters: WaveFilters) -> RowAnswers | None:
        """What is known of the rows for this pod. None where nothing can be kept."""
        template = template_key(trial.pod)
        if template is None or trial.budgets.all or not all(map(_looks_at_the_row_alone, filters.asked)):
            return None
        policy = trial.policy
        shared = (
            policy.pdb_policy,
            policy.victim_schedulers,
            trial.context.may_others_name_victims,
            *(one.plugin for one in filters.asked),
            *(one.state for one in filters.asked),
        )
        answers = self._templates.get(template)
        if answers is None or not answers.hold(shared, trial.now):
            answers = self._templates[template] = RowAnswers(shared, trial.now)
        self._templates.move_to_end(template)
        if len(self._templates) > _MAX_TEMPLATES:
            self._templates.popitem(last=False)
        return answers


def _looks_at_the_row_alone(one: AskedFilter) -> bool:
    """What else it looks at is in its state, and another state is another object."""
    traits = traits_of(one.plugin)
    is_shared = traits.is_declared and (isinstance(one.plugin, PreFilterPlugin) or not traits.has_stamp)
    return is_shared and not one.counts_pods


def _own_row(trial: Trial) -> int | None:
    """Where the pod is nominated itself: there it competes with one pod less than others do."""
    return trial.view.table.existing_row(trial.pod.pod.nominated_node_name)


def _is(one: object, other: object) -> bool:
    return one is other
