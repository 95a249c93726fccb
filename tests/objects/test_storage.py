from __future__ import annotations

from scheduler.objects.quantity import NANO
from scheduler.objects.storage import MIGRATED_PLUGINS_ANNOTATION, SELECTED_NODE_ANNOTATION, STORAGE_CLASS_ANNOTATION
from scheduler.testing.objects import pod
from tests.builders import attachment, claim, csi_capacity, csi_driver, csi_node, storage_class, volume


def test_the_legacy_annotation_beats_the_class_even_when_it_is_empty() -> None:
    assert claim("c", storage_class="new").storage_class == "new"
    assert claim("c", storage_class="new", annotations={STORAGE_CLASS_ANNOTATION: ""}).storage_class == ""
    assert volume("v", storage_class="new", annotations={STORAGE_CLASS_ANNOTATION: "old"}).storage_class == "old"
    assert claim("c").storage_class == ""


def test_a_claim_is_fully_bound_only_with_a_volume_and_the_annotation() -> None:
    assert claim("c", volume="v").is_fully_bound
    assert not claim("c", volume="v", bound=False).is_fully_bound
    assert not claim("c", bound=True).is_fully_bound


def test_a_claim_may_be_pinned_to_a_node() -> None:
    assert claim("c").selected_node is None
    assert claim("c", annotations={SELECTED_NODE_ANNOTATION: "n1"}).selected_node == "n1"


def test_a_volume_belongs_to_a_claim_by_name_and_by_uid_if_it_has_one() -> None:
    mine = claim("c", uid="u1")
    reference = {"namespace": "default", "name": "c"}
    assert volume("v", claimed_by=reference).is_claimed_by(mine)
    assert volume("v", claimed_by=reference | {"uid": "u1"}).is_claimed_by(mine)
    assert not volume("v", claimed_by=reference | {"uid": "u2"}).is_claimed_by(mine)
    assert not volume("v", claimed_by=reference | {"namespace": "other"}).is_claimed_by(mine)
    assert not volume("v").is_claimed_by(mine)


def test_sizes_are_exact() -> None:
    assert claim("c", size="1Gi").requested_storage == 2**30 * NANO
    assert claim("c", size=None).requested_storage is None
    assert volume("v", size="1.5k").storage_capacity == 1500 * NANO


def test_what_is_not_said_has_its_default() -> None:
    assert claim("c").volume_mode == volume("v").volume_mode == "Filesystem"
    assert claim("c", spec={"volumeMode": "Block"}).volume_mode == "Block"
    assert claim("c").volume_attributes_class == volume("v").volume_attributes_class == ""


def test_the_largest_volume_is_the_maximum_or_else_the_capacity() -> None:
    assert csi_capacity("c", "s", capacity="5", maximum="3").limit == 3 * NANO
    assert csi_capacity("c", "s", capacity="5").limit == 5 * NANO
    assert csi_capacity("c", "s").limit is None
    assert csi_capacity("c", "s").node_topology is None
    assert csi_capacity("c", "s", topology={}).node_topology is not None


def test_a_driver_without_a_count_has_no_limit() -> None:
    limited = csi_node("n", {"a": 3, "b": None, "c": 0}, annotations={MIGRATED_PLUGINS_ANNOTATION: "x,y"})
    assert limited.limits == {"a": 3, "c": 0}
    assert limited.migrated_plugins == {"x", "y"}
    assert csi_node("n", {}).migrated_plugins == frozenset()


def test_what_decisions_read_of_classes_drivers_and_attachments_is_decoded() -> None:
    assert storage_class("s").waits_for_first_consumer
    assert not storage_class("s", wait=False).waits_for_first_consumer
    assert csi_driver("d", storageCapacity=True).spec.storage_capacity
    assert csi_driver("d").spec.storage_capacity is None
    attached = attachment("a", "n1", "v1").spec
    assert (attached.node_name, attached.source.persistent_volume_name, attached.attacher) == ("n1", "v1", "csi.test")


def test_the_sources_of_volumes_have_the_names_of_the_api() -> None:
    sources = [
        {"name": "a", "awsElasticBlockStore": {"volumeID": "1", "readOnly": True}},
        {"name": "b", "gcePersistentDisk": {"pdName": "2"}},
        {"name": "c", "azureDisk": {"diskURI": "3", "diskName": "x"}},
        {"name": "d", "cinder": {"volumeID": "4"}},
        {"name": "e", "portworxVolume": {"volumeID": "5"}},
        {"name": "f", "iscsi": {"iqn": "6", "targetPortal": "p", "lun": 1}},
        {"name": "g", "rbd": {"image": "7", "monitors": ["m"], "pool": "p"}},
        {"name": "h", "csi": {"driver": "8"}},
        {"name": "i", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "j", "image": {"reference": "9"}},
    ]
    a, b, c, d, e, f, g, h, i, j = pod(volumes=sources).spec.volumes
    assert a.aws_elastic_block_store is not None and a.aws_elastic_block_store.volume_id == "1"
    assert a.aws_elastic_block_store.read_only
    assert b.gce_persistent_disk is not None and b.gce_persistent_disk.pd_name == "2"
    assert c.azure_disk is not None and c.azure_disk.disk_uri == "3"
    assert d.cinder is not None and d.cinder.volume_id == "4"
    assert e.portworx_volume is not None and e.portworx_volume.volume_id == "5"
    assert f.iscsi is not None and f.iscsi.iqn == "6"
    assert g.rbd is not None and g.rbd.monitors == ("m",)
    assert h.csi is not None and h.csi.driver == "8"
    assert i.ephemeral is not None
    assert j.image is not None and j.image.reference == "9"
