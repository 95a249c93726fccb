"""VolumeZone: a pod runs in the zone and region that its volumes' labels name.

Looks at bound claims whose PersistentVolume has one of the labels ``topology.kubernetes.io/zone`` and ``region``, or
their older forms ``failure-domain.beta.kubernetes.io/zone`` and ``region``; several zones are written ``a__b``. A node
with other values is refused with ``node(s) had no available volume zone``; one that has none of the four labels is not.
(Newer volumes have a node affinity instead, which VolumeBinding looks at.) No arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.interning import ABSENT
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.framework.findings import Cause, RowArray, grouped, label_values
from scheduler.framework.likeness import AlikeState, Likeness
from scheduler.framework.plugin import FilterPlugin, Finding, PreFilterPlugin, Rows, State, Verdicts
from scheduler.messages.status import SKIP, Refusal, Skip, unresolvable
from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.plugins.volume_hints import CLAIM_KEYS, its_named_claim_changed, key_of_claim

OTHER_ZONE = unresolvable("node(s) had no available volume zone")
_REFUSALS = (OTHER_ZONE,)

_GA_KEYS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_KEYS = (*_GA_KEYS, *_GA_KEYS.values())

ZoneRequirement = tuple[str, frozenset[str]]
"""A label that the node must have, and the values it may have."""


class Zones(Struct, AlikeState, frozen=True):
    is_blind_to_pods: ClassVar[bool] = True
    required: tuple[ZoneRequirement, ...]

    def likeness(self, view: View) -> Likeness:
        return Likeness(self.required)


class VolumeZone(PreFilterPlugin, FilterPlugin):
    """See docs/kube-scheduler/plugins.md §3.16, volumes.md §8."""

    name = "VolumeZone"

    def concerns(self, pod: PodInfo) -> bool:
        return any(volume.persistent_volume_claim is not None for volume in pod.pod.spec.volumes)

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        required: dict[ZoneRequirement, None] = {}
        for volume in pod.pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            found = _bound_volume(pod.namespace, volume.persistent_volume_claim.claim_name, view)
            if isinstance(found, Refusal):
                return found
            if found is not None:
                required.update(dict.fromkeys(_zones_of(found)))
        return Zones(tuple(required)) if required else SKIP

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        table, zones = view.table, self._of_pod(state, pod, view)
        columns = {key: table.label(key)[rows] for key in _KEYS}
        refused = np.zeros(len(columns[_KEYS[0]]), np.bool_)
        if isinstance(zones, Refusal):
            return Verdicts(np.ones(len(refused), np.int16), (zones,))
        for key, values in zones.required:
            refused |= ~_has_one_of(table, columns, key, values)
        in_a_zone = np.zeros(len(refused), np.bool_)
        for column in columns.values():
            in_a_zone |= column != ABSENT
        codes = (refused & in_a_zone).astype(np.int16)
        return Verdicts(codes, _REFUSALS) if codes.any() else None

    def why_not(self, state: State, pod: PodInfo, view: View, rows: RowArray) -> tuple[Finding, ...]:
        table, zones = view.table, self._of_pod(state, pod, view)
        columns = {key: table.label(key)[rows] for key in _KEYS}
        causes = [
            Cause(~_has_one_of(table, columns, key, values), partial(_elsewhere, table, key, values))
            for key, values in (() if isinstance(zones, Refusal) else zones.required)
        ]
        return grouped(view, rows, causes)

    def _of_pod(self, state: State, pod: PodInfo, view: View) -> Zones | Refusal:
        """The answer of ``pre_filter``, which a profile may have left out."""
        found = state if isinstance(state, Zones) else self.pre_filter(pod, view)
        return found if isinstance(found, Zones | Refusal) else Zones(())

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


def _elsewhere(table: NodeTable, key: str, values: frozenset[str], rows: RowArray) -> str:
    return f"a volume of the pod is in {key}={'|'.join(sorted(values))}: {label_values(table, key, rows)}"


def _has_one_of(
    table: NodeTable, columns: dict[str, npt.NDArray[np.int32]], key: str, values: frozenset[str]
) -> npt.NDArray[np.bool_]:
    """Rows whose label, or its newer form where an older one is asked for and absent, has one of the values."""
    column = columns[key]
    accepted = _accepted(table, key, values)[column]
    newer = _GA_KEYS.get(key)
    if newer is not None:
        accepted |= (column == ABSENT) & _accepted(table, newer, values)[columns[newer]]
    return accepted


def _accepted(table: NodeTable, key: str, values: frozenset[str]) -> npt.NDArray[np.bool_]:
    """Whether each value of the label is accepted, by its id; ABSENT never is."""
    ids = table.label_values(key)
    accepted = np.zeros(len(ids), np.bool_)
    for value in values:
        accepted[ids.find(value)] = True
    accepted[ABSENT] = False
    return accepted


def _bound_volume(namespace: str, name: str, view: View) -> PersistentVolume | Refusal | None:
    """The volume of a claim; None if there is nothing to look at before one is chosen."""
    if not name:
        return unresolvable("PersistentVolumeClaim had no name")
    claim = view.find(PersistentVolumeClaim, f"{namespace}/{name}")
    if claim is None:
        return unresolvable(f'persistentvolumeclaim "{name}" not found')
    if not claim.spec.volume_name:
        return _unbound(claim, view)
    volume = view.find(PersistentVolume, claim.spec.volume_name)
    return volume if volume is not None else unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found')


def _unbound(claim: PersistentVolumeClaim, view: View) -> Refusal | None:
    class_name = claim.storage_class
    if not class_name:
        return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
    found = view.find(StorageClass, class_name)
    if found is None:
        return unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
    if found.volume_binding_mode is None:
        return unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"')
    return None if found.waits_for_first_consumer else unresolvable("PersistentVolume had no name")


def _zones_of(volume: PersistentVolume) -> Iterator[ZoneRequirement]:
    """The zones that the volume's labels require; a label with an empty piece says nothing."""
    for key in _KEYS:
        written = volume.metadata.labels.get(key)
        if written is not None:
            values = frozenset(piece.strip() for piece in written.split("__"))
            if "" not in values:
                yield key, values


def _class_waits(_pod: PodInfo, _old: StorageClass | None, new: StorageClass | None) -> Hint:
    return Hint.QUEUE if new is not None and new.waits_for_first_consumer else Hint.SKIP


def _zones_changed(_pod: PodInfo, old: PersistentVolume | None, new: PersistentVolume | None) -> Hint:
    if new is None:
        return Hint.SKIP
    return Hint.QUEUE if old is None or set(_zones_of(old)) != set(_zones_of(new)) else Hint.SKIP


_EVENTS = (
    EventRegistration(ClusterEvent(Resource.STORAGE_CLASS, Action.ADD), _class_waits),
    EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
    EventRegistration(
        ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE),
        its_named_claim_changed,
        key_of_claim,
        CLAIM_KEYS,
    ),
    EventRegistration(ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE), _zones_changed),
)
