"""Storage: claims, volumes, classes, and CSI drivers' objects (docs/kube-scheduler/volumes.md §1-§8)."""

from __future__ import annotations

import msgspec

from scheduler.objects.meta import ApiObject, ApiStruct, ObjectMeta
from scheduler.objects.quantity import Quantities, parse
from scheduler.objects.selector_fields import LabelSelector, NodeSelectorFields, TopologySelectorTerm
from scheduler.objects.volume_sources import DiskSources

SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
BIND_COMPLETED_ANNOTATION = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER_ANNOTATION = "pv.kubernetes.io/bound-by-controller"
STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
MIGRATED_PLUGINS_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
FILESYSTEM = "Filesystem"


def _class_of(metadata: ObjectMeta, field: str) -> str:
    written = metadata.annotations.get(STORAGE_CLASS_ANNOTATION)
    return written if written is not None else field


# --- claims -----------------------------------------------------------------------------------------------------------


class ClaimResources(ApiStruct, frozen=True):
    requests: Quantities = msgspec.field(default_factory=dict)


class PersistentVolumeClaimSpec(ApiStruct, frozen=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ClaimResources = ClaimResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(ApiStruct, frozen=True):
    phase: str = ""


class PersistentVolumeClaim(ApiObject, frozen=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def storage_class(self) -> str:
        """The class's name: the legacy annotation (even if empty), else the field, else ""."""
        return _class_of(self.metadata, self.spec.storage_class_name or "")

    @property
    def is_fully_bound(self) -> bool:
        return self.spec.volume_name != "" and BIND_COMPLETED_ANNOTATION in self.metadata.annotations

    @property
    def selected_node(self) -> str | None:
        """The node that a scheduler has selected for provisioning the volume, or None."""
        return self.metadata.annotations.get(SELECTED_NODE_ANNOTATION)

    @property
    def volume_mode(self) -> str:
        return self.spec.volume_mode or FILESYSTEM

    @property
    def volume_attributes_class(self) -> str:
        return self.spec.volume_attributes_class_name or ""

    @property
    def requested_storage(self) -> int | None:
        """The exact requested size in nano-bytes; None without a request. Raises `InvalidQuantity`."""
        written = self.spec.resources.requests.get("storage")
        return parse(written) if written is not None else None


# --- volumes ----------------------------------------------------------------------------------------------------------


class ObjectReference(ApiStruct, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class VolumeNodeAffinity(ApiStruct, frozen=True):
    required: NodeSelectorFields | None = None


class PersistentVolumeSpec(DiskSources, frozen=True):
    capacity: Quantities = msgspec.field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolumeStatus(ApiStruct, frozen=True):
    phase: str = ""


class PersistentVolume(ApiObject, frozen=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def storage_class(self) -> str:
        """The class's name: the legacy annotation (even if empty), else the field."""
        return _class_of(self.metadata, self.spec.storage_class_name)

    @property
    def volume_mode(self) -> str:
        return self.spec.volume_mode or FILESYSTEM

    @property
    def volume_attributes_class(self) -> str:
        return self.spec.volume_attributes_class_name or ""

    @property
    def storage_capacity(self) -> int:
        """The exact capacity in nano-bytes; 0 if not given. Raises `InvalidQuantity`."""
        written = self.spec.capacity.get("storage")
        return parse(written) if written is not None else 0

    def is_claimed_by(self, claim: PersistentVolumeClaim) -> bool:
        """Whether its claimRef is this claim: same name and namespace, and the same UID if the volume has one."""
        reference = self.spec.claim_ref
        return (
            reference is not None
            and reference.name == claim.metadata.name
            and reference.namespace == claim.metadata.namespace
            and reference.uid in ("", claim.metadata.uid)
        )


# --- classes ----------------------------------------------------------------------------------------------------------


class StorageClass(ApiObject, frozen=True):
    """`volume_binding_mode` None is an error to report, not a default: the API server always fills it in."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()

    @property
    def waits_for_first_consumer(self) -> bool:
        return self.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


# --- CSI --------------------------------------------------------------------------------------------------------------


class VolumeNodeResources(ApiStruct, frozen=True):
    count: int | None = None


class CSINodeDriver(ApiStruct, frozen=True):
    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(ApiStruct, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(ApiObject, frozen=True):
    spec: CSINodeSpec = CSINodeSpec()

    @property
    def limits(self) -> dict[str, int]:
        """Driver name -> maximum number of attached volumes, without drivers that have no limit."""
        return {
            driver.name: driver.allocatable.count
            for driver in self.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }

    @property
    def migrated_plugins(self) -> frozenset[str]:
        """The in-tree plugins that are migrated to CSI drivers on this node."""
        written = self.metadata.annotations.get(MIGRATED_PLUGINS_ANNOTATION, "")
        return frozenset(written.split(",")) if written else frozenset()


class CSIDriverSpec(ApiStruct, frozen=True):
    storage_capacity: bool | None = None


class CSIDriver(ApiObject, frozen=True):
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiObject, frozen=True):
    """`node_topology` None: reachable from no node; an empty selector: from every node."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None

    @property
    def limit(self) -> int | None:
        """The largest volume that can be provisioned, exact, in nano-bytes; None if unknown. Raises
        `InvalidQuantity`."""
        written = self.maximum_volume_size if self.maximum_volume_size is not None else self.capacity
        return parse(written) if written is not None else None

    @property
    def free(self) -> int | None:
        """The capacity that is free, exact, in nano-bytes; None if unknown. Raises `InvalidQuantity`."""
        return parse(self.capacity) if self.capacity is not None else None


class VolumeAttachmentSource(ApiStruct, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(ApiStruct, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(ApiObject, frozen=True):
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
