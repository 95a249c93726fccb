"""Profiles that leave a plugin's PreScore out and keep its Score."""

from __future__ import annotations

import pytest

from tests.engine.driver import Cluster

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize("left_out", ["*", "TaintToleration", "InterPodAffinity", "PodTopologySpread", "NodeAffinity"])
def test_scores_are_the_same_where_a_profile_leaves_their_pre_score_out(left_out: str) -> None:
    found = []
    for disabled in ([], [{"name": left_out}]):
        cluster = Cluster(profile={"plugins": {"preScore": {"disabled": disabled}}})
        cluster.node("a", labels={"zone": "a"}, taints=["soft=yes:PreferNoSchedule"])
        cluster.node("b", labels={"zone": "b"})
        cluster.pod("there", node="a", labels={"app": "web"})
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
        spread = {**term, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
        node_term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
        affinity = {
            "nodeAffinity": {PREFERRED: [{"weight": 1, "preference": node_term}]},
            "podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]},
        }
        cluster.pod("p", labels={"app": "web"}, affinity=affinity, spread=[spread])
        attempt = cluster.schedule()
        assert attempt is not None and attempt.total
        found.append((attempt.total, attempt.shares))
    assert found[0] == found[1]
