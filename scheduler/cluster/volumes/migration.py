"""In-tree volumes that a CSI driver serves instead (docs/kube-scheduler/volumes.md §6.1).

VolumeBinding translates them on nodes whose CSINode says so, NodeVolumeLimits on all. The five plugins that
kube-scheduler 1.36 knows: AWS EBS, GCE PD, Azure Disk, Cinder and Portworx.
"""

from __future__ import annotations

import msgspec

from scheduler.cluster.volumes.storage_selectors import is_long_affinity
from scheduler.objects.memo import memo
from scheduler.objects.selector_fields import NodeSelectorFields, NodeSelectorTermFields, SelectorExpression
from scheduler.objects.storage import PersistentVolume, VolumeNodeAffinity
from scheduler.objects.volume_sources import DiskSources

AWS_EBS = "kubernetes.io/aws-ebs"
GCE_PD = "kubernetes.io/gce-pd"
AZURE_DISK = "kubernetes.io/azure-disk"
CINDER = "kubernetes.io/cinder"
PORTWORX = "kubernetes.io/portworx-volume"

CSI_DRIVERS = {
    AWS_EBS: "ebs.csi.aws.com",
    GCE_PD: "pd.csi.storage.gke.io",
    AZURE_DISK: "disk.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    PORTWORX: "pxd.portworx.com",
}
"""In-tree plugin → the driver that serves its volumes."""

_TOPOLOGY_KEYS = {
    AWS_EBS: "topology.ebs.csi.aws.com/zone",
    GCE_PD: "topology.gke.io/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}
"""Plugins whose driver has a label of its own for zones."""

ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
_REGION = "topology.kubernetes.io/region"
_BETA_REGION = "failure-domain.beta.kubernetes.io/region"
_ZONE_DELIMITER = "__"


def in_tree_plugin(source: DiskSources) -> str:
    """The migratable plugin that a volume belongs to; "" if it belongs to none."""
    if source.aws_elastic_block_store is not None:
        return AWS_EBS
    if source.gce_persistent_disk is not None:
        return GCE_PD
    if source.azure_disk is not None:
        return AZURE_DISK
    if source.cinder is not None:
        return CINDER
    if source.portworx_volume is not None:
        return PORTWORX
    return ""


def csi_handle(source: DiskSources, labels: dict[str, str] | None = None) -> str:
    """What the driver calls the volume. ``labels``: of a PersistentVolume, None for a volume that a pod has inline."""
    if source.aws_elastic_block_store is not None:
        return source.aws_elastic_block_store.volume_id.rpartition("/")[2]
    if source.gce_persistent_disk is not None:
        return _gce_handle(source.gce_persistent_disk.pd_name, labels or {})
    if source.azure_disk is not None:
        return source.azure_disk.disk_uri
    if source.cinder is not None:
        return source.cinder.volume_id
    return source.portworx_volume.volume_id if source.portworx_volume is not None else ""


def _gce_handle(name: str, labels: dict[str, str]) -> str:
    """Of two zone labels the old one counts here, and only here."""
    zones = [zone for zone in (labels.get(BETA_ZONE) or labels.get(ZONE) or "").split(_ZONE_DELIMITER) if zone]
    if len(zones) > 1:
        return f"projects/UNSPECIFIED/regions/{zones[0].rpartition('-')[0]}/disks/{name}"
    return f"projects/UNSPECIFIED/zones/{zones[0] if zones else 'UNSPECIFIED'}/disks/{name}"


def migrated(volume: PersistentVolume) -> PersistentVolume:
    """The volume as its CSI driver has it: what it required of the zone label is required of the driver's own label.

    Zones that only its label names are required, too: one of them, where it is in several. Beside the old zone label
    the old region label becomes the present one. Other requirements stay. Volumes of plugins whose driver has no such
    label come back as they are.
    """
    key = _TOPOLOGY_KEYS.get(in_tree_plugin(volume.spec))
    if key is None:
        return volume
    affinity = volume.spec.node_affinity
    written = affinity.required if affinity is not None and affinity.required is not None else NodeSelectorFields()
    is_old = _has_old_labels(written, volume.metadata.labels)
    zone_label = BETA_ZONE if is_old else ZONE
    required = written
    if _has_values(written, zone_label):
        required = _renamed(written, zone_label, key)
    elif zones := _zones_of(volume.metadata.labels.get(zone_label, "")):
        required = _in_zones(written, key, zones)
    if is_old and _has_values(written, _BETA_REGION):
        required = _renamed(required, _BETA_REGION, _REGION)
    if required == written:
        return volume
    spec = msgspec.structs.replace(volume.spec, node_affinity=VolumeNodeAffinity(required=required))
    return msgspec.structs.replace(volume, spec=spec)


def _has_old_labels(written: NodeSelectorFields, labels: dict[str, str]) -> bool:
    """Whether the labels of before 1.17 are those that count: the requirements say so, else the volume's own labels."""
    keys = {part.key for term in written.node_selector_terms for part in term.match_expressions}
    for present in (keys, labels.keys()):
        if ZONE in present:
            return False
        if BETA_ZONE in present:
            return True
    return False


def _has_values(written: NodeSelectorFields, label: str) -> bool:
    return any(
        part.key == label and part.values for term in written.node_selector_terms for part in term.match_expressions
    )


@memo(1024, lambda written, label, key: is_long_affinity(written))
def _renamed(written: NodeSelectorFields, label: str, key: str) -> NodeSelectorFields:
    return NodeSelectorFields(
        node_selector_terms=tuple(
            NodeSelectorTermFields(
                match_expressions=tuple(
                    msgspec.structs.replace(part, key=key) if part.key == label else part
                    for part in term.match_expressions
                ),
                match_fields=term.match_fields,
            )
            for term in written.node_selector_terms
        )
    )


def _zones_of(label: str) -> tuple[str, ...]:
    return tuple(sorted({zone for zone in label.split(_ZONE_DELIMITER) if zone}))


def _in_zones(written: NodeSelectorFields, key: str, zones: tuple[str, ...]) -> NodeSelectorFields:
    expression = SelectorExpression(key=key, operator="In", values=zones)
    terms = written.node_selector_terms or (NodeSelectorTermFields(),)
    return NodeSelectorFields(
        node_selector_terms=tuple(
            NodeSelectorTermFields(
                match_expressions=(*term.match_expressions, expression), match_fields=term.match_fields
            )
            for term in terms
        )
    )
