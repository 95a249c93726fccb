"""In-tree volumes as their CSI drivers know them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.cluster.volumes.migration import CSI_DRIVERS, csi_handle, in_tree_plugin, migrated
from scheduler.cluster.volumes.pools import reaches
from scheduler.objects.storage import PersistentVolume
from scheduler.testing.fragments import node_term
from tests import builders

GA, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
EBS = {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}


def volume(source: dict[str, Any], *terms: str, **labels: str) -> PersistentVolume:
    affinity = [node_term(*term.split("; ")) for term in terms] or None
    return builders.volume("v", spec=source, node_affinity=affinity, labels=labels or None)


@pytest.mark.parametrize(
    ("source", "labels", "driver", "handle"),
    [
        (EBS, {}, "ebs.csi.aws.com", "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "vol-2"}}, {}, "ebs.csi.aws.com", "vol-2"),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {GA: "us-a"},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/us-a/disks/d",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {BETA: "us-east1-a__us-east1-b"},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/regions/us-east1/disks/d",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {GA: "us-a", BETA: "us-b"},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/us-b/disks/d",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
        ),
        ({"azureDisk": {"diskName": "d", "diskURI": "/uri"}}, {}, "disk.csi.azure.com", "/uri"),
        ({"cinder": {"volumeID": "x"}}, {}, "cinder.csi.openstack.org", "x"),
        ({"portworxVolume": {"volumeID": "x"}}, {}, "pxd.portworx.com", "x"),
    ],
)
def test_each_plugin_has_a_driver_that_knows_its_volumes(
    source: dict[str, Any], labels: dict[str, str], driver: str, handle: str
) -> None:
    spec = volume(source).spec
    assert CSI_DRIVERS[in_tree_plugin(spec)] == driver
    assert csi_handle(spec, labels) == handle


def test_other_volumes_are_not_migrated() -> None:
    assert in_tree_plugin(volume({"iscsi": {"iqn": "x"}}).spec) == ""


@pytest.mark.parametrize("zone_label", [GA, BETA])
def test_a_required_zone_becomes_the_drivers(zone_label: str) -> None:
    moved = migrated(volume(EBS, f"{zone_label} In a,b"))
    assert reaches(moved, {"topology.ebs.csi.aws.com/zone": "b"})
    assert not reaches(moved, {zone_label: "b"})


def test_a_zone_that_only_the_volumes_label_names_is_required() -> None:
    moved = migrated(volume(EBS, **{GA: "a"}))
    assert reaches(moved, {"topology.ebs.csi.aws.com/zone": "a"})
    assert not reaches(moved, {})


@pytest.mark.parametrize("zone_label", [GA, BETA])
def test_a_volume_of_several_zones_is_reached_from_each_of_them(zone_label: str) -> None:
    moved = migrated(volume({"gcePersistentDisk": {"pdName": "d"}}, **{zone_label: "us-east1-b__us-east1-c"}))
    assert reaches(moved, {"topology.gke.io/zone": "us-east1-b"})
    assert reaches(moved, {"topology.gke.io/zone": "us-east1-c"})
    assert not reaches(moved, {"topology.gke.io/zone": "us-east1-d"})


def test_a_region_required_by_its_old_label_is_that_of_the_present_label() -> None:
    moved = migrated(volume(EBS, f"{BETA} In a; failure-domain.beta.kubernetes.io/region In east"))
    zone = {"topology.ebs.csi.aws.com/zone": "a"}
    assert reaches(moved, {**zone, "topology.kubernetes.io/region": "east"})
    assert not reaches(moved, {**zone, "topology.kubernetes.io/region": "west"})


def test_beside_a_required_zone_the_old_label_stays_what_it_is() -> None:
    moved = migrated(volume(EBS, f"{GA} In a; {BETA} In b", **{BETA: "c"}))
    assert reaches(moved, {"topology.ebs.csi.aws.com/zone": "a", BETA: "b"})
    assert not reaches(moved, {"topology.ebs.csi.aws.com/zone": "a"})


def test_a_zone_label_that_must_only_exist_leaves_the_volumes_own_zone_to_be_required() -> None:
    moved = migrated(volume(EBS, f"{GA} Exists", **{GA: "a"}))
    assert reaches(moved, {"topology.ebs.csi.aws.com/zone": "a", GA: "z"})
    assert not reaches(moved, {"topology.ebs.csi.aws.com/zone": "b", GA: "a"})


def test_requirements_on_other_labels_than_the_zone_stay() -> None:
    assert not reaches(migrated(volume(EBS, "disk In ssd")), {"topology.ebs.csi.aws.com/zone": "a"})
    plain = volume({"azureDisk": {"diskURI": "x"}}, f"{GA} In a")
    assert migrated(plain) is plain
