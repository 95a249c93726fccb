"""Which nodes VolumeZone allows."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.events import Hint, Resource
from scheduler.messages.status import SKIP, Code, Refusal
from scheduler.plugins.volume_zone import OTHER_ZONE, VolumeZone
from scheduler.testing.objects import build, node
from tests import builders
from tests.plugins.clusters import cluster, info, refusals

PLUGIN = VolumeZone()
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def refused(volume_labels: dict[str, str], **node_labels: dict[str, str]) -> set[str]:
    nodes = [node(name, labels=labels) for name, labels in node_labels.items()]
    objects = [builders.claim("c", volume="v"), builders.volume("v", labels=volume_labels)]
    found = refusals(PLUGIN, info(claims=["c"]), cluster(nodes, objects=objects))
    assert set(found.values()) <= {OTHER_ZONE}
    return set(found)


def test_a_node_of_another_zone_is_refused() -> None:
    assert refused({ZONE: "a"}, here={ZONE: "a"}, there={ZONE: "b"}) == {"there"}


def test_a_node_without_any_zone_label_is_let_pass() -> None:
    assert refused({ZONE: "a"}, bare={"kubernetes.io/hostname": "bare"}) == set()


def test_a_node_with_only_a_region_lacks_the_zone() -> None:
    assert refused({ZONE: "a"}, half={REGION: "r"}) == {"half"}


def test_a_volume_of_several_zones_allows_each() -> None:
    assert refused({ZONE: "a__ b"}, one={ZONE: "a"}, two={ZONE: "b"}, three={ZONE: "c"}) == {"three"}


def test_a_label_with_an_empty_piece_is_ignored() -> None:
    assert refused({ZONE: "a__"}, there={ZONE: "b"}) == set()


def test_an_older_label_of_the_volume_accepts_the_newer_one_of_the_node() -> None:
    assert refused({OLD_ZONE: "a"}, new={ZONE: "a"}, other={ZONE: "b"}) == {"other"}


def test_a_newer_label_of_the_volume_does_not_accept_the_older_one_of_the_node() -> None:
    assert refused({ZONE: "a"}, old={OLD_ZONE: "a"}) == {"old"}


def test_zone_and_region_must_both_fit() -> None:
    assert refused({ZONE: "a", OLD_REGION: "r"}, both={ZONE: "a", REGION: "r"}, one={ZONE: "a", REGION: "s"}) == {"one"}


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (None, 'persistentvolumeclaim "c" not found'),
        (builders.claim("c", volume="gone"), 'persistentvolume "gone" not found'),
        (builders.claim("c"), "PersistentVolumeClaim had no pv name and storageClass name"),
        (builders.claim("c", storage_class="none"), 'storageclass.storage.k8s.io "none" not found'),
        (builders.claim("c", storage_class="at-once"), "PersistentVolume had no name"),
        (builders.claim("c", storage_class="modeless"), 'VolumeBindingMode not set for StorageClass "modeless"'),
    ],
)
def test_a_claim_that_cannot_be_followed_refuses_the_pod(claim: Any, reason: str) -> None:
    classes = [
        builders.storage_class("at-once", wait=False),
        build(type(builders.storage_class("x")), {"metadata": {"name": "modeless"}, "provisioner": "p"}),
    ]
    view = cluster([node("n")], objects=[*classes, *([claim] if claim is not None else [])])
    answer = PLUGIN.pre_filter(info(claims=["c"]), view)
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.reasons) == (Code.UNRESOLVABLE, (reason,))


def test_a_claim_that_waits_for_its_node_is_left_to_volume_binding() -> None:
    objects = [builders.storage_class("later"), builders.claim("c", storage_class="later")]
    assert PLUGIN.pre_filter(info(claims=["c"]), cluster([node("n")], objects=objects)) is SKIP


def test_generic_ephemeral_volumes_are_not_looked_at() -> None:
    pod = info(volumes=[{"name": "scratch", "ephemeral": {}}])
    assert PLUGIN.pre_filter(pod, cluster([node("n")])) is SKIP


def hint(resource: Resource, old: Any, new: Any) -> Hint:
    pod = info(claims=["c"])
    return next(each.hint(pod, old, new) for each in PLUGIN.events() if each.event.resource is resource)


def test_a_volume_wakes_the_pod_when_its_zones_change() -> None:
    one, other = builders.volume("v", labels={ZONE: "a"}), builders.volume("v", labels={ZONE: "a", "x": "y"})
    assert hint(Resource.PERSISTENT_VOLUME, one, other) is Hint.SKIP
    assert hint(Resource.PERSISTENT_VOLUME, one, builders.volume("v")) is Hint.QUEUE
    assert hint(Resource.PERSISTENT_VOLUME, None, one) is Hint.QUEUE


def test_only_a_class_that_waits_wakes_the_pod() -> None:
    assert hint(Resource.STORAGE_CLASS, None, builders.storage_class("later")) is Hint.QUEUE
    assert hint(Resource.STORAGE_CLASS, None, builders.storage_class("now", wait=False)) is Hint.SKIP
