"""``tandem why`` names every plugin that would refuse a node, with the values behind each refusal."""

from __future__ import annotations

from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.explain import pod_page
from scheduler.framework.plugin import FilterPlugin
from scheduler.testing.fragments import affinity_json, pod_term
from tests.engine.driver import Cluster


def refusals(cluster: Cluster, name: str, node: str = "") -> dict[str, Any]:
    """Plugin → its last entry, in the preview of a pod that waits."""
    page = pod_page(cluster.engine, f"default/{name}", cluster.now, node=node)
    assert page is not None
    preview = page["preview"]["asked"] if node else page["preview"]
    return {entry["plugin"]: entry for entry in preview["refusals"]}


def lines(entry: dict[str, Any]) -> list[tuple[int, tuple[str, ...]]]:
    """Each group of nodes: their number, and what is said of them."""
    return [(group["count"], tuple(group["lines"])) for group in entry["details"]]


def test_each_plugin_that_refuses_is_named_and_not_only_the_first() -> None:
    cluster = Cluster()
    cluster.node("a", cpu="1", taints=["dedicated=gpu:NoSchedule"])
    cluster.node("b", cpu="1")
    cluster.pod("p", cpu="2")
    cluster.schedule()
    found = refusals(cluster, "p")
    assert (found["TaintToleration"]["count"], found["TaintToleration"]["only"]) == (1, 0)
    assert (found["NodeResourcesFit"]["count"], found["NodeResourcesFit"]["only"]) == (2, 1)
    page = pod_page(cluster.engine, "default/p", cluster.now)
    assert page is not None
    assert page["preview"]["listed"][0]["refusedBy"] == ["TaintToleration", "NodeResourcesFit"]


def test_a_shortfall_says_what_is_needed_and_what_is_free() -> None:
    cluster = Cluster()
    cluster.node("a", cpu="4", memory="8Gi")
    cluster.node("b", cpu="4", memory="8Gi")
    cluster.pod("there", cpu="1500m", node="a")
    cluster.pod("here", cpu="3", node="b")
    cluster.pod("p", cpu="6", memory="1536Mi")
    cluster.schedule()
    text = "cpu: needs 6, at most 2.5 of 4 free (on a); even empty, no more than 4"
    assert lines(refusals(cluster, "p")["NodeResourcesFit"]) == [(2, (text,))]
    alone = "cpu: needs 6, 1 of 4 free; even empty, no more than 4"
    assert lines(refusals(cluster, "p", "b")["NodeResourcesFit"]) == [(1, (alone,))]


def test_groups_of_nodes_are_short_of_different_resources() -> None:
    cluster = Cluster()
    cluster.nodes_like(3, cpu="1", memory="8Gi")
    cluster.node("small", cpu="8", memory="512Mi")
    cluster.pod("p", cpu="2", memory="1Gi", requests={"example.com/gpu": "1"})
    cluster.schedule()
    page = pod_page(cluster.engine, "default/p", cluster.now)
    assert page is not None
    (most,), (few,) = [lines(entry) for entry in page["preview"]["refusals"]]
    nowhere = "example.com/gpu: needs 1, no node has any"
    assert most == (3, ("cpu: needs 2, at most 1 of 1 free (on n0); even empty, no more than 1", nowhere))
    assert few == (1, ("memory: needs 1Gi, 512Mi of 512Mi free; even empty, no more than 512Mi", nowhere))


def test_the_taints_that_refused_are_named_by_group_of_nodes() -> None:
    cluster = Cluster()
    for number in range(3):
        cluster.node(f"gpu{number}", taints=["dedicated=gpu:NoSchedule", "soft:PreferNoSchedule"])
    cluster.node("db", taints=["dedicated=db:NoExecute", "tolerated:NoSchedule"])
    cluster.pod("p", tolerations=["tolerated:NoSchedule"])
    cluster.schedule()
    gpu, db = lines(refusals(cluster, "p")["TaintToleration"])
    assert gpu == (3, ("does not tolerate the taint dedicated=gpu:NoSchedule",))
    assert db == (1, ("does not tolerate the taint dedicated=db:NoExecute",))


def test_the_label_that_a_selector_or_a_term_misses_is_named_with_what_is_there() -> None:
    cluster = Cluster()
    cluster.node("a", labels={"disk": "hdd", "zone": "x"})
    cluster.node("b", labels={"disk": "ssd", "zone": "y"})
    cluster.node("c", labels={"disk": "ssd"})
    required = {"key": "zone", "operator": "In", "values": ["z"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [required]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    cluster.pod("p", node_selector={"disk": "ssd"}, affinity=affinity)
    cluster.schedule()
    both, one = lines(refusals(cluster, "p")["NodeAffinity"])
    assert both == (2, ("required node affinity wants zone=z: zone=y on 1, no label zone on 1",)) or both[0] == 2
    assert set(one[1]) == {
        "nodeSelector wants disk=ssd: disk=hdd",
        "required node affinity wants zone=z: zone=x",
    }


def test_the_term_and_the_pods_behind_anti_affinity_are_named() -> None:
    cluster = Cluster()
    cluster.node("a", labels={"zone": "x"})
    cluster.node("b", labels={"zone": "y"})
    cluster.pod("web-1", labels={"app": "web"}, node="a")
    apart = affinity_json(anti_required=[pod_term({"app": "web"}, "zone")])
    cluster.pod("lonely", labels={"app": "db"}, node="b", affinity=apart)
    cluster.pod("p", labels={"app": "web"}, affinity=apart)
    cluster.schedule()
    page = pod_page(cluster.engine, "default/p", cluster.now)
    assert page is not None
    assert {group for entry in page["preview"]["refusals"] for group in lines(entry)} == {
        (1, ("anti-affinity to pods with app=web in default: 1 in zone=x (default/web-1 on a)",)),
        (1, ("anti-affinity of pods in zone=y to pods with app=web (default/lonely on b)",)),
    }


def test_the_affinity_that_no_pod_in_a_domain_meets_is_named_with_the_domain() -> None:
    cluster = Cluster()
    for name, zone in (("a", "x"), ("b", "y"), ("c", "")):
        cluster.node(name, labels={"zone": zone} if zone else {})
    cluster.pod("web-1", node="b", labels={"app": "web"})
    cluster.pod("p", affinity=affinity_json(required=[pod_term({"app": "web"}, "zone")]), node_selector={"no": "such"})
    cluster.schedule()
    assert lines(refusals(cluster, "p")["InterPodAffinity"]) == [
        (1, ("affinity by zone: the node has no such label",)),
        (1, ("affinity by zone: no pod with app=web in default in zone=x",)),
    ]


def test_an_uneven_domain_is_named_with_the_one_that_has_fewest() -> None:
    cluster = Cluster()
    cluster.node("a", labels={"zone": "x"})
    cluster.node("b", labels={"zone": "y"}, cpu="1")
    cluster.pod("w1", labels={"app": "web"}, node="a")
    spread = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    cluster.pod("p", labels={"app": "web"}, spread=[spread], cpu="2")
    cluster.schedule()
    text = "spread by zone, maxSkew 1: zone=x has 1 of the pods with app=web; the fewest are 0, in zone=y"
    assert lines(refusals(cluster, "p")["PodTopologySpread"]) == [(1, (text,))]


def test_the_pod_that_holds_a_host_port_is_named() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.pod("proxy", node="a", ports=[8080])
    cluster.pod("p", ports=[8080])
    cluster.schedule()
    text = "host port 8080/TCP at 0.0.0.0 is taken by default/proxy on a"
    assert lines(refusals(cluster, "p")["NodePorts"]) == [(1, (text,))]


class Failing(FilterPlugin):
    name = "Failing"

    def filter(self, state: Any, pod: PodInfo, view: Any, rows: Any) -> Any:
        raise RuntimeError("boom")


def test_a_plugin_that_raises_is_named_and_the_others_are_still_shown() -> None:
    cluster = Cluster(Failing)
    cluster.node("a", cpu="1")
    cluster.pod("p", cpu="2")
    cluster.schedule()
    found = refusals(cluster, "p")
    assert "boom" in found["Failing"]["reasons"][0]
    assert found["NodeResourcesFit"]["count"] == 1


def test_one_node_is_explained_on_demand_though_it_is_not_among_those_listed() -> None:
    cluster = Cluster()
    cluster.nodes_like(600, cpu="1")
    cluster.pod("p", cpu="2")
    cluster.schedule()
    page = pod_page(cluster.engine, "default/p", cluster.now, node="n599")
    assert page is not None
    assert len(page["preview"]["listed"]) == 500
    assert page["preview"]["asked"]["refusals"][0]["details"][0]["lines"]


def test_an_unknown_node_is_said_to_be_unknown() -> None:
    cluster = Cluster()
    cluster.node("a", cpu="1")
    cluster.pod("p", cpu="2")
    cluster.schedule()
    page = pod_page(cluster.engine, "default/p", cluster.now, node="nowhere")
    assert page is not None and page["preview"]["asked"] == {"node": "nowhere", "unknown": True}


def test_a_node_that_is_kept_for_a_nominated_pod_says_for_which() -> None:
    cluster = Cluster()
    cluster.node("a", cpu="2")
    cluster.pod("victim", cpu="1500m", node="a")
    cluster.pod("coming", cpu="2", priority=100)
    cluster.lingering.add("default/victim")
    cluster.schedule()
    assert cluster.nominated("coming") == "a"
    cluster.pod("p", cpu="500m")
    page = pod_page(cluster.engine, "default/p", cluster.now, node="a")
    assert page is not None
    asked = page["preview"]["asked"]
    assert asked["beside"] == ["default/coming"]
    assert asked["refusals"][0]["details"][0]["lines"][0].startswith("cpu: needs 0.5, 0 of 2 free")
    assert page["preview"]["besideNominated"] == {"count": 1, "nodes": ["a"]}


# --- a pod that has its node ------------------------------------------------------------------------------------------


def placed() -> Cluster:
    cluster = Cluster()
    cluster.node("big", cpu="8", memory="32Gi")
    cluster.node("middle", cpu="4", memory="16Gi")
    cluster.node("small", cpu="1", memory="16Gi")
    cluster.pod("p", cpu="2", memory="1Gi")
    cluster.settle()
    return cluster


def test_a_placed_pod_is_compared_with_the_other_nodes_as_if_it_were_not_there() -> None:
    cluster = placed()
    page = pod_page(cluster.engine, "default/p", cluster.now)
    assert page is not None
    assert page["node"] == "big"
    found = page["alternatives"]
    assert [entry["node"] for entry in found["best"]] == ["big", "middle"]
    winner, loser = found["best"]
    assert winner == found["own"]
    # Nothing else has changed since: the comparison is the decision's own.
    assert winner["total"] == page["attempt"]["scores"][0]["total"]
    assert winner["total"] > loser["total"] == sum(loser["scores"].values())
    assert page["weights"]["TaintToleration"] == 3


def test_why_not_the_other_node_is_answered_for_any_node() -> None:
    cluster = placed()

    def asked(node: str) -> Any:
        page = pod_page(cluster.engine, "default/p", cluster.now, node=node)
        assert page is not None
        return page["alternatives"]["asked"]

    assert asked("middle")["rank"] == 2 and asked("middle")["scores"]["NodeResourcesFit"] > 0
    assert lines(asked("small")["refusals"][0]) == [(1, ("cpu: needs 2, 1 of 1 free; even empty, no more than 1",))]
    assert asked("nowhere") == {"node": "nowhere", "unknown": True}


def test_asking_changes_nothing() -> None:
    cluster = placed()
    before = cluster.engine.cache.view.table.pod_count.tolist()
    pod_page(cluster.engine, "default/p", cluster.now, node="small")
    cluster.engine.check()
    assert cluster.engine.cache.view.table.pod_count.tolist() == before


def test_a_pod_that_was_bound_before_this_start_says_so() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.node("b")
    bound = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"}]
    cluster.pod("p", node="a", status={"conditions": bound})
    page = pod_page(cluster.engine, "default/p", cluster.now)
    assert page is not None
    assert page["decidedEarlier"]["scheduledAt"] == "2026-11-21T10:00:00Z" < page["decidedEarlier"]["startedAt"]
    assert {entry["node"] for entry in page["alternatives"]["best"]} == {"a", "b"}


def test_the_attempt_of_a_namesake_that_is_gone_is_not_shown_as_this_pod_s() -> None:
    cluster = placed()
    cluster.delete("p")
    cluster.pod("p", cpu="1", uid="another", gates=["wait"])
    page = pod_page(cluster.engine, "default/p", cluster.now)
    assert page is not None and "attempt" not in page


def test_no_retry_is_promised_to_a_gated_pod() -> None:
    cluster = Cluster()
    cluster.node("a")
    cluster.pod("p", gates=["example.com/wait"])
    page = pod_page(cluster.engine, "default/p", cluster.now)
    assert page is not None and page["queue"]["place"] == "gated"
    assert "nextTry" not in page["queue"]
