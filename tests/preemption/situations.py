"""Attempts that found no node, as preemption sees them: everything built-in filters, nothing is made up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.diagnosis import NOT_LOOKED_AT, Diagnosis
from scheduler.framework.node_filter import filter_with_nominated, rivals
from scheduler.framework.plugin import FilterPlugin, NodeSubset, Plugin, PreFilterPlugin, State
from scheduler.framework.post_filter import PostFilterAnswer, PostFilterContext
from scheduler.messages.status import Refusal, Skip, unschedulable
from scheduler.objects.kinds import kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.timestamps import parse_time
from scheduler.plugins.registry import registry
from scheduler.preemption.dry_run import Candidate
from scheduler.preemption.evaluation import PreemptionEvidence

NOW = parse_time("2026-06-01T00:00:00Z")


@dataclass
class Filters:
    filter_plugins: Sequence[FilterPlugin]


@dataclass
class Situation:
    """A cluster with nominations; ``attempt`` asks about a pod. Pods without a node are nominated where they say."""

    nodes: Iterable[Node]
    pods: Iterable[Pod] = ()
    objects: Iterable[ApiObject] = ()
    added_plugins: Iterable[Plugin] = ()
    cache: ClusterCache = field(default_factory=ClusterCache)
    nominated: dict[str, list[PodInfo]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.nodes:
            self.cache.observe_node(node)
        for pod in self.pods:
            if pod.node_name:
                self.cache.observe_pod(PodInfo(pod))
            else:
                self.nominated.setdefault(pod.nominated_node_name, []).append(PodInfo(pod))
        for other in self.objects:
            self.observe(other)
        self.plugins = [*(plugin() for plugin in registry().values()), *self.added_plugins]

    @property
    def refusal(self) -> Refusal:
        """Of a node where preemption may help."""
        return unschedulable("full")

    def observe(self, other: ApiObject) -> None:
        self.cache.observe_object(kind_of(other), other)

    def attempt(
        self, pod: Pod, *, seed: int = 0, absent: Refusal = NOT_LOOKED_AT, statuses: Mapping[str, Refusal] | None = None
    ) -> PostFilterContext:
        """``statuses``: node → why it refused the pod, in place of what the filters say."""
        info = PodInfo(pod)
        view = self.cache.view
        table = view.table
        states: dict[str, State | Skip] = {}
        for plugin in self.plugins:
            if isinstance(plugin, PreFilterPlugin):
                answer = plugin.pre_filter(info, view)
                assert not isinstance(answer, Refusal), answer
                states[plugin.name] = answer.inner if isinstance(answer, NodeSubset) else answer
        filters = [plugin for plugin in self.plugins if isinstance(plugin, FilterPlugin)]
        refusals: dict[int, Refusal] = {}
        for row in view.ordered_rows.tolist():
            if statuses is not None:
                refusal = statuses.get(table.names[row])
            else:
                beside = rivals(info, self.nominated.get(table.names[row], ()))
                refusal = filter_with_nominated(filters, states, info, view, row, beside)
            if refusal is not None:
                refusals[row] = refusal
        return PostFilterContext(
            pod=info,
            view=view,
            diagnosis=Diagnosis.of_rows(refusals, table.size, absent=absent),
            states=states,
            profile=Filters(filters),
            rng=Random(seed),
            now_nanoseconds=NOW,
            nominated_pods=lambda name: self.nominated.get(name, ()),
        )


def evidence_of(answer: PostFilterAnswer) -> PreemptionEvidence:
    assert isinstance(answer.evidence, PreemptionEvidence)
    return answer.evidence


def victims_by_node(evidence: PreemptionEvidence) -> dict[str, list[str]]:
    return {candidate.node_name: names(candidate) for candidate in evidence.candidates}


def names(candidate: Candidate) -> list[str]:
    return [info.name for info in candidate.victims]
