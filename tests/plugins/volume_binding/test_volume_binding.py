"""Which nodes VolumeBinding allows a pod's claims."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler import testing
from scheduler.config.args import decode_args
from scheduler.messages.status import SKIP, Code, Refusal
from scheduler.objects.meta import ApiObject
from scheduler.objects.storage import StorageClass
from scheduler.plugins.volume_binding.volume_binding import (
    BIND_CONFLICT,
    NODE_CONFLICT,
    NOT_ENOUGH_SPACE,
    VOLUME_NOT_FOUND,
    Claims,
    VolumeBinding,
    VolumeBindingArgs,
)
from scheduler.testing.objects import build
from tests import builders
from tests.plugins.clusters import cluster, info, reasons, refusals
from tests.plugins.volume_cases import TWO_ZONES, ZONE, delayed, free, no_provisioner, reference, terminating

PLUGIN = VolumeBinding()
Reasons = dict[str, tuple[str, ...]]


def found(*objects: ApiObject, claims: tuple[str, ...] = ("c",), **fields: Any) -> Reasons:
    view = cluster(TWO_ZONES, objects=objects)
    return reasons(PLUGIN, info(claims=claims, **fields), view)


def everywhere(*texts: str) -> Reasons:
    return dict.fromkeys(("a1", "a2", "b1"), texts)


# --- the pod as a whole -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "line"),
    [
        (
            [builders.claim("c")],
            "claim default/c names no StorageClass, and waits for a volume without a class to be bound to it",
        ),
        (
            [builders.claim("c", storage_class="gone")],
            "claim default/c names StorageClass gone, which is not there",
        ),
        (
            [builders.storage_class("now", wait=False), builders.claim("c", storage_class="now")],
            "claim default/c has no volume yet: csi.test of class now is to make it",
        ),
        (
            [
                builders.storage_class("none", "kubernetes.io/no-provisioner", wait=False),
                builders.claim("c", storage_class="none"),
            ],
            "claim default/c waits for a volume of class none, which makes none, to be bound to it",
        ),
        (
            [no_provisioner(), delayed(volume="v", bound=False)],
            "claim default/c is not bound to volume v yet, which it names",
        ),
    ],
)
def test_people_are_shown_which_claim_is_to_be_bound_first_and_what_it_lacks(
    objects: list[ApiObject], line: str
) -> None:
    (shown,) = PLUGIN.findings(info(claims=("c", "d")), cluster(TWO_ZONES, objects=objects))
    assert shown.lines == (line,)


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        (
            [builders.claim("c", volume="pv", status={"phase": "Lost"})],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "pv"',
        ),
        ([builders.claim("c", deleted="2026-01-01T00:00:00Z")], 'persistentvolumeclaim "c" is being deleted'),
        ([builders.claim("c")], "pod has unbound immediate PersistentVolumeClaims"),
        ([builders.claim("c", storage_class="unknown")], "pod has unbound immediate PersistentVolumeClaims"),
        (
            [builders.storage_class("now", wait=False), builders.claim("c", storage_class="now")],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            [builders.storage_class("later"), delayed("c", volume="pv", bound=False)],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ],
)
def test_a_claim_that_is_not_fit_for_use_refuses_the_pod(objects: list[ApiObject], reason: str) -> None:
    answer = PLUGIN.pre_filter(info(claims=["c"]), cluster(TWO_ZONES, objects=objects))
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.reasons) == (Code.UNRESOLVABLE, (reason,))


def test_a_class_without_a_binding_mode_is_an_error() -> None:
    modeless = build(StorageClass, {"metadata": {"name": "later"}, "provisioner": "p"})
    answer = PLUGIN.pre_filter(info(claims=["c"]), cluster(TWO_ZONES, objects=[modeless, delayed()]))
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.reasons) == (Code.ERROR, ('VolumeBindingMode not set for StorageClass "later"',))


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'waiting for ephemeral volume controller to create the persistentvolumeclaim "pending-v"'),
        (
            [builders.claim("pending-v", volume="pv")],
            "PVC default/pending-v was not created for pod default/pending (pod is not owner)",
        ),
    ],
)
def test_an_ephemeral_volume_needs_the_claim_that_was_made_for_it(objects: list[ApiObject], reason: str) -> None:
    pod = info(volumes=[{"name": "v", "ephemeral": {}}])
    answer = PLUGIN.pre_filter(pod, cluster(TWO_ZONES, objects=objects))
    assert isinstance(answer, Refusal)
    assert answer.reasons == (reason,)


def test_a_pod_without_claims_is_skipped() -> None:
    pod = info(volumes=[{"name": "v", "configMap": {}}])
    assert PLUGIN.pre_filter(pod, cluster(TWO_ZONES)) is SKIP
    assert PLUGIN.pre_filter(info(), cluster(TWO_ZONES)) is SKIP


# --- bound claims -----------------------------------------------------------------------------------------------------


def test_a_bound_volume_keeps_the_pod_to_its_nodes() -> None:
    assert found(builders.claim("c", volume="v"), free("v", at=f"{ZONE} In a")) == {"b1": (NODE_CONFLICT,)}


def test_a_bound_volume_without_node_affinity_goes_everywhere() -> None:
    assert found(builders.claim("c", volume="v"), free("v")) == {}


def test_fields_of_a_volumes_node_affinity_are_not_looked_at() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a1"]}]}
    assert found(builders.claim("c", volume="v"), builders.volume("v", node_affinity=[term])) == {}


def test_a_missing_volume_closes_the_nodes_that_no_earlier_claim_closed() -> None:
    objects = [builders.claim("c", volume="v"), free("v", at=f"{ZONE} In a"), builders.claim("d", volume="gone")]
    assert found(*objects, claims=("c", "d")) == {
        "a1": (VOLUME_NOT_FOUND,),
        "a2": (VOLUME_NOT_FOUND,),
        "b1": (NODE_CONFLICT,),
    }


def test_a_migrated_in_tree_volume_is_held_against_the_drivers_zone_label() -> None:
    key = "topology.ebs.csi.aws.com/zone"
    nodes = [
        testing.node("csi", labels={ZONE: "b", key: "a"}),
        testing.node("in-tree", labels={ZONE: "b", key: "a"}),
        testing.node("plain", labels={ZONE: "a"}),
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
    volume = free("v", at=f"{ZONE} In a", spec={"awsElasticBlockStore": {"volumeID": "vol-1"}})
    view = cluster(
        nodes,
        objects=[builders.claim("c", volume="v"), volume, builders.csi_node("csi", {}, annotations=annotations)],
    )
    assert reasons(PLUGIN, info(claims=["c"]), view) == {"in-tree": (NODE_CONFLICT,)}


# --- existing volumes for delayed claims ------------------------------------------------------------------------------


def test_a_free_volume_serves_the_nodes_that_it_allows() -> None:
    assert found(no_provisioner(), delayed(), free("v", at=f"{ZONE} In a")) == {"b1": (BIND_CONFLICT,)}


@pytest.mark.parametrize(
    "volume",
    [
        free("v", "5Gi"),
        free("v", storage_class="other"),
        free("v", modes=["ReadOnlyMany"]),
        free("v", phase="Released"),
        free("v", claimed_by={"namespace": "default", "name": "other", "uid": "x"}),
        free("v", claimed_by={"namespace": "default", "name": "c", "uid": "another"}),
        free("v", spec={"volumeMode": "Block"}),
        free("v", spec={"volumeAttributesClassName": "gold"}),
        terminating(free("v")),
    ],
)
def test_a_volume_that_the_claim_cannot_use_does_not_count(volume: ApiObject) -> None:
    assert found(no_provisioner(), delayed(), volume) == everywhere(BIND_CONFLICT)


def test_a_claims_selector_is_held_against_the_volumes_labels() -> None:
    claim = delayed(spec={"selector": {"matchLabels": {"tier": "fast"}}})
    slow = free("slow", labels={"tier": "slow"})
    assert found(no_provisioner(), claim, slow) == everywhere(BIND_CONFLICT)
    assert found(no_provisioner(), claim, slow, free("fast", labels={"tier": "fast"})) == {}


def test_a_selector_that_makes_no_sense_is_an_error() -> None:
    claim = delayed(spec={"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}})
    view = cluster(TWO_ZONES, objects=[no_provisioner(), claim])
    codes = {refusal.code for refusal in refusals(PLUGIN, info(claims=["c"]), view).values()}
    assert codes == {Code.ERROR}


def test_a_volume_set_aside_for_the_claim_is_the_only_one_that_will_do() -> None:
    claim = delayed()
    mine = free("mine", "50Gi", at=f"{ZONE} In b", claimed_by=reference(claim, uid=""))
    assert found(no_provisioner(), claim, mine, free("other")) == {"a1": (BIND_CONFLICT,), "a2": (BIND_CONFLICT,)}


def test_two_claims_do_not_share_a_volume() -> None:
    objects = [no_provisioner(), delayed("c"), delayed("d"), free("v", at=f"{ZONE} In a"), free("w", at=f"{ZONE} In b")]
    assert found(*objects, claims=("c", "d")) == everywhere(BIND_CONFLICT)
    assert found(*objects, free("x", at=f"{ZONE} In b"), claims=("c", "d")) == {
        "a1": (BIND_CONFLICT,),
        "a2": (BIND_CONFLICT,),
    }


def test_a_claim_that_two_volumes_name_needs_a_volume_for_each() -> None:
    objects = [no_provisioner(), delayed(), free("v", at=f"{ZONE} In a"), free("w", at=f"{ZONE} In b")]
    assert found(*objects, claims=("c", "c")) == everywhere(BIND_CONFLICT)
    assert found(*objects, free("x", at=f"{ZONE} In b"), claims=("c", "c")) == {
        "a1": (BIND_CONFLICT,),
        "a2": (BIND_CONFLICT,),
    }


def test_a_claim_that_two_volumes_name_and_that_has_one_set_aside_needs_another() -> None:
    claim = delayed()
    mine = free("mine", claimed_by=reference(claim))
    assert found(no_provisioner(), claim, mine, claims=("c", "c")) == everywhere(BIND_CONFLICT)
    assert found(no_provisioner(), claim, mine, free("other"), claims=("c", "c")) == {}


def test_the_smallest_claim_chooses_first() -> None:
    """Otherwise the small claim, named first or last, would find only a volume that the large one needs."""
    objects = [no_provisioner(), delayed("large", "9Gi"), delayed("small", "1Gi"), free("v", "9Gi"), free("w", "1Gi")]
    assert found(*objects, claims=("large", "small")) == {}


# --- volumes to be made -----------------------------------------------------------------------------------------------


def test_a_provisioner_serves_the_topologies_that_its_class_allows() -> None:
    allowed = builders.storage_class("later", topologies=[{ZONE: ["b"]}])
    assert found(allowed, delayed()) == {"a1": (BIND_CONFLICT,), "a2": (BIND_CONFLICT,)}


def test_what_no_volume_matches_is_made() -> None:
    assert found(builders.storage_class("later"), delayed(), free("v", at=f"{ZONE} In a")) == {}


def test_a_claim_with_a_selected_node_stays_there() -> None:
    objects = [builders.storage_class("later"), delayed(node="a2")]
    assert found(*objects) == {"a1": (BIND_CONFLICT,), "b1": (BIND_CONFLICT,)}


def test_claims_with_different_selected_nodes_fit_nowhere() -> None:
    objects = [builders.storage_class("later"), delayed(node="a2"), delayed("d", node="b1")]
    assert found(*objects, claims=("c", "d")) == everywhere(BIND_CONFLICT)


def test_a_claim_with_a_selected_node_is_not_matched_with_an_existing_volume() -> None:
    assert found(no_provisioner(), delayed(node="a2"), free("v")) == everywhere(BIND_CONFLICT)


@pytest.mark.parametrize(
    ("capacity", "closed"),
    [
        (builders.csi_capacity("x", "later", topology={ZONE: "a"}, capacity="10Gi"), {"b1"}),
        (builders.csi_capacity("x", "later", topology={}, capacity="10Gi"), set()),
        (builders.csi_capacity("x", "later", topology={}, capacity="9Gi"), {"a1", "a2", "b1"}),
        (builders.csi_capacity("x", "later", topology={}, capacity="100Gi", maximum="9Gi"), {"a1", "a2", "b1"}),
        (builders.csi_capacity("x", "later", topology=None, capacity="10Gi"), {"a1", "a2", "b1"}),
        (builders.csi_capacity("x", "other", topology={}, capacity="10Gi"), {"a1", "a2", "b1"}),
        (builders.csi_capacity("x", "later", topology={}, namespace="elsewhere", capacity="10Gi"), set()),
    ],
)
def test_a_driver_that_publishes_its_capacity_is_believed(capacity: ApiObject, closed: set[str]) -> None:
    objects = [builders.storage_class("later"), builders.csi_driver("csi.test", storageCapacity=True), delayed()]
    assert found(*objects, capacity) == dict.fromkeys(closed, (NOT_ENOUGH_SPACE,))


@pytest.mark.parametrize("driver", [[], [builders.csi_driver("csi.test")]])
def test_capacity_is_no_concern_of_other_drivers(driver: list[ApiObject]) -> None:
    assert found(builders.storage_class("later"), delayed(), *driver) == {}


def test_a_claim_without_a_request_needs_no_space() -> None:
    driver = builders.csi_driver("csi.test", storageCapacity=True)
    assert found(builders.storage_class("later"), delayed(size=None), driver) == {}


def test_each_claims_space_is_looked_at_alone() -> None:
    objects = [builders.storage_class("later"), builders.csi_driver("csi.test", storageCapacity=True)]
    room = builders.csi_capacity("x", "later", topology={}, capacity="10Gi")
    assert found(*objects, room, delayed("c"), delayed("d"), claims=("c", "d")) == {}


def test_reasons_come_in_kube_schedulers_order() -> None:
    objects = [no_provisioner(), builders.claim("b", volume="v"), free("v", at=f"{ZONE} In a"), delayed()]
    assert found(*objects, claims=("c", "b"))["b1"] == (NODE_CONFLICT, BIND_CONFLICT)


# --- arguments --------------------------------------------------------------------------------------------------------


def test_a_negative_timeout_and_a_shape_without_its_gate_are_faults() -> None:
    raw = {"bindTimeoutSeconds": -1, "shape": [{"utilization": 0, "score": 5}]}
    args, faults = decode_args(VolumeBindingArgs, raw, "args", "VolumeBinding")
    assert not faults
    assert args is not None
    assert VolumeBinding.validate_args(args, "args") == (
        (
            "args.bindTimeoutSeconds",
            "Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
        ),
        (
            "args.shape",
            'Invalid value: [{"utilization":0,"score":5}]: unexpected field `shape`, remove it or turn on the feature '
            "gate StorageCapacityScoring",
        ),
    )


def test_a_shape_without_points_is_a_shape() -> None:
    ((path, _),) = VolumeBinding.validate_args(VolumeBindingArgs(shape=()), "args")
    assert path == "args.shape"


def test_the_default_arguments_have_no_fault() -> None:
    assert VolumeBinding.validate_args(VolumeBindingArgs(), "args") == ()


def test_nodes_are_not_scored() -> None:
    view = cluster(TWO_ZONES, objects=[builders.storage_class("later"), delayed()])
    assert PLUGIN.pre_score(info(claims=["c"]), view, view.rows) is SKIP


# --- what is said about a refusal -------------------------------------------------------------------------------------


def lines(*objects: ApiObject, claims: tuple[str, ...] = ("c",)) -> dict[str, tuple[str, ...]]:
    """Node → what `tandem why` says of it."""
    view = cluster(TWO_ZONES, objects=objects)
    pod = info(claims=claims)
    state = PLUGIN.pre_filter(pod, view)
    assert isinstance(state, Claims)
    rows = np.array([view.table.existing_row(name) for name in ("a1", "a2", "b1")])
    return {node: one.lines for one in PLUGIN.why_not(state, pod, view, rows) for node in one.nodes}


def test_of_a_bound_claim_the_volume_and_its_node_affinity_are_named() -> None:
    text = f"claim default/c is bound to volume v, which is used only where {ZONE} is a"
    assert lines(builders.claim("c", volume="v"), free("v", at=f"{ZONE} In a")) == {"b1": (text,)}
    text = "claim default/c is bound to volume gone, which is not there"
    assert lines(builders.claim("c", volume="gone")) == everywhere(text)


def test_of_a_claim_without_a_volume_its_size_and_class_are_named() -> None:
    text = "claim default/c (10Gi of class later): no free volume here fits, and its class makes none"
    assert lines(no_provisioner(), delayed(size="10Gi"), free("v", at=f"{ZONE} In a")) == {"b1": (text,)}
    mine = free("mine", "50Gi", at=f"{ZONE} In b", claimed_by=reference(delayed(size="10Gi"), uid=""))
    (text,) = lines(no_provisioner(), delayed(size="10Gi"), mine, free("other"))["a1"]
    assert f"volume mine, which is set aside for it, is used only where {ZONE} is b" in text


def test_of_a_class_the_topologies_that_it_allows_are_named() -> None:
    found = lines(builders.storage_class("later", topologies=[{ZONE: ["b"]}]), delayed())
    assert set(found) == {"a1", "a2"}
    assert f"its class makes volumes only where {ZONE} is b" in found["a1"][0]


def test_of_a_claim_whose_node_is_chosen_the_node_is_named() -> None:
    found = lines(builders.storage_class("later"), delayed(node="a2"))
    assert set(found) == {"a1", "b1"}
    assert "is to be made for node a2" in found["a1"][0]


def test_every_node_that_is_refused_is_said_something_about() -> None:
    """The lines and the refusals agree about the nodes, capacity included."""
    small = builders.csi_capacity("x", "later", topology={ZONE: "a"}, capacity="10Gi")
    objects = [builders.storage_class("later"), builders.csi_driver("csi.test", storageCapacity=True), delayed(), small]
    view = cluster(TWO_ZONES, objects=objects)
    refused = set(reasons(PLUGIN, info(claims=["c"]), view))
    assert refused == set(lines(*objects)) == {"b1"}
    assert "csi.test publishes no capacity of 10Gi for class later here" in lines(*objects)["b1"][0]
