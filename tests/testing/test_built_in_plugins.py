"""Every built-in plugin keeps the contract that users' plugins are held to."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.plugin import Plugin
from scheduler.plugins.default_binder import DefaultBinder
from scheduler.plugins.registry import BUILT_IN
from scheduler.testing import Cluster, check_contract, usual_clusters
from scheduler.testing.fragments import affinity_json, node_term, pod_term, spread_json
from scheduler.testing.objects import namespace, node, pod
from tests import builders


def storage_cluster() -> Cluster:
    """Claims, volumes with and without topology, limits, and pods that share a disk."""
    objects = [
        builders.storage_class("late"),
        builders.volume("local", storage_class="late", node_affinity=[node_term("disk In ssd")]),
        builders.claim("free", storage_class="late"),
        builders.claim("bound", volume="zonal"),
        builders.volume(
            "zonal",
            labels={"topology.kubernetes.io/zone": "a"},
            csi=("csi.test", "h1"),
            claimed_by={"namespace": "default", "name": "bound", "uid": "claim-bound"},
            phase="Bound",
        ),
        builders.csi_node("n0", {"csi.test": 1}),
        builders.csi_node("n1", {"csi.test": 2}),
        builders.service("web", {"app": "web"}),
        namespace("default"),
    ]
    pending = [
        pod("late", claims=["free"]),
        pod("early", claims=["bound"]),
        pod("missing", claims=["nowhere"]),
        pod("disk", volumes=[{"name": "d", "gcePersistentDisk": {"pdName": "pd"}}]),
        pod("web", labels={"app": "web"}, ports=[80]),
    ]
    nodes = [node(f"n{i}", zone="ab"[i % 2], labels={"disk": ("ssd", "hdd")[i % 2]}) for i in range(4)]
    placed = [
        pod("p0", node="n0", claims=["bound"]),
        pod("p1", node="n1", labels={"app": "web"}, ports=[80]),
    ]
    return Cluster(nodes, placed, pending, objects)


def affinity_cluster() -> Cluster:
    """Pods that attract and repel each other, hard and soft, within hosts and zones."""
    term, zone = pod_term({"app": "web"}), "topology.kubernetes.io/zone"
    pending = [
        pod("near", labels={"app": "web"}, affinity=affinity_json(required=[term])),
        pod("far", labels={"app": "web"}, affinity=affinity_json(anti_required=[term])),
        pod(
            "soft",
            labels={"app": "db"},
            affinity=affinity_json(preferred=[(5, pod_term({"app": "web"}, zone))], anti_preferred=[(3, term)]),
        ),
        pod("even", labels={"app": "web"}, spread=[spread_json(zone, {"app": "web"})]),
        pod("softly", labels={"app": "db"}, spread=[spread_json(zone, {"app": "db"}, soft=True)]),
        pod("plain"),
    ]
    nodes = [node(f"n{i}", zone="abc"[i % 3], taints=["soft:PreferNoSchedule"] * (i % 2)) for i in range(5)]
    placed = [
        pod("w", node="n0", labels={"app": "web"}),
        pod("d", node="n2", labels={"app": "db"}, affinity=affinity_json(anti_required=[term])),
    ]
    return Cluster(nodes, placed, pending)


def made(plugin_type: type[Plugin]) -> Any:
    return plugin_type() if plugin_type.Args is None else plugin_type(plugin_type.Args())


# DefaultBinder has no coroutine to be asked: the engine sends its Binding itself.
PLUGINS = [plugin_type for plugin_type in BUILT_IN if plugin_type is not DefaultBinder]


@pytest.mark.parametrize("plugin_type", PLUGINS, ids=lambda plugin_type: plugin_type.name)
def test_a_built_in_plugin_keeps_the_contract(plugin_type: type[Plugin]) -> None:
    clusters = (*usual_clusters(1, 1), storage_cluster(), affinity_cluster())
    check_contract(made(plugin_type), clusters, changes=40)
