"""Plugins are values: a profile's scope is given to them when they are made, and no engine keeps anything on them."""

from __future__ import annotations

from typing import Any

from scheduler.framework.plugin import Plugin, ScopedPlugin
from scheduler.testing.fragments import affinity_json, node_term, spread_json
from tests.engine.driver import Cluster

TWO_SCOPES: dict[str, Any] = {
    "nodeScope": {
        "left": {"matchLabels": {"pool": "left"}},
        "right": {"matchLabels": {"pool": "right"}},
    }
}
ZONE = "topology.kubernetes.io/zone"


def two_profiles() -> Cluster:
    profiles = [{"schedulerName": name} for name in ("left", "right", "tandem-scheduler")]
    return Cluster(configuration={"profiles": profiles}, tandem=TWO_SCOPES)


def attributes(cluster: Cluster) -> list[tuple[Plugin, dict[str, object]]]:
    """Each plugin with its attributes, by identity."""
    return [(plugin, dict(vars(plugin))) for profile in cluster.profiles.values() for plugin in profile.plugins]


def test_each_profile_has_its_own_scope() -> None:
    cluster = two_profiles()
    scopes = {
        name: [str(plugin.node_scope) for plugin in profile.plugins if isinstance(plugin, ScopedPlugin)]
        for name, profile in cluster.profiles.items()
    }
    assert scopes["left"] == [str(cluster.profiles["left"].node_scope)]
    assert len({tuple(found) for found in scopes.values()}) == 3


def test_no_plugin_is_changed_by_the_engine_that_uses_it() -> None:
    cluster = two_profiles()
    before = attributes(cluster)
    spread = [spread_json(ZONE, {"app": "web"})]
    for number, pool in enumerate(("left", "right", "right")):
        cluster.node(f"n{number}", cpu="2", labels={"pool": pool, ZONE: f"z{number}"})
    near = affinity_json(node_required=[node_term("pool Exists")])
    for number in range(6):
        name = ("left", "right")[number % 2]
        cluster.pod(f"a{number}", cpu="1", labels={"app": "web"}, scheduler=name, spread=spread, affinity=near)
    cluster.pod("urgent", cpu="2", priority=9, scheduler="left")
    cluster.settle()
    assert cluster.node_of("a1") in ("n1", "n2")
    after = attributes(cluster)
    for (plugin, known), (_, found) in zip(before, after, strict=True):
        assert known.keys() == found.keys(), plugin.name
        assert all(found[name] is value for name, value in known.items()), plugin.name
