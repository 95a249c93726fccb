"""Forks of the whole cluster against caches built from scratch with the same objects."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_counts import ALL_NAMESPACES
from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.kinds import Kind
from scheduler.objects.selector_fields import LabelSelector
from scheduler.objects.selectors import parse_selector
from tests import builders

ZONE = "topology.kubernetes.io/zone"
KEYS = (ZONE, "kubernetes.io/hostname", "disk", "nobody/has-it")
RESOURCES = ("cpu", "memory", "pods", "example.com/gpu", "example.com/never")
WEB = parse_selector(LabelSelector(match_labels={"app": "web"}))
EVERY_APP = parse_selector(LabelSelector(match_labels={}))


class Side:
    """A cluster cache, and the objects that it should hold."""

    def __init__(self, cache: ClusterCache, model: Side | None = None) -> None:
        self.cache = cache
        self.nodes: dict[str, Any] = dict(model.nodes) if model else {}
        self.pods: dict[str, PodInfo] = dict(model.pods) if model else {}
        self.objects: dict[tuple[Kind, str], Any] = dict(model.objects) if model else {}
        self.nominated: dict[str, tuple[PodInfo, str]] = dict(model.nominated) if model else {}

    def rebuilt(self) -> ClusterCache:
        cache = ClusterCache(selector_limit=3)
        for (kind, _), obj in self.objects.items():
            cache.observe_object(kind, obj)
        for node in self.nodes.values():
            cache.observe_node(node)
        for info in self.pods.values():
            cache.observe_pod(info)
        for info, node in self.nominated.values():
            cache.nominator.nominate(info, node)
        return cache


def answers(cache: ClusterCache) -> dict[str, Any]:
    """What may be asked of a cache, by names instead of rows and ids."""
    table = cache.table
    rows = [(row, name) for row, name in sorted(enumerate(table.names), key=lambda each: each[1]) if name]
    found: dict[str, Any] = {
        "nodes": {name: table.nodes[row] for row, name in rows if table.nodes[row] is not None},
        "pods": {name: set(table.pods[row]) for row, name in rows},
        "placed": set(cache.pods),
        "ports": {name: set(table.ports[row] or ()) for row, name in rows},
        "count": table.node_count,
    }
    for resource in RESOURCES:
        allocatable, requested = table.allocatable(resource), table.requested(resource)
        found[resource] = {name: (int(allocatable[row]), int(requested[row])) for row, name in rows}
    for key in KEYS:
        ids, values = table.label(key), table.label_values(key)
        found[key] = {name: values.values[ids[row]] for row, name in rows}
    found["taints"] = {name: table.vocabulary.taints.values[table.taint_set[row]] for row, name in rows}
    for selector in (WEB, EVERY_APP):
        query = cache.pod_counts.intern(ALL_NAMESPACES, selector)
        counts, live = cache.pod_counts.counts(query), cache.pod_counts.live_counts(query)
        found[str(selector)] = {name: (int(counts[row]), int(live[row])) for row, name in rows}
    found["terms"] = [
        (term.kind, term.term, {table.names[row]: number for row, number in term.occurrences.items().items()})
        for term in sorted(cache.affinity_terms.matching("default", {"app": "web"}, {}), key=lambda one: repr(one.term))
        if term.total
    ]
    image = cache.images.get("registry.test/big:v1")
    found["image"] = None if image is None else (image.size_bytes, {table.names[row] for row in image.rows})
    found["claims"] = {name: cache.volumes.claim(f"default/{name}") for name in ("c0", "c1")}
    found["users"] = {name: cache.volumes.users(f"default/{name}") for name in ("c0", "c1")}
    found["nominated"] = {
        node: [info.uid for info in cache.nominator.pods_for_node(node)] for node in sorted(cache.nominator.nodes)
    }
    return found


class ForksAgainstScratch(RuleBasedStateMachine):
    """Live cache, forks, forks of forks: each changes by itself, and each stays what its own objects make it."""

    sides = Bundle("sides")

    @initialize(target=sides)
    def live(self) -> Side:
        self.all: list[Side] = [Side(ClusterCache(selector_limit=3))]
        self.serial = 0
        for number in range(3):
            self.put_node(self.all[0], number, number)
        return self.all[0]

    @rule(target=sides, side=sides)
    def fork(self, side: Side) -> Any:
        if len(self.all) == 5:
            return multiple()
        self.all.append(Side(side.cache.fork(), side))
        return self.all[-1]

    @rule(side=sides, number=st.integers(0, 4), shape=st.integers(0, 5))
    def put_node(self, side: Side, number: int, shape: int) -> None:
        self.serial += 1
        node = builders.node(
            f"n{number}",
            cpu=("2", "4")[shape % 2],
            zone=("east", "west")[shape // 3],
            labels={"disk": "ssd"} if shape % 3 == 1 else {},
            taints=[f"only=v{self.serial}:NoSchedule"] if shape == 4 else [],
            images={"registry.test/big:v1": 500 * 2**20} if shape in (1, 2) else None,
            allocatable={"example.com/gpu": "2"} if shape in (0, 3) else None,
            resource_version=str(self.serial),
        )
        side.cache.observe_node(node)
        side.nodes[node.metadata.name] = node

    @rule(side=sides, number=st.integers(0, 4))
    def remove_node(self, side: Side, number: int) -> None:
        side.cache.remove_node(f"n{number}")
        side.nodes.pop(f"n{number}", None)

    @rule(side=sides, number=st.integers(0, 5), shape=st.integers(0, 5))
    def place(self, side: Side, number: int, shape: int) -> None:
        self.serial += 1
        anti = builders.affinity_json(anti_required=[builders.pod_term({"app": "web"})])
        fields: dict[str, Any] = (
            {"cpu": "500m"},
            {"ports": [8080]},
            {"affinity": anti},
            {"requests": {"example.com/gpu": "1"}},
            {"claims": [f"c{number % 2}"]},
            {"deleted": "2026-02-01T00:00:00Z"},
        )[shape]
        labels = {"app": ("web", "db")[number % 2]}
        info = PodInfo(builders.pod(f"p{self.serial}", node=f"n{number}", labels=labels, **fields))
        side.cache.observe_pod(info)
        side.pods[info.uid] = info

    @rule(side=sides, data=st.data())
    def remove_pod(self, side: Side, data: st.DataObject) -> None:
        if side.pods:
            uid = data.draw(st.sampled_from(sorted(side.pods)))
            del side.pods[uid]
            side.cache.remove_pod(uid)

    @rule(side=sides, name=st.integers(0, 1), bound=st.booleans())
    def put_claim(self, side: Side, name: int, bound: bool) -> None:
        self.serial += 1
        claim = builders.claim(f"c{name}", volume="v" if bound else "", resource_version=str(self.serial))
        side.cache.observe_object(Kind.PERSISTENT_VOLUME_CLAIM, claim)
        side.objects[Kind.PERSISTENT_VOLUME_CLAIM, claim.key] = claim

    @rule(side=sides, number=st.integers(0, 2), name=st.integers(0, 2))
    def nominate(self, side: Side, number: int, name: int) -> None:
        info = PodInfo(builders.pod(f"w{name}"))
        side.nominated.pop(info.uid, None)
        side.cache.nominator.nominate(info, f"n{number}")
        if side.cache.nominator.nominated_node(info.uid):
            side.nominated[info.uid] = info, f"n{number}"

    @invariant()
    def each_is_what_its_objects_make_it(self) -> None:
        for side in getattr(self, "all", ()):
            side.cache.check()
            assert answers(side.cache) == answers(side.rebuilt())


TestForksAgainstScratch = ForksAgainstScratch.TestCase
TestForksAgainstScratch.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)


def small() -> ClusterCache:
    cache = ClusterCache()
    cache.observe_node(builders.node("n", taints=["a=b:NoSchedule"], zone="east"))
    cache.observe_pod(PodInfo(builders.pod("p", node="n", labels={"app": "web"})))
    return cache


def test_a_fork_that_nobody_holds_is_gone_at_once() -> None:
    """Without a collector of cycles: a fork that lingers would make every change of the live cluster dearer."""
    cache = small()
    gc.collect()
    gc.disable()
    try:
        fork = cache.fork()
        parts = [weakref.ref(part) for part in (fork, fork.table, fork.pod_counts._groups, fork.fork().table)]
        del fork
        assert [part() for part in parts] == [None] * len(parts)
    finally:
        gc.enable()


def test_no_id_is_used_again_while_a_fork_lives() -> None:
    cache = small()
    fork = cache.fork()
    known = cache.table.vocabulary.taints
    for number in range(400):
        cache.observe_node(builders.node("n", taints=[f"a={number}:NoSchedule"], resource_version=str(number)))
    assert cache.table.vocabulary.taints is known
    assert len(known) > 400
    assert known.values[fork.table.taint_set[0]] == (("a", "b", "NoSchedule"),)
    del fork
    cache.observe_node(builders.node("n", taints=["a=last:NoSchedule"], resource_version="last"))
    assert len(cache.table.vocabulary.taints) <= 64


def test_a_query_of_a_fork_never_means_another_elsewhere() -> None:
    cache = small()
    fork = cache.fork()
    mine = fork.pod_counts.intern(ALL_NAMESPACES, WEB)
    assert mine != cache.pod_counts.intern(ALL_NAMESPACES, EVERY_APP)
    assert fork.pod_counts.counts(mine).tolist() == [1]
