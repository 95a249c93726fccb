"""Volume sources that pods and PersistentVolumes share, as far as scheduling reads them."""

from __future__ import annotations

import msgspec

from scheduler.objects.meta import ApiStruct


class GcePersistentDisk(ApiStruct, frozen=True):
    pd_name: str = ""
    read_only: bool = False


class AwsElasticBlockStore(ApiStruct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class Rbd(ApiStruct, frozen=True):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class Iscsi(ApiStruct, frozen=True):
    iqn: str = ""
    read_only: bool = False


class AzureDisk(ApiStruct, frozen=True):
    disk_uri: str = msgspec.field(default="", name="diskURI")
    read_only: bool = False


class Cinder(ApiStruct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class PortworxVolume(ApiStruct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class Csi(ApiStruct, frozen=True):
    """A CSI volume: of a PersistentVolume (with a handle), or inline in a pod (without)."""

    driver: str = ""
    volume_handle: str = ""


class DiskSources(ApiStruct, frozen=True):
    """The sources that pods' volumes and PersistentVolumes have in common; at most one is set."""

    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    rbd: Rbd | None = None
    iscsi: Iscsi | None = None
    azure_disk: AzureDisk | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    csi: Csi | None = None
