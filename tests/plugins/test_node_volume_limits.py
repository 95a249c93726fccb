"""How many volumes NodeVolumeLimits lets a node have."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import testing
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Hint, Resource
from scheduler.framework.plugin import State
from scheduler.messages.status import SKIP, Code
from scheduler.objects.meta import ApiObject
from scheduler.plugins.node_volume_limits import TOO_MANY, NodeVolumeLimits
from scheduler.testing.fragments import owner_json
from tests import builders
from tests.plugins.clusters import cluster, info, reasons, refusals

PLUGIN = NodeVolumeLimits()
NODES = (testing.node("n1"), testing.node("n2"))
EBS = "kubernetes.io/aws-ebs"


def limited(count: int | None = 1, **fields: Any) -> list[ApiObject]:
    return [builders.csi_node(name, {"csi.test": count}, **fields) for name in ("n1", "n2")]


def bound(*names: str, handle: str = "") -> list[ApiObject]:
    """Claims, each with a volume of its own unless a handle is given."""
    claims = [builders.claim(name, volume=f"pv-{name}") for name in names]
    volumes = [builders.volume(f"pv-{name}", csi=("csi.test", handle or f"h-{name}")) for name in names]
    return [*claims, *volumes]


def user(name: str, *claims: str, node: str = "n1") -> Any:
    return testing.pod(name, node=node, claims=claims)


def test_a_node_that_has_all_it_can_attach_is_refused() -> None:
    view = cluster(NODES, [user("u", "a")], [*limited(), *bound("a", "b")])
    assert refusals(PLUGIN, info(claims=["b"]), view) == {"n1": TOO_MANY}
    assert TOO_MANY.code is Code.UNSCHEDULABLE


def test_why_says_how_many_volumes_a_full_node_has_attached() -> None:
    view = cluster(NODES, [user("u", "a")], [*limited(2), *bound("a", "b", "c")])
    for claims, said in ((["b", "c"], "2 volumes"), (["b"], "")):
        state = PLUGIN.pre_filter(info(claims=claims), view)
        assert isinstance(state, State)
        found = PLUGIN.why_not(state, info(claims=claims), view, view.ordered_rows)
        wanted = [(1, ("n1",), (f"csi.test: {said} wanted, 1 of 2 attached",))] if said else []
        assert [(one.count, one.nodes, one.lines) for one in found] == wanted


def test_the_pods_own_volumes_count_together() -> None:
    view = cluster(NODES, [user("u", "a")], [*limited(2), *bound("a", "b", "c")])
    assert set(refusals(PLUGIN, info(claims=["b", "c"]), view)) == {"n1"}


def test_a_volume_that_a_pod_there_has_is_not_new() -> None:
    view = cluster(NODES, [user("u", "a")], [*limited(), *bound("a")])
    assert refusals(PLUGIN, info(claims=["a"]), view) == {}


def test_one_volume_behind_two_claims_counts_once() -> None:
    view = cluster(NODES, [user("u", "a"), user("w", "b")], [*limited(2), *bound("a", "b", handle="one"), *bound("c")])
    assert refusals(PLUGIN, info(claims=["c"]), view) == {}


@pytest.mark.parametrize("csi_nodes", [[], limited(None)])
def test_without_a_count_there_is_no_limit(csi_nodes: list[ApiObject]) -> None:
    view = cluster(NODES, [user("u", "a")], [*csi_nodes, *bound("a", "b")])
    assert refusals(PLUGIN, info(claims=["b"]), view) == {}


def test_a_limit_of_zero_takes_nothing() -> None:
    view = cluster(NODES, objects=[*limited(0), *bound("a")])
    assert set(refusals(PLUGIN, info(claims=["a"]), view)) == {"n1", "n2"}


def test_a_claim_whose_volume_is_yet_to_be_made_counts_for_its_class() -> None:
    objects = [*limited(), builders.storage_class("later"), builders.claim("new", storage_class="later"), *bound("a")]
    view = cluster(NODES, [user("u", "a")], objects)
    assert set(refusals(PLUGIN, info(claims=["new"]), view)) == {"n1"}


def test_a_claim_without_a_known_class_does_not_count() -> None:
    view = cluster(NODES, [user("u", "a")], [*limited(), builders.claim("new", storage_class="none"), *bound("a")])
    assert refusals(PLUGIN, info(claims=["new"]), view) == {}


def test_volumes_that_are_still_attached_count_without_a_pod() -> None:
    objects = [*limited(), *bound("a", "b"), builders.attachment("left-over", "n2", "pv-a")]
    assert set(refusals(PLUGIN, info(claims=["b"]), cluster(NODES, objects=objects))) == {"n2"}


def test_an_attachment_of_a_pods_volume_counts_once() -> None:
    objects = [*limited(2), *bound("a", "b"), builders.attachment("in-use", "n1", "pv-a")]
    assert refusals(PLUGIN, info(claims=["b"]), cluster(NODES, [user("u", "a")], objects)) == {}


def test_a_volume_that_is_attached_but_of_no_pod_is_counted_twice() -> None:
    objects = [*limited(), *bound("a"), builders.attachment("left-over", "n1", "pv-a")]
    assert set(refusals(PLUGIN, info(claims=["a"]), cluster(NODES, objects=objects))) == {"n1"}


def test_a_missing_claim_is_reported_for_every_node() -> None:
    text = 'looking up PVC default/none: persistentvolumeclaim "none" not found'
    assert reasons(PLUGIN, info(claims=["none"]), cluster(NODES)) == {"n1": (text,), "n2": (text,)}


def test_a_foreign_claim_under_an_ephemeral_volumes_name_is_an_error() -> None:
    pod = info(volumes=[{"name": "scratch", "ephemeral": {}}])
    view = cluster(NODES, objects=[builders.claim("pending-scratch")])
    found = refusals(PLUGIN, pod, view)
    assert {refusal.code for refusal in found.values()} == {Code.ERROR}
    assert found["n1"].reasons == (
        "PVC default/pending-scratch was not created for pod default/pending (pod is not owner)",
    )


def test_a_running_pods_foreign_claim_counts_for_nothing_and_keeps_no_other_pod_from_its_node() -> None:
    running = testing.pod("u", node="n1", volumes=[{"name": "scratch", "ephemeral": {}}])
    view = cluster(NODES, [running], [*limited(), *bound("a"), builders.claim("u-scratch", volume="pv-a")])
    assert not refusals(PLUGIN, info(claims=["a"]), view)


def test_an_ephemeral_volume_of_the_pods_own_counts() -> None:
    pod = info(volumes=[{"name": "scratch", "ephemeral": {}}])
    own = builders.claim(
        "pending-scratch", volume="pv-a", owner=owner_json("Pod", "pending", uid=pod.uid, api_version="v1")
    )
    view = cluster(NODES, [user("u", "b")], [*limited(), *bound("a", "b"), own])
    assert set(refusals(PLUGIN, pod, view)) == {"n1"}


IN_TREE: list[tuple[str, dict[str, Any], str]] = [
    ("ebs.csi.aws.com", {"awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}}, EBS),
    ("pd.csi.storage.gke.io", {"gcePersistentDisk": {"pdName": "disk-1"}}, "kubernetes.io/gce-pd"),
    ("disk.csi.azure.com", {"azureDisk": {"diskName": "disk-1", "diskURI": "/disk-1"}}, "kubernetes.io/azure-disk"),
    ("cinder.csi.openstack.org", {"cinder": {"volumeID": "vol-1"}}, "kubernetes.io/cinder"),
    ("pxd.portworx.com", {"portworxVolume": {"volumeID": "vol-1"}}, "kubernetes.io/portworx-volume"),
]


@pytest.mark.parametrize(("driver", "source", "plugin"), IN_TREE)
def test_an_inline_in_tree_volume_counts_whether_or_not_the_node_lists_its_plugin_as_migrated(
    driver: str, source: dict[str, Any], plugin: str
) -> None:
    nodes = [
        builders.csi_node("n1", {driver: 0}),
        builders.csi_node("n2", {driver: 0}, annotations={"storage.alpha.kubernetes.io/migrated-plugins": plugin}),
    ]
    pod = info(volumes=[{"name": "v", **source}])
    assert refusals(PLUGIN, pod, cluster(NODES, objects=nodes)) == {"n1": TOO_MANY, "n2": TOO_MANY}


@pytest.mark.parametrize(("driver", "source", "plugin"), IN_TREE)
def test_an_in_tree_volume_behind_a_claim_and_a_claim_of_an_in_tree_class_count(
    driver: str, source: dict[str, Any], plugin: str
) -> None:
    objects = [
        builders.csi_node("n1", {driver: 1}),
        builders.csi_node("n2", {driver: 2}),
        builders.claim("made", volume="pv"),
        builders.volume("pv", spec=source),
        builders.storage_class("in-tree", plugin),
        builders.claim("to-be-made", storage_class="in-tree"),
    ]
    view = cluster(NODES, [user("u", "made", node="n1"), user("w", "made", node="n2")], objects)
    assert set(refusals(PLUGIN, info(claims=["to-be-made"]), view)) == {"n1"}


def test_an_in_tree_volume_on_a_node_without_a_csi_node_has_no_limit() -> None:
    pod = info(volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}])
    view = cluster(NODES, objects=[builders.csi_node("n1", {"ebs.csi.aws.com": 0})])
    assert set(refusals(PLUGIN, pod, view)) == {"n1"}


def test_the_same_volume_inline_and_behind_a_claim_of_one_pod_counts_once() -> None:
    objects = [
        builders.csi_node("n1", {"ebs.csi.aws.com": 1}),
        builders.claim("a", volume="pv"),
        builders.volume("pv", csi=("ebs.csi.aws.com", "vol-1")),
    ]
    pod = info(claims=["a"], volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}}])
    assert refusals(PLUGIN, pod, cluster(NODES, objects=objects)) == {}


@pytest.mark.parametrize(
    "source",
    [
        {"awsElasticBlockStore": {"volumeID": "aws://zone/disk-1"}},
        {"azureDisk": {"diskName": "disk-1", "diskURI": "/disk-1", "kind": "Shared"}},
    ],
)
def test_an_in_tree_volume_that_no_driver_could_attach_counts_and_ends_no_attempt(source: dict[str, Any]) -> None:
    driver = "ebs.csi.aws.com" if "awsElasticBlockStore" in source else "disk.csi.azure.com"
    objects = [
        builders.csi_node("n1", {driver: 1}),
        builders.csi_node("n2", {driver: 2}),
        builders.claim("a", volume="pv"),
        builders.volume("pv", csi=(driver, "vol-1")),
    ]
    odd = [{"name": "v", **source}]
    running = [testing.pod(f"odd-{name}", node=name, spec={"volumes": odd}) for name in ("n1", "n2")]
    view = cluster(NODES, running, objects)
    assert refusals(PLUGIN, info(claims=["a"]), view) == {"n1": TOO_MANY}
    assert refusals(PLUGIN, info(volumes=odd), cluster(NODES, objects=objects)) == {}


def test_an_in_tree_volume_is_the_drivers_volume_of_the_same_handle() -> None:
    nodes = [builders.csi_node("n1", {"ebs.csi.aws.com": 1})]
    objects = [
        builders.claim("a", volume="pv"),
        builders.volume("pv", csi=("ebs.csi.aws.com", "vol-1")),
    ]
    pod = info(volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}}])
    assert refusals(PLUGIN, pod, cluster(NODES, [user("u", "a")], [*nodes, *objects])) == {}


@pytest.mark.parametrize("volumes", [[], [{"name": "v", "configMap": {}}], [{"name": "v", "iscsi": {"iqn": "x"}}]])
def test_pods_without_attachable_volumes_are_skipped(volumes: list[Any]) -> None:
    assert PLUGIN.pre_filter(info(volumes=volumes), cluster(NODES)) is SKIP


def test_a_pod_taken_away_makes_room() -> None:
    view = cluster(NODES, [user("u", "a")], [*limited(), *bound("a", "b")])
    pod = info(claims=["b"])
    state = PLUGIN.pre_filter(pod, view)
    assert isinstance(state, State)
    private = view.one_row(0)
    assert PLUGIN.filter_row(state, pod, private, 0) == TOO_MANY
    private.remove_pod("pod-u")
    assert PLUGIN.filter_row(state, pod, private, 0) is None


def hint(resource: Resource, pod: PodInfo, old: Any, new: Any) -> Hint:
    return next(each.hint(pod, old, new) for each in PLUGIN.events() if each.event.resource is resource)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"d": 1}, {"d": 2}, Hint.QUEUE),
        ({"d": 2}, {"d": 1}, Hint.SKIP),
        ({}, {"d": 1}, Hint.QUEUE),
        ({}, {"d": 0}, Hint.SKIP),
        ({"d": 1}, {"d": None}, Hint.SKIP),
    ],
)
def test_a_raised_limit_wakes_the_pod(before: Any, after: Any, expected: Hint) -> None:
    found = hint(Resource.CSI_NODE, info(claims=["a"]), builders.csi_node("n", before), builders.csi_node("n", after))
    assert found is expected


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (testing.pod("x", node="n", claims=["z"]), Hint.QUEUE),
        (testing.pod("x", nominated="n", volumes=[{"name": "v", "ephemeral": {}}]), Hint.QUEUE),
        (testing.pod("x", claims=["z"]), Hint.SKIP),
        (testing.pod("x", node="n"), Hint.SKIP),
    ],
)
def test_the_end_of_a_pod_with_volumes_on_a_node_wakes_the_pod(gone: Any, expected: Hint) -> None:
    assert hint(Resource.POD, info(claims=["a"]), PodInfo(gone), None) is expected


def test_a_detached_volume_wakes_pods_with_claims_or_disks_of_that_attacher() -> None:
    def woken(attacher: str, **fields: Any) -> Hint:
        gone = builders.attachment("x", "n", "v", attacher)
        return hint(Resource.VOLUME_ATTACHMENT, info(**fields), gone, None)

    disk = {"name": "v", "awsElasticBlockStore": {"volumeID": "vol"}}
    assert woken("any", claims=["a"]) is Hint.QUEUE
    assert woken("ebs.csi.aws.com", volumes=[disk]) is Hint.QUEUE
    assert woken("other", volumes=[disk]) is Hint.SKIP
    assert woken("any", volumes=[{"name": "v", "ephemeral": {}}]) is Hint.SKIP
