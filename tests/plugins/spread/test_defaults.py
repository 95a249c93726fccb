"""Default constraints: of the system, and from the arguments."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.cluster.cache import ClusterCache
from scheduler.objects.kinds import Kind
from scheduler.objects.node import Node
from scheduler.objects.pod import TopologySpreadConstraint
from scheduler.plugins.spread.args import PodTopologySpreadArgs
from scheduler.plugins.spread.pod_topology_spread import (
    PodTopologySpread,
)
from scheduler.testing.documents import node_json
from scheduler.testing.fragments import owner_json, spread_json
from scheduler.testing.objects import build
from tests.builders import replica_set, replication_controller, service, stateful_set
from tests.plugins.clusters import cluster, info, reasons
from tests.plugins.spread.cases import HOST, PLUGIN, UNEVEN, WEB, ZONE, asking, normalized, web, zones


@pytest.mark.parametrize(
    ("objects", "owner"),
    [
        ([service("s", WEB)], None),
        ([replica_set("o", WEB)], owner_json("ReplicaSet", "o")),
        ([stateful_set("o", WEB)], owner_json("StatefulSet", "o")),
        ([replication_controller("o", WEB)], owner_json("ReplicationController", "o", api_version="v1")),
    ],
)
def test_pods_of_a_workload_are_spread_by_default(objects: list[Any], owner: Any) -> None:
    view = cluster(zones("a", "b"), [web("p", "n0")], objects)
    scores = normalized(info(labels=WEB, owner=owner), view)
    assert scores is not None and scores["n0"] < scores["n1"]


@pytest.mark.parametrize(
    ("objects", "owner"),
    [
        ([], None),
        ([service("s", {"app": "db"})], None),
        ([service("s", WEB, namespace="other")], None),
        ([service("s", None)], None),
        ([service("s", {})], None),
        ([], owner_json("ReplicaSet", "gone")),
        ([replica_set("o", WEB)], owner_json("ReplicaSet", "o", api_version="extensions/v1beta1")),
        ([], owner_json("Job", "o", api_version="batch/v1")),
    ],
)
def test_pods_without_a_usable_selector_have_no_default_constraints(objects: list[Any], owner: Any) -> None:
    view = cluster(zones("a", "b"), [web("p", "n0")], objects)
    assert normalized(info(labels=WEB, owner=owner), view) is None


def test_a_new_service_is_noticed() -> None:
    cache = ClusterCache()
    for each in zones("a", "b"):
        cache.observe_node(each)
    pending = info(labels=WEB)
    before = PLUGIN.fragment(pending, cache.view)
    assert normalized(pending, cache.view) is None
    added = service("s", WEB)
    cache.objects.put(Kind.SERVICE, added.key, added)
    assert normalized(pending, cache.view) is not None
    assert PLUGIN.fragment(pending, cache.view) != before


def test_service_and_owner_must_both_match() -> None:
    hashed = {"app": "web", "hash": "1"}
    objects = [service("s", WEB), replica_set("o", {"hash": "1"})]
    view = cluster(zones("a", "b"), [web("p", "n0")], objects)
    pending = info(labels=hashed, owner=owner_json("ReplicaSet", "o"))
    assert normalized(pending, view) == {"n0": 100, "n1": 100}
    view = cluster(zones("a", "b"), [web("p", "n0", labels=hashed)], objects)
    assert normalized(pending, view)["n0"] < 100


def test_system_defaults_give_nodes_without_a_zone_a_domain_of_their_own() -> None:
    view = cluster(zones("a", "b", None), [web("p", "n0")], [service("s", WEB)])
    scores = normalized(info(labels=WEB), view)
    assert scores["n2"] >= scores["n1"] > scores["n0"]


def test_a_system_default_adds_nothing_to_a_node_that_lacks_its_key() -> None:
    """Not even what each node with the key gets, which grows with the skew that is allowed."""
    nodes = [node_json(name, zone=zone) for name, zone in (("n0", "a"), ("with-name", "b"), ("without-name", "b"))]
    del nodes[2]["metadata"]["labels"][HOST]
    view = cluster([build(Node, one) for one in nodes], [web("p", "n0")], [service("s", WEB)])
    scores = normalized(info(labels=WEB), view)
    assert scores["without-name"] > scores["with-name"] > scores["n0"]


def test_own_constraints_put_the_defaults_out_of_force() -> None:
    view = cluster(zones("a", "b"), [web("p", "n0")], [service("s", WEB)])
    assert normalized(asking(spread_json(ZONE, WEB, max_skew=9)), view) is None


def test_listed_defaults_can_refuse() -> None:
    hard = TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule")
    plugin = PodTopologySpread(PodTopologySpreadArgs(default_constraints=(hard,), defaulting_type="List"))
    view = cluster(zones("a", "b"), [web("p", "n0")], [service("s", WEB)])
    assert reasons(plugin, info(labels=WEB), view) == {"n0": UNEVEN}
    assert reasons(plugin, info(labels={"app": "db"}), view) == {}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, []),
        ({"defaultingType": "Other"}, ["a.defaultingType"]),
        (
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}]},
            ["a.defaultingType"],
        ),
        (
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": ""},
                    {"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "Never", "labelSelector": {}},
                    {"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "Never"},
                ],
            },
            [
                "a.defaultConstraints[0].maxSkew",
                "a.defaultConstraints[0].topologyKey",
                "a.defaultConstraints[0].whenUnsatisfiable",
                "a.defaultConstraints[1].whenUnsatisfiable",
                "a.defaultConstraints[1].labelSelector",
                "a.defaultConstraints[2].whenUnsatisfiable",
                "a.defaultConstraints[2]",
            ],
        ),
    ],
)
def test_each_fault_of_default_constraints_is_named_by_its_path(args: dict[str, Any], expected: list[str]) -> None:
    faults = PodTopologySpread.validate_args(msgspec.convert(args, PodTopologySpreadArgs), "a")
    assert [path for path, _ in faults] == expected


def test_a_repeated_default_constraint_is_named() -> None:
    one = TopologySpreadConstraint(max_skew=1, topology_key="k", when_unsatisfiable="DoNotSchedule")
    faults = PodTopologySpread.validate_args(PodTopologySpreadArgs((one, one), "List"), "a")
    assert faults == (("a.defaultConstraints[1]", 'Duplicate value: "{k, DoNotSchedule}"'),)


def test_an_empty_type_of_defaults_is_the_systems() -> None:
    args = PodTopologySpreadArgs(defaulting_type="")
    assert PodTopologySpread.validate_args(args, "a") == ()
    assert args.is_system_defaulted
