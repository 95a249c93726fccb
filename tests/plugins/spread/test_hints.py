"""Which changes wake a pod that PodTopologySpread refused."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Hint, Resource
from scheduler.objects.node import Node
from scheduler.objects.pod import TopologySpreadConstraint
from scheduler.plugins.spread.args import PodTopologySpreadArgs
from scheduler.plugins.spread.pod_topology_spread import PodTopologySpread
from scheduler.testing.fragments import spread_json
from scheduler.testing.objects import node
from tests.plugins.clusters import info
from tests.plugins.spread.cases import PLUGIN, WEB, ZONE, asking

POD_HINT, NODE_HINT = (registration.hint for registration in PLUGIN.events())


def _placed(**fields: Any) -> PodInfo:
    return info("other", **{"node": "n0", "labels": WEB, **fields})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, _placed(), Hint.QUEUE),
        (None, _placed(labels={"app": "db"}), Hint.SKIP),
        (None, _placed(namespace="other"), Hint.SKIP),
        (None, _placed(node=None), Hint.SKIP),
        (None, _placed(node=None, nominated="n0"), Hint.QUEUE),
        (_placed(), None, Hint.QUEUE),
        (_placed(labels={"app": "db"}), _placed(), Hint.QUEUE),
        (_placed(labels={"app": "web", "x": "1"}), _placed(), Hint.SKIP),
        (_placed(), _placed(), Hint.SKIP),
    ],
)
def test_pods_that_change_the_counts_wake_the_pod(old: PodInfo | None, new: PodInfo | None, expected: Hint) -> None:
    assert POD_HINT(asking(spread_json(ZONE, WEB)), old, new) is expected


def test_own_new_tolerations_wake_the_pod_only_if_a_constraint_honours_taints() -> None:
    before, after = info(labels=WEB), info(labels=WEB, tolerations=["k"])
    assert POD_HINT(asking(spread_json(ZONE, WEB, nodeTaintsPolicy="Honor")), before, after) is Hint.QUEUE
    assert POD_HINT(asking(spread_json(ZONE, WEB)), before, after) is Hint.SKIP


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, node(zone="a"), Hint.QUEUE),
        (None, node(), Hint.SKIP),
        (node(zone="a"), None, Hint.QUEUE),
        (node(), None, Hint.SKIP),
        (node(), node(zone="a"), Hint.QUEUE),
        (node(zone="a"), node(), Hint.QUEUE),
        (node(zone="a"), node(zone="b"), Hint.QUEUE),
        (node(zone="a"), node(zone="a", taints=["k:NoSchedule"]), Hint.QUEUE),
        (node(zone="a"), node(zone="a", labels={"x": "y"}), Hint.SKIP),
        (node(), node(taints=["k:NoSchedule"]), Hint.SKIP),
    ],
)
def test_nodes_that_change_the_domains_wake_the_pod(old: Node | None, new: Node | None, expected: Hint) -> None:
    assert NODE_HINT(asking(spread_json(ZONE, WEB)), old, new) is expected


def test_a_node_that_lacks_one_of_two_keys_wakes_nothing_when_it_changes_the_domain_of_the_other() -> None:
    rack = "example.com/rack"
    pod = asking(spread_json(ZONE, WEB), spread_json(rack, WEB))
    lacking = [node(zone=zone) for zone in "ab"]
    complete = [node(zone=zone, labels={rack: "r"}) for zone in "ab"]
    assert NODE_HINT(pod, *lacking) is Hint.SKIP
    assert NODE_HINT(pod, *complete) is Hint.QUEUE


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, node(), Hint.QUEUE),
        (node(), None, Hint.QUEUE),
        (node(), node(taints=["k:NoSchedule"]), Hint.QUEUE),
        (node(zone="a"), node(zone="b"), Hint.QUEUE),
        (node(), node(labels={"x": "y"}), Hint.SKIP),
    ],
)
def test_nodes_without_the_keys_wake_a_pod_to_which_default_constraints_may_not_apply_any_more(
    old: Node | None, new: Node | None, expected: Hint
) -> None:
    hard = TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule")
    plugin = PodTopologySpread(PodTopologySpreadArgs(default_constraints=(hard,), defaulting_type="List"))
    (hint,) = [one.hint for one in plugin.events() if one.event.resource is Resource.NODE]
    assert hint(info(labels=WEB), old, new) is expected
