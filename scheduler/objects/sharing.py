"""Equal parts of kept objects, stored once: what a pod costs in memory is what is its own.

Pods are copies of few templates, and nodes hold the same images, but each decoded object brings its own copy of every
part. A pod is kept from its first list until it is gone, so 150,000 of them are most of the scheduler's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import force_setattr, replace

from scheduler.objects.meta import ApiObject, Condition, ObjectMeta
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod, PodSpec, Volume

Part = TypeVar("Part")

MAX_BYTES: Final = 16 * 2**20
"""Of the encoded parts that are remembered, of each owner; beyond it sharing starts again with what comes next. At
5,000 nodes and 150,000 pods of 1,000 templates they take 3 MiB."""
MAX_TEXTS: Final = 2**16
"""Texts that are remembered, of each owner: some 10 MiB."""
MAX_PART_BYTES: Final = 32 * 2**10
"""A part that is longer as JSON is not shared: it would displace hundreds of others."""

DATED_CONDITIONS: Final = frozenset(("PodScheduled", "DisruptionTarget", "PodResizePending"))
"""The conditions of a pod that are read for more than their status (`Pod.condition`)."""

_ENCODER: Final = msgspec.json.Encoder()
_NO_SOURCE: Final = Volume()


class Fields:
    """Some fields of one type."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.of: Callable[[object], tuple[Any, ...]] = attrgetter(*names)


_METADATA_PARTS: Final = Fields("labels", "annotations", "owner_references", "finalizers")
_SPEC_PARTS: Final = Fields(
    "scheduler_name", "priority_class_name", "restart_policy", "containers", "init_containers", "tolerations",
    "affinity", "topology_spread_constraints", "node_selector", "resources", "overhead", "resource_claims",
    "scheduling_gates", "scheduling_group",
)  # fmt: skip
_STATUS_PARTS: Final = Fields("container_statuses", "init_container_statuses", "resources", "allocated_resources")
_NODE_PARTS: Final = Fields("allocatable", "capacity")


class Sharing:
    """Replaces parts of newly decoded objects, which nothing else holds yet, by equal ones seen before.

    Equality is that of the encoded part, or of the value with that of the object's version before, so that sharing
    changes no value. What nothing reads is left out on the way:
    volumes without a source that is read (`emptyDir`, `projected` and so on, whose names often differ from pod to pod),
    and texts and times of conditions of which only the status is read. Texts are not left to ``sys.intern``: Python
    3.12 up to its fourth release never forgets one.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, max_texts: int = MAX_TEXTS) -> None:
        self._max_bytes = max_bytes
        self._max_texts = max_texts
        self._bytes = 0
        self._parts: dict[Hashable, Any] = {}
        self._texts: dict[str, str] = {}
        """Names of nodes and namespaces, times in seconds, phases."""

    def share(self, obj: ApiObject, known: ApiObject | None = None) -> None:
        """Shares the parts of a pod or a node; other kinds stay as they are. ``known``: the version before, if any,
        most of which an update leaves as it is."""
        if isinstance(obj, Pod):
            self._share_pod(obj, known if isinstance(known, Pod) else None)
        elif isinstance(obj, Node):
            self._share_node(obj)

    def _share_pod(self, pod: Pod, known: Pod | None) -> None:
        texts = self._texts
        if len(texts) >= self._max_texts:
            texts.clear()
        force_setattr(pod, "spec", self._shared_spec(pod.spec, None if known is None else known.spec))
        self._share_metadata(pod.metadata, None if known is None else known.metadata)
        status = pod.status
        if status.container_statuses or status.init_container_statuses or status.resources is not None:
            self._share_fields(status, _STATUS_PARTS, None if known is None else known.status)
        if status.conditions:
            force_setattr(status, "conditions", tuple([self._undated(condition) for condition in status.conditions]))
        if status.phase:
            force_setattr(status, "phase", texts.setdefault(status.phase, status.phase))
            force_setattr(status, "qos_class", texts.setdefault(status.qos_class, status.qos_class))
        if time := status.start_time:
            force_setattr(status, "start_time", texts.setdefault(time, time))

    def _shared_spec(self, spec: PodSpec, before: PodSpec | None) -> PodSpec:
        """A known spec that is equal, as most of pods that wait; else one whose parts are shared. Most are equal to a
        known one but for the node and the names of volumes. ``before``: that of the pod's version before."""
        node_name, volumes = spec.node_name, spec.volumes
        if volumes:
            volumes = tuple([volume for volume in volumes if _has_source(volume)])
            force_setattr(spec, "volumes", volumes)
        if before is not None and spec == before:
            return before
        if volumes:
            force_setattr(spec, "volumes", ())
        if node_name:
            force_setattr(spec, "node_name", "")
        encoded = _ENCODER.encode(spec)
        known: PodSpec | None = self._parts.get(encoded)
        if known is None:
            self._share_fields(spec, _SPEC_PARTS)
            self._remember(encoded, len(encoded), spec)
            known = spec
        if not (node_name or volumes):
            return known
        own_volumes = self._shared("volumes", volumes) if volumes else ()
        return replace(known, node_name=self._texts.setdefault(node_name, node_name), volumes=own_volumes)

    def _share_node(self, node: Node) -> None:
        """Labels and annotations are left alone: those of a node name it, so that no other has the same."""
        status = node.status
        if status.images:
            force_setattr(status, "images", tuple([self._shared("image", image) for image in status.images]))
        self._share_fields(status, _NODE_PARTS)

    def _share_metadata(self, metadata: ObjectMeta, before: ObjectMeta | None) -> None:
        if namespace := metadata.namespace:
            force_setattr(metadata, "namespace", self._texts.setdefault(namespace, namespace))
        if created := metadata.creation_timestamp:
            force_setattr(metadata, "creation_timestamp", self._texts.setdefault(created, created))
        self._share_fields(metadata, _METADATA_PARTS, before)

    def _undated(self, condition: Condition) -> Condition:
        """A condition without the text and the times that are not read: then most pods have the same."""
        if condition.type in DATED_CONDITIONS:
            return condition
        key = condition.type, condition.status
        known: Condition | None = self._parts.get(key)
        if known is None:
            known = Condition(type=condition.type, status=condition.status)
            self._remember(key, len(condition.type) + len(condition.status), known)
        return known

    def _share_fields(self, owner: msgspec.Struct, fields: Fields, before: msgspec.Struct | None = None) -> None:
        """Most objects have all of these fields in common with their version ``before``, or with another object seen
        before; else each is looked up by itself."""
        parts = fields.of(owner)
        known: tuple[Any, ...] | None = None if before is None else fields.of(before)
        if known != parts:
            encoded = _ENCODER.encode(parts)
            key = fields, encoded
            known = self._parts.get(key)
            if known is None:
                each = zip(fields.names, parts, strict=True)
                known = tuple([self._shared(name, part) if part else part for name, part in each])
                self._remember(key, len(encoded), known)
        for name, part, own in zip(fields.names, known, parts, strict=True):
            if part is not own:
                force_setattr(owner, name, part)

    def _shared(self, field: str, part: Part) -> Part:
        key = field, _ENCODER.encode(part)
        known: Part | None = self._parts.get(key)
        if known is None:
            self._remember(key, len(key[1]), part)
            return part
        return known

    def _remember(self, key: Hashable, size: int, part: object) -> None:
        if size > MAX_PART_BYTES:
            return
        if self._bytes + size > self._max_bytes:
            self._parts.clear()
            self._bytes = 0
        self._parts[key] = part
        self._bytes += size

    def __len__(self) -> int:
        """The number of remembered parts and texts."""
        return len(self._parts) + len(self._texts)


def _has_source(volume: Volume) -> bool:
    return replace(volume, name="") != _NO_SOURCE
