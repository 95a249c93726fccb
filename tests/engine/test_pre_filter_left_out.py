"""Profiles that leave a plugin's PreFilter out and keep its Filter."""

from __future__ import annotations

import pytest

from scheduler.testing.fragments import affinity_json, pod_term, spread_json
from tests.builders import claim, csi_node, volume
from tests.engine.driver import Cluster

ZONE = "topology.kubernetes.io/zone"


def cluster_without(pre_filter: str) -> Cluster:
    """Two nodes in zones of their own, ``a`` with one place for a volume, which a pod has, and ``b`` with two; claims
    ``c0`` and ``c1``."""
    cluster = Cluster(profile={"plugins": {"preFilter": {"disabled": [{"name": pre_filter}]}}})
    for name, places in (("a", 1), ("b", 2)):
        cluster.node(name, labels={ZONE: name})
        cluster.show(csi_node(name, {"csi.test": places}))
    for number, zone in enumerate(("a", "b")):
        bound = claim(f"c{number}", volume=f"v{number}", storage_class="fast")
        cluster.show(bound)
        of_claim = {"namespace": "default", "name": f"c{number}", "uid": bound.metadata.uid}
        cluster.show(
            volume(
                f"v{number}",
                csi=("csi.test", f"h{number}"),
                storage_class="fast",
                claimed_by=of_claim,
                labels={ZONE: zone},
            )
        )
    cluster.pod("running", node="a", claims=["c0"])
    return cluster


@pytest.mark.parametrize("pre_filter", ["NodeAffinity", "NodeVolumeLimits", "VolumeZone"])
def test_the_filter_works_out_by_itself_what_the_pre_filter_would_have_found(pre_filter: str) -> None:
    cluster = cluster_without(pre_filter)
    cluster.pod("plain")
    cluster.pod("picky", node_selector={ZONE: "b"})
    cluster.pod("with-a-volume", claims=["c1"])
    cluster.pod("nowhere", node_selector={ZONE: "a"}, claims=["c1"])
    cluster.settle()
    assert cluster.node_of("plain")
    assert (cluster.node_of("picky"), cluster.node_of("with-a-volume")) == ("b", "b")
    assert cluster.attempt("nowhere").message.startswith("0/2 nodes are available: 1 node(s) ")


def test_volumes_beyond_the_limit_are_refused_without_the_pre_filter_too() -> None:
    cluster = cluster_without("NodeVolumeLimits")
    cluster.show(csi_node("b", {"csi.test": 0}))
    cluster.pod("p", claims=["c1"])
    cluster.settle()
    assert "2 node(s) exceed max volume count" in cluster.attempt("p").message


@pytest.mark.parametrize(
    "pre_filter",
    [
        "NodePorts",
        "NodeResourcesFit",
        "InterPodAffinity",
        "PodTopologySpread",
        "VolumeBinding",
        "VolumeRestrictions",
        "NodeDeclaredFeatures",
        "DynamicResources",
    ],
)
def test_a_filter_that_needs_its_pre_filter_has_it_where_the_profile_leaves_it_out(pre_filter: str) -> None:
    cluster = cluster_without(pre_filter)
    cluster.pod(
        "p",
        cpu="1",
        claims=["c1"],
        labels={"app": "web"},
        ports=[80],
        affinity=affinity_json(anti_required=[pod_term({"app": "web"})]),
        spread=[spread_json(ZONE, {"app": "web"})],
    )
    cluster.pod("large", cpu="1000")
    cluster.settle()
    assert cluster.node_of("p") == "b"
    assert "2 Insufficient cpu" in cluster.attempt("large").message
