"""The selector of a pod's workload, for default constraints (docs/kube-scheduler/plugins.md §3.12).

It is deduced from the Services that select the pod and from the controller that owns it. Jobs, DaemonSets and bare
pods without a Service have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.objects.kinds import Kind
from scheduler.objects.memo import has_many_parts, memo
from scheduler.objects.meta import OwnerReference, controller_of
from scheduler.objects.owners import ReplicaSet, ReplicationController, Service, StatefulSet
from scheduler.objects.selectors import EVERYTHING, Selector, SelectorError, combined, equality_selector, parse_selector

_WORKLOADS = {
    ("apps/v1", "ReplicaSet"): Kind.REPLICA_SET,
    ("apps/v1", "StatefulSet"): Kind.STATEFUL_SET,
}

SELECTING_KINDS = (Kind.SERVICE, Kind.REPLICATION_CONTROLLER, *_WORKLOADS.values())
"""The kinds from which a workload's selector is deduced."""

_Label = tuple[str, str]
_Services = dict[tuple[str, _Label], list[Mapping[str, str]]]

_INDEXES: Final[WeakKeyDictionary[ObjectStore, tuple[int, _Services]]] = WeakKeyDictionary()
"""Of each store, with the version of its Services. It holds no store: that of a fork would be handed every change of
the cluster for as long."""


def workload_selector(pod: PodInfo, view: View) -> Selector:
    """The conjunction of the selectors of the pod's Services and controller; EVERYTHING if there are none."""
    labels = _service_labels(pod, view)
    owner = controller_of(pod.pod.metadata)
    if owner is None:
        return _equality(frozenset(labels.items()))
    key = f"{pod.namespace}/{owner.name}"
    if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
        controller = view.find(ReplicationController, key)
        if controller is not None:
            labels.update(controller.spec.selector or {})
        return _equality(frozenset(labels.items()))
    selected = _equality(frozenset(labels.items()))
    own = _owner_selector(owner, key, view)
    if own.is_everything:
        return selected
    return own if selected.is_everything else _both(selected, own)


def _owner_selector(owner: OwnerReference, key: str, view: View) -> Selector:
    kind = _WORKLOADS.get((owner.api_version, owner.kind))
    workload = None if kind is None else view.get(kind, key)
    if not isinstance(workload, ReplicaSet | StatefulSet):
        return EVERYTHING
    try:
        selector = parse_selector(workload.spec.selector)
    except SelectorError:
        return EVERYTHING
    return EVERYTHING if selector.selects_nothing else selector


def _service_labels(pod: PodInfo, view: View) -> dict[str, str]:
    """The selectors of all Services that select the pod, merged."""
    by_label = _services_by_label(view.objects, view.version(Kind.SERVICE))
    merged: dict[str, str] = {}
    if by_label:
        labels = pod.labels
        for label in labels.items():
            for selector in by_label.get((pod.namespace, label), ()):
                if selector.items() <= labels.items():
                    merged.update(selector)
    return merged


def _services_by_label(objects: ObjectStore, version: int) -> _Services:
    """Services by namespace and one label of their selector, cached by ``version``."""
    known = _INDEXES.get(objects)
    if known is None or known[0] != version:
        known = _INDEXES[objects] = version, _indexed(objects)
    return known[1]


def _indexed(objects: ObjectStore) -> _Services:
    found: _Services = {}
    for service in objects.all_of(Service).values():
        selector = service.spec.selector
        if selector:
            found.setdefault((service.metadata.namespace, next(iter(selector.items()))), []).append(selector)
    return found


def _are_long(one: Selector, other: Selector) -> bool:
    return has_many_parts(one.requirements) or has_many_parts(other.requirements)


@memo(4096, _are_long)
def _both(one: Selector, other: Selector) -> Selector:
    return combined(one, other)


@memo(4096, has_many_parts)
def _equality(labels: frozenset[_Label]) -> Selector:
    return equality_selector(dict(labels))
