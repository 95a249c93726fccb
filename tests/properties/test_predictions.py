"""Predictions against facts: random clusters, a question, then the same really happens.

For every pod up to the first that depends on an earlier choice, the allowed set must hold what the engine decides; with
the choices of the fact handed to the question, that is every pod. And the question must not change the engine.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.questions.answers import Answer
from scheduler.engine.questions.edits import AddNodes, Drain, Edit
from scheduler.engine.questions.question import Asked
from scheduler.testing.documents import pod_json
from scheduler.testing.fragments import affinity_json, pod_term, spread_json
from tests.engine.driver import Cluster
from tests.engine.questions.asking import OWNER, ask

ZONE = "topology.kubernetes.io/zone"

node_fields = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(["1", "2", "4"]),
        "memory": st.sampled_from(["1Gi", "2Gi"]),
        "zone": st.sampled_from(["a", "b", "c"]),
        "taints": st.sampled_from([(), (), ("k=v:NoSchedule",), ("k=v:PreferNoSchedule",)]),
    }
)
pod_fields = st.fixed_dictionaries(
    {"cpu": st.sampled_from(["100m", "500m", "1"]), "priority": st.sampled_from([0, 0, 5])},
    optional={
        "memory": st.sampled_from(["128Mi", "512Mi"]),
        "labels": st.sampled_from([{"app": "x"}, {"app": "y"}]),
        "tolerations": st.just(["k=v:NoSchedule"]),
        "affinity": st.sampled_from(
            [
                affinity_json(anti_required=[pod_term({"app": "x"}, ZONE)]),
                affinity_json(preferred=[(10, pod_term({"app": "y"}, ZONE))]),
            ]
        ),
        "spread": st.just([spread_json(ZONE, {"app": "x"}, max_skew=1)]),
    },
)
Fields = dict[str, Any]


def a_cluster(nodes: list[Fields], running: list[tuple[int, Fields]], seed: int) -> Cluster:
    cluster = Cluster(seed=seed)
    for number, fields in enumerate(nodes):
        cluster.node(f"n{number}", **fields)
    for number, (place, fields) in enumerate(running):
        metadata = OWNER if place == 0 else {}
        cluster.pod(f"run{number}", node=f"n{place % len(nodes)}", metadata=metadata, **fields)
    return cluster


def facts(cluster: Cluster, names: list[str]) -> dict[str, str]:
    cluster.settle()
    return {f"default/{name}": cluster.node_of(name) for name in names}


def compare(answer: Answer, fact: dict[str, str]) -> int:
    """Check the placements up to the first that is left to chance; returns how many there were."""
    compared = 0
    for one in answer.placements:
        if one.after_chance:
            break
        if one.pod in fact:
            assert fact[one.pod] in (one.allowed if one.node else ("",)), (one, fact)
            compared += 1
    return compared


worlds = given(
    nodes=st.lists(node_fields, min_size=1, max_size=6),
    running=st.lists(st.tuples(st.integers(0, 5), pod_fields), max_size=8),
    asked=st.lists(pod_fields, min_size=1, max_size=5),
    seed=st.integers(0, 3),
)
plainly = settings(max_examples=25)


@plainly
@worlds
def test_where_pods_go_is_in_the_allowed_set(
    nodes: list[Fields], running: list[tuple[int, Fields]], asked: list[Fields], seed: int
) -> None:
    names = [f"p{number}" for number in range(len(asked))]
    manifests = tuple(Asked(pod_json(name, **fields)) for name, fields in zip(names, asked, strict=True))
    real = a_cluster(nodes, running, seed)
    for name, fields in zip(names, asked, strict=True):
        real.pod(name, **fields)
    fact = facts(real, names)
    answer = ask(a_cluster(nodes, running, seed), workloads=manifests)
    # A first pod that preempts while others are still to be tried is not certain either.
    assert compare(answer, fact) >= 1 or answer.placements[0].victims
    followed = ask(a_cluster(nodes, running, seed), workloads=manifests, chosen=fact)
    compare(followed, fact)
    if not any(one.victims for one in followed.placements):
        assert not any(one.after_chance for one in followed.placements)


@plainly
@worlds
def test_where_pods_go_after_a_drain_or_with_new_nodes_is_in_the_allowed_set(
    nodes: list[Fields], running: list[tuple[int, Fields]], asked: list[Fields], seed: int
) -> None:
    edits: tuple[Edit, ...] = (Drain("n0"), AddNodes(f"n{len(nodes) - 1}", 2))
    question = a_cluster(nodes, running, seed)
    for number, fields in enumerate(asked):
        question.pod(f"w{number}", **fields)
    answer = ask(question, *edits)

    real = a_cluster(nodes, running, seed)
    for number in range(2):
        real.node(f"n{len(nodes) - 1}-new-{number + 1}", **nodes[-1])
    real.node("n0", **{**nodes[0], "taints": ["node.kubernetes.io/unschedulable:NoSchedule"]}, unschedulable=True)
    for number, fields in enumerate(asked):
        real.pod(f"w{number}", **fields)
    evicted = [name for name in _on(real, "n0", running) if real.pods[f"default/{name}"].metadata.owner_references]
    for name in list(_on(real, "n0", running)):
        real.delete(name)
    for name in evicted:
        fields = running[int(name.removeprefix("run"))][1]
        real.pod(name, uid=f"again-{name}", metadata=OWNER, **fields)
    fact = facts(real, [*evicted, *(f"w{number}" for number in range(len(asked)))])
    compare(answer, fact)
    assert {one.pod for one in answer.placements if one.origin == "evicted"} == {f"default/{one}" for one in evicted}


def _on(cluster: Cluster, node: str, running: list[tuple[int, Fields]]) -> list[str]:
    return [f"run{number}" for number in range(len(running)) if cluster.node_of(f"run{number}") == node]
