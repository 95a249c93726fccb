"""Objects that the tests of VolumeBinding share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from scheduler import testing
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.storage import SELECTED_NODE_ANNOTATION, PersistentVolume, PersistentVolumeClaim
from scheduler.testing.fragments import node_term
from tests import builders

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def nodes(**zones: str) -> list[Node]:
    """Node name → its zone."""
    return [testing.node(name, labels={HOST: name, ZONE: zone}) for name, zone in zones.items()]


TWO_ZONES = nodes(a1="a", a2="a", b1="b")


def delayed(
    name: str = "c", size: str | None = "10Gi", *, node: str | None = None, **fields: Any
) -> PersistentVolumeClaim:
    """An unbound claim of the class ``later``; with a node selected before, if one is given."""
    annotations = {SELECTED_NODE_ANNOTATION: node} if node is not None else {}
    fields.setdefault("storage_class", "later")
    return builders.claim(name, size=size, annotations=annotations, **fields)


def free(name: str, size: str = "10Gi", *, at: str | Iterable[str] | None = None, **fields: Any) -> PersistentVolume:
    """An available volume of the class ``later``; ``at``: expressions that its nodes must meet."""
    expressions = [at] if isinstance(at, str) else list(at or ())
    affinity = [node_term(*expressions)] if expressions else None
    fields.setdefault("storage_class", "later")
    return builders.volume(name, size=size, node_affinity=affinity, **fields)


def terminating(volume: PersistentVolume) -> PersistentVolume:
    metadata = msgspec.structs.replace(volume.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(volume, metadata=metadata)


def no_provisioner(**fields: Any) -> ApiObject:
    return builders.storage_class("later", "kubernetes.io/no-provisioner", **fields)


def reference(claim: PersistentVolumeClaim, uid: str | None = None) -> dict[str, str]:
    meta = claim.metadata
    return {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid if uid is None else uid}
