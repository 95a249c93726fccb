"""VolumeBinding's scores with the feature gate StorageCapacityScoring."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.config.args import decode_args
from scheduler.objects.meta import ApiObject
from scheduler.plugins.volume_binding.capacity_scores import CapacityScoringArgs, CapacityScoringVolumeBinding
from scheduler.plugins.volume_binding.volume_binding import UtilizationShapePoint
from tests import builders
from tests.engine.driver import Cluster
from tests.plugins.clusters import cluster, info, raw_scores
from tests.plugins.volume_cases import TWO_ZONES, ZONE, delayed, free, no_provisioner

PLUGIN = CapacityScoringVolumeBinding()
DRIVER = builders.csi_driver("csi.test", storageCapacity=True)
MADE = (builders.storage_class("later"), DRIVER)


def scores(
    *objects: ApiObject, claims: tuple[str, ...] = ("c",), plugin: CapacityScoringVolumeBinding = PLUGIN
) -> dict[str, int] | None:
    return raw_scores(plugin, info(claims=claims), cluster(TWO_ZONES, objects=objects))


def pool(name: str, zone: str, capacity: str, **fields: Any) -> ApiObject:
    return builders.csi_capacity(name, "later", topology={ZONE: zone}, capacity=capacity, **fields)


# --- volumes that are there -------------------------------------------------------------------------------------------


def test_the_larger_the_volume_that_a_claim_gets_the_higher_is_the_score() -> None:
    volumes = [free("x", "20Gi", at=f"{ZONE} In a"), free("y", "100Gi", at=f"{ZONE} In b")]
    assert scores(no_provisioner(), delayed(size="10Gi"), *volumes) == {"a1": 50, "a2": 50, "b1": 90}


def test_claims_of_one_class_count_together_and_classes_count_alike() -> None:
    other = builders.storage_class("other", "kubernetes.io/no-provisioner")
    claims = [delayed("c", "10Gi"), delayed("d", "10Gi"), delayed("e", "10Gi", storage_class="other")]
    volumes = [free("v", "20Gi"), free("w", "60Gi"), free("x", "10Gi", storage_class="other")]
    found = scores(no_provisioner(), other, *claims, *volumes, claims=("c", "d", "e"))
    assert found is not None
    assert found["a1"] == 38, "20 of 80 GiB are 75, 10 of 10 are 0: half of it rounded up"


def test_where_there_is_a_volume_what_is_to_be_made_does_not_count() -> None:
    objects = [*MADE, delayed("c", "10Gi"), delayed("d", "30Gi"), free("v", "40Gi"), pool("p", "a", "100Gi")]
    found = scores(*objects, free("w", "20Gi"), claims=("c", "d"))
    assert found is not None
    assert found["a1"] == 100 - 40 * 100 // 60


# --- volumes that are to be made --------------------------------------------------------------------------------------


def test_free_capacity_that_drivers_report_counts_once_for_all_claims_of_a_class() -> None:
    pools = [pool("x", "a", "100Gi"), pool("y", "b", "50Gi")]
    assert scores(*MADE, delayed(size="10Gi"), *pools) == {"a1": 90, "a2": 90, "b1": 80}
    both = [delayed("c", "10Gi"), delayed("d", "20Gi")]
    assert scores(*MADE, *both, *pools, claims=("c", "d")) == {"a1": 70, "a2": 70, "b1": 40}


def test_more_than_there_is_scores_as_all_of_it() -> None:
    both = [delayed("c", "10Gi"), delayed("d", "10Gi")]
    assert scores(*MADE, *both, pool("x", "a", "15Gi"), claims=("c", "d")) == {"a1": 0, "a2": 0, "b1": 0}
    unknown = builders.csi_capacity("x", "later", topology={}, maximum="100Gi")
    assert scores(*MADE, delayed(), unknown) == {"a1": 0, "a2": 0, "b1": 0}


def test_without_a_report_no_class_counts() -> None:
    assert scores(builders.storage_class("later"), delayed()) == {"a1": 0, "a2": 0, "b1": 0}


@pytest.mark.parametrize("claims", [(), ("bound",)])
def test_pods_whose_claims_are_bound_are_passed_over(claims: tuple[str, ...]) -> None:
    bound = [builders.claim("bound", volume="v"), free("v")]
    assert scores(*bound, claims=claims) is None


# --- the gate and the arguments ---------------------------------------------------------------------------------------


def test_a_shape_may_prefer_full_pools() -> None:
    shape = (UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10))
    fuller = CapacityScoringVolumeBinding(CapacityScoringArgs(shape=shape))
    pools = [pool("x", "a", "100Gi"), pool("y", "b", "50Gi")]
    assert scores(*MADE, delayed(size="10Gi"), *pools, plugin=fuller) == {"a1": 10, "a2": 10, "b1": 20}


def test_arguments_are_checked_and_a_shape_without_points_is_the_default() -> None:
    raw = {"bindTimeoutSeconds": -1, "shape": [{"utilization": 50, "score": 11}, {"utilization": 50, "score": 1}]}
    args, faults = decode_args(CapacityScoringArgs, raw, "args", "VolumeBinding")
    assert not faults
    assert args is not None
    assert [path for path, _ in CapacityScoringVolumeBinding.validate_args(args, "args")] == [
        "args.bindTimeoutSeconds",
        "args.shape[1].utilization",
        "args.shape[0].score",
    ]
    empty = CapacityScoringArgs(shape=())
    assert CapacityScoringVolumeBinding.validate_args(empty, "args") == ()
    assert empty.points == CapacityScoringArgs().points


@pytest.mark.parametrize(("gates", "nodes"), [("", {"n0", "n1"}), ("StorageCapacityScoring=true", {"n1"})])
def test_the_gate_makes_pods_go_where_more_is_free(gates: str, nodes: set[str]) -> None:
    chosen = set()
    for seed in range(8):
        cluster = Cluster(gates=gates, seed=seed)
        for name, capacity in (("n0", "20Gi"), ("n1", "100Gi")):
            cluster.node(name, cpu="4", labels={ZONE: name})
            cluster.show(pool(name, name, capacity))
        for each in (*MADE, delayed(size="10Gi")):
            cluster.show(each)
        cluster.pod("a", cpu="1", claims=("c",))
        cluster.schedule()
        chosen.add(cluster.node_of("a"))
    assert chosen == nodes
