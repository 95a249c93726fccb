"""NodeDeclaredFeatures: filters nodes that do not declare a kubelet feature that the pod needs (KEP-5328).

Nodes list their features in ``status.declaredFeatures``. Two needs are derived from a pod's spec: a container with a
restart rule that restarts all containers (``RestartAllContainersOnContainerExits``), and the host's network together
with a user namespace of the pod's own (``UserNamespacesHostNetworkSupport``). Refuses with ``node(s) didn't match Pod's
required features``. No arguments.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource, only_itself
from scheduler.framework.findings import Cause, RowArray, grouped
from scheduler.framework.plugin import (
    FilterPlugin,
    Finding,
    FragmentReads,
    PreFilterPlugin,
    Reads,
    Rows,
    State,
    Verdicts,
)
from scheduler.messages.status import SKIP, Refusal, Skip, unresolvable
from scheduler.objects.node import Node
from scheduler.objects.pod import PodSpec

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"

MISSING_FEATURES = unresolvable("node(s) didn't match Pod's required features")
_REFUSALS = (MISSING_FEATURES,)


class RequiredFeatures(Struct, State, frozen=True):
    names: frozenset[str]


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin):
    """See docs/kube-scheduler/plugins.md §3.20."""

    name = "NodeDeclaredFeatures"
    needs_pre_filter = True
    reads = Reads.NODE
    fragment_reads = FragmentReads.TEMPLATE

    def fragment(self, pod: PodInfo, view: View) -> frozenset[str]:
        return required_features(pod.pod.spec)

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        names = required_features(pod.pod.spec)
        return RequiredFeatures(names) if names else SKIP

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        assert isinstance(state, RequiredFeatures)
        declared = view.table.vocabulary.features.values
        codes_by_set = np.array([0 if state.names <= (names or frozenset()) else 1 for names in declared], np.int16)
        codes = codes_by_set[view.table.feature_set[rows]]
        return Verdicts(codes, _REFUSALS) if codes.any() else None

    def filter_row(self, state: State, pod: PodInfo, view: View, row: int) -> Refusal | None:
        assert isinstance(state, RequiredFeatures)
        node = view.table.nodes[row]
        if node is not None and state.names.issubset(node.status.declared_features):
            return None
        return MISSING_FEATURES

    def why_not(self, state: State, pod: PodInfo, view: View, rows: RowArray) -> tuple[Finding, ...]:
        assert isinstance(state, RequiredFeatures)
        sets = view.table.feature_set[rows]
        declared = view.table.vocabulary.features.values
        causes = []
        for name in sorted(state.names):
            lacking = np.array([name not in (names or frozenset()) for names in declared], np.bool_)
            causes.append(Cause(lacking[sets], partial(_undeclared, name)))
        return grouped(view, rows, causes)

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


def _undeclared(name: str, _rows: RowArray) -> str:
    return f"the node does not declare the feature {name}"


def required_features(spec: PodSpec) -> frozenset[str]:
    """The features that the pod requires of the node; nearly always none."""
    names: list[str] = []
    for container in (*spec.containers, *spec.init_containers):
        if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
            names.append(RESTART_ALL_CONTAINERS)
            break
    if spec.host_network and spec.host_users is False:
        names.append(USER_NAMESPACES_ON_HOST_NETWORK)
    return frozenset(names)


def _features_changed(_pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
    if old is None or new is None or old.status.declared_features != new.status.declared_features:
        return Hint.QUEUE
    return Hint.SKIP


def _own_needs_changed(pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
    if old is None or new is None or new.uid != pod.uid:
        return Hint.SKIP
    changed = required_features(old.pod.spec) != required_features(new.pod.spec)
    return Hint.QUEUE if changed else Hint.SKIP


_EVENTS = (
    EventRegistration(
        ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE),
        _features_changed,
    ),
    EventRegistration(ClusterEvent(Resource.POD, Action.UPDATE), _own_needs_changed, only_itself),
)
