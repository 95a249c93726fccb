"""In-tree volumes that a CSI driver serves instead (docs/kube-scheduler/volumes.md §6.1).

VolumeBinding translates them on nodes whose CSINode says so, NodeVolumeLimits on all. The five plugins that
kube-scheduler 1.36 knows: AWS EBS, GCE PD, Azure Disk, Cinder and Portworx.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

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
    zones = [zone for zone in (labels.get(ZONE) or labels.get(BETA_ZONE) or "").split(_ZONE_DELIMITER) if zone]
    if len(zones) > 1:
        return f"projects/UNSPECIFIED/regions/{zones[0].rpartition('-')[0]}/disks/{name}"
    return f"projects/UNSPECIFIED/zones/{zones[0] if zones else 'UNSPECIFIED'}/disks/{name}"


def migrated(volume: PersistentVolume) -> PersistentVolume:
    """The volume as its CSI driver has it: what it required of the zone label is required of the driver's own label.

    Other requirements stay. Volumes of plugins whose driver has no such label come back as they are.
    """
    key = _TOPOLOGY_KEYS.get(in_tree_plugin(volume.spec))
    if key is None:
        return volume
    affinity = volume.spec.node_affinity
    written = affinity.required if affinity is not None and affinity.required is not None else NodeSelectorFields()
    required = _with_driver_zones(written, key)
    if required == written:
        zone = volume.metadata.labels.get(ZONE) or volume.metadata.labels.get(BETA_ZONE)
        if not zone:
            return volume
        required = _in_zone(written, key, zone)
    spec = msgspec.structs.replace(volume.spec, node_affinity=VolumeNodeAffinity(required=required))
    return msgspec.structs.replace(volume, spec=spec)


@lru_cache(maxsize=1024)
def _with_driver_zones(written: NodeSelectorFields, key: str) -> NodeSelectorFields:
    return NodeSelectorFields(
        node_selector_terms=tuple(
            NodeSelectorTermFields(
                match_expressions=tuple(
                    msgspec.structs.replace(part, key=key) if part.key in (ZONE, BETA_ZONE) else part
                    for part in term.match_expressions
                ),
                match_fields=term.match_fields,
            )
            for term in written.node_selector_terms
        )
    )


def _in_zone(written: NodeSelectorFields, key: str, zone: str) -> NodeSelectorFields:
    expression = SelectorExpression(key=key, operator="In", values=(zone,))
    terms = written.node_selector_terms or (NodeSelectorTermFields(),)
    return NodeSelectorFields(
        node_selector_terms=tuple(
            NodeSelectorTermFields(
                match_expressions=(*term.match_expressions, expression), match_fields=term.match_fields
            )
            for term in terms
        )
    )
