"""Nodes that refused a workload: only pods of the same controller avoid them for a while.

The engine is given those pods with an additional node-affinity requirement (``metadata.name NotIn``). It is not
written, and extenders are sent the original pods.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, PodsActivated, Stimulus
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import controller_of
from scheduler.objects.pod import Affinity, NodeAffinity, Pod
from scheduler.objects.selector_fields import NodeSelectorFields, NodeSelectorTermFields, SelectorExpression

MAX_NODES_PER_WORKLOAD: Final = 16
"""The oldest is dropped first. Each costs a comparison with every node per class of pods: 16 at 5,000 nodes 10 ms."""
MAX_WORKLOADS: Final = 1_000
"""The one that was refused first is dropped first."""


class WorkloadAvoidance:
    """``avoid`` and ``release`` take the controller's UID; ``for_engine`` maps the pod watch's stimuli.

    ``feed`` passes stimuli to the engine.
    """

    def __init__(self, feed: Callable[[Sequence[Stimulus]], None]) -> None:
        self._feed = feed
        self._nodes: OrderedDict[str, list[str]] = OrderedDict()
        """UID of a controller → nodes, the oldest first."""
        self._changed: dict[str, ObjectObserved] = {}
        """Key of a waiting pod that the engine has with the requirement → the watch's original stimulus."""

    def nodes_of(self, owner: str) -> tuple[str, ...]:
        return tuple(self._nodes.get(owner, ()))

    def avoid(self, owner: str, node: str) -> None:
        """Makes pods of ``owner`` that are observed from now on avoid ``node``."""
        nodes = self._nodes.setdefault(owner, [])
        if node in nodes:
            return
        nodes.append(node)
        del nodes[:-MAX_NODES_PER_WORKLOAD]
        if len(self._nodes) > MAX_WORKLOADS:
            dropped, _ = self._nodes.popitem(last=False)
            self._show_again(dropped)

    def release(self, owner: str, node: str) -> None:
        """Lets pods of ``owner`` use ``node`` again: those that wait are tried at once."""
        nodes = self._nodes.get(owner)
        if nodes is None or node not in nodes:
            return
        nodes.remove(node)
        if not nodes:
            del self._nodes[owner]
        self._show_again(owner)

    def _show_again(self, owner: str) -> None:
        """Passes the waiting pods of ``owner`` in their present form to the engine, which tries them at once."""
        waiting = [seen for seen in self._changed.values() if _is_of(seen, owner)]
        if waiting:
            keys = [seen.object.key for seen in waiting]
            self._feed([*self.for_engine(waiting), PodsActivated(keys)])

    def for_engine(self, stimuli: Sequence[Stimulus]) -> Sequence[Stimulus]:
        """The pod watch's stimuli as passed to the engine."""
        if not self._nodes and not self._changed:
            return stimuli
        return [self._stimulus_for_engine(stimulus) for stimulus in stimuli]

    def _stimulus_for_engine(self, stimulus: Stimulus) -> Stimulus:
        if isinstance(stimulus, ObjectDeleted) and isinstance(stimulus.object, Pod):
            self._changed.pop(stimulus.object.key, None)
        elif isinstance(stimulus, ObjectObserved) and isinstance(pod := stimulus.object, Pod):
            shown = self.pod_for_engine(pod)
            if shown is pod:
                self._changed.pop(pod.key, None)
                return stimulus
            self._changed[pod.key] = stimulus
            return ObjectObserved(Kind.POD, shown, stimulus.document)
        return stimulus

    def pod_for_engine(self, pod: Pod) -> Pod:
        """The pod, with the requirement if it waits and its controller's pods were refused. Its resource version is
        distinct, so that the engine sees a change."""
        nodes = self._nodes.get(owner_of(pod)) if self._nodes and not pod.spec.node_name else None
        if not nodes:
            return pod
        affinity = pod.spec.affinity or Affinity()
        of_nodes = affinity.node_affinity or NodeAffinity()
        required = NodeSelectorFields(node_selector_terms=_away_from(of_nodes.required, nodes))
        of_nodes = msgspec.structs.replace(of_nodes, required=required)
        version = "+".join((pod.metadata.resource_version, "avoids", *nodes))
        return msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(pod.metadata, resource_version=version),
            spec=msgspec.structs.replace(pod.spec, affinity=msgspec.structs.replace(affinity, node_affinity=of_nodes)),
        )


def owner_of(pod: Pod) -> str:
    """The UID of the pod's controller; "" without one: the pod is not replaced then."""
    owner = controller_of(pod.metadata)
    return owner.uid if owner is not None else ""


def _is_of(seen: ObjectObserved, owner: str) -> bool:
    return isinstance(seen.object, Pod) and owner_of(seen.object) == owner


def _away_from(required: NodeSelectorFields | None, nodes: Sequence[str]) -> tuple[NodeSelectorTermFields, ...]:
    # A field may be compared with one value only, so each node needs a requirement of its own.
    away = tuple([SelectorExpression(key="metadata.name", operator="NotIn", values=(node,)) for node in nodes])
    if required is None:
        return (NodeSelectorTermFields(match_fields=away),)
    # An empty term matches no node and must keep doing so.
    return tuple(
        term if term.is_empty else msgspec.structs.replace(term, match_fields=(*term.match_fields, *away))
        for term in required.node_selector_terms
    )
