"""Forks of the whole cluster against caches built from scratch with the same objects."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from scheduler import testing
from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.groups.v1alpha2 import v1alpha2
from scheduler.cluster.pod_counts import ALL_NAMESPACES
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.cluster.volumes.csi import Attachable
from scheduler.cluster.volumes.disks import disks_of
from scheduler.cluster.volumes.reserved import Release, Reservation, StaticBinding
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.kinds import Kind, kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod_group import PodGroup
from scheduler.objects.quantity import parse
from scheduler.objects.resource_claims import EXTENDED_RESOURCE_CLAIM_ANNOTATION, ResourceClaim
from scheduler.objects.selector_fields import LabelSelector
from scheduler.objects.selectors import EVERYTHING, parse_selector
from scheduler.objects.storage import MIGRATED_PLUGINS_ANNOTATION, PersistentVolume
from scheduler.testing.fragments import affinity_json, node_term, pod_term
from scheduler.testing.objects import build, pod
from tests import builders
from tests.device_documents import DRIVER, claim, device_class, gpu, resource_slice

ZONE = "topology.kubernetes.io/zone"
KEYS = (ZONE, "kubernetes.io/hostname", "disk", "example.com/nowhere")
RESOURCES = ("cpu", "memory", "pods", "example.com/gpu", "example.com/never")
WEB = parse_selector(LabelSelector(match_labels={"app": "web"}))
EVERY_APP = parse_selector(LabelSelector(match_labels={}))
DRIVERS = ("csi.test", "ebs.csi.aws.com", "other")
EBS_PLUGIN = "kubernetes.io/aws-ebs"
CLASSES = ("fast", "slow")
GOLD = parse_selector(LabelSelector(match_labels={"tier": "gold"}))
GROUP_APIS = (v1alpha2(reads_constraints=True, preempts_as_one=True, has_claims=True),)
DISK = {"name": "d", "awsElasticBlockStore": {"volumeID": "vol-inline"}}


class Side:
    """A cluster cache, and the objects that it should hold."""

    def __init__(self, cache: ClusterCache, model: Side | None = None) -> None:
        self.cache = cache
        self.nodes: dict[str, Any] = dict(model.nodes) if model else {}
        self.pods: dict[str, PodInfo] = dict(model.pods) if model else {}
        self.objects: dict[tuple[Kind, str], Any] = dict(model.objects) if model else {}
        self.nominated: dict[str, tuple[PodInfo, str]] = dict(model.nominated) if model else {}
        self.waiting: dict[str, PodInfo] = dict(model.waiting) if model else {}

    def rebuilt(self) -> ClusterCache:
        cache = ClusterCache(selector_limit=3, group_apis=GROUP_APIS)
        for (kind, _), obj in self.objects.items():
            cache.observe_object(kind, obj)
        for node in self.nodes.values():
            cache.observe_node(node)
        for info in self.pods.values():
            cache.observe_pod(info)
        for info, node in self.nominated.values():
            cache.nominator.nominate(info, node)
        for info in self.waiting.values():
            cache.groups.pending_shown(info)
        return cache


def answers(cache: ClusterCache) -> dict[str, Any]:
    """What may be asked of a cache, by names instead of rows and ids."""
    table = cache.table
    rows = [(row, name) for row, name in sorted(enumerate(table.names), key=lambda each: each[1]) if name]
    found: dict[Any, Any] = {
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
    found |= volume_answers(cache, rows)
    found |= device_answers(cache, rows)
    found["nominated"] = {
        node: [info.uid for info in cache.nominator.pods_for_node(node)] for node in sorted(cache.nominator.nodes)
    }
    found["groups"] = {
        key: (cache.groups.get(key), set(members.pending), set(members.placed), members.count)
        for key in ("default/g0", "default/g1")
        for members in [cache.groups.members(key)]
    }
    return found


def volume_answers(cache: ClusterCache, rows: list[tuple[int, str]]) -> dict[str, Any]:
    """What may be asked of volumes, and of the structures that answer for all rows at once."""
    table, volumes = cache.table, cache.volumes
    attached = volumes.attached

    def named(mask: Any) -> set[str]:
        return {name for row, name in rows if table.exists[row] and (mask is None or mask[row])}

    def names_of(some: Any) -> set[str]:
        return {table.names[row] for row in some}

    found: dict[Any, Any] = {"accounts": {name: attached.on_row(row) for row, name in rows}}
    for driver in DRIVERS:
        limits = attached.limits(driver)
        said = {} if limits is None else {n: (int(limits[r]), int(attached.counts(driver)[r])) for r, n in rows}
        # A driver that no node has any more may still have a column.
        found["attached", driver] = {name: each for name, each in said.items() if each != (-1, 0)}
        for handle in ("h0", "h1", "h2", "vol-inline"):
            found["with", driver, handle] = names_of(attached.rows_with(Attachable(driver, handle)))
    migrates = attached.migrates(EBS_PLUGIN)
    found["migrates"] = set() if migrates is None else named(migrates)
    found["using"] = names_of(volumes.rows_using(["default/c0"]))
    found["disks"] = names_of(volumes.rows_with_disks(disks_of(PodInfo(pod("x", volumes=[DISK])))))
    by_port = table.rows_by_port.items()
    found["by port"] = {port: {table.names[row]: count for row, count in there.items()} for port, there in by_port}
    for number in range(3):
        volume = volumes.volume(f"v{number}")
        found["volume", number] = volume
        found["reaching", number] = None if volume is None else named(volumes.rows_reaching(volume))
    for storage_class in CLASSES:
        pool, capacity = volumes.pool(storage_class), volumes.capacity(storage_class)
        for selector in (EVERYTHING, GOLD):
            first = pool.smallest_of_rows(table, parse("1Gi"), selector, is_shared, [])
            second = pool.smallest_of_rows(table, parse("1Gi"), selector, lambda _: True, [first])
            ranks = {name: (int(first[row]), int(second[row])) for row, name in rows if table.exists[row]}
            found["ranks", storage_class, str(selector)] = ranks
        for size in ("1Gi", "3Gi"):
            found["capacity", storage_class, size] = named(capacity.rows_with(table, parse(size)))
        found["set aside", storage_class] = pool.set_aside_for(builders.claim("c0"))
    return found


def device_answers(cache: ClusterCache, rows: list[tuple[int, str]]) -> dict[str, Any]:
    """What may be asked of devices: pools as each node sees them, which look alike, what is held, and classes."""
    devices = cache.view.devices
    devices.catch_up()
    pools = {name: devices.pools(row) for row, name in rows if cache.table.exists[row]}
    shown = {
        name: [
            (pool.key, pool.state, [(one.device.id, one.is_reachable) for one in pool.devices], pool.counter_sets)
            for pool in there
        ]
        for name, there in pools.items()
    }
    looks = {name: devices.signature(row) for row, name in rows if name in pools}
    ids = {one.device.id for there in pools.values() for pool in there for one in pool.devices}
    return {
        "pools": shown,
        "alike": {(one, other): looks[one] == looks[other] for one in looks for other in looks},
        "held": {each: devices.is_held(each) for each in ids},
        "shares": {pool.key: devices.stored.shares_in(pool.key) for there in pools.values() for pool in there},
        "reachable": {name: {one.id for one in devices.reachable(row)} for row, name in rows if name in pools},
        "class": devices.classes.get("example.com/gpu"),
        "special": {claim.uid for claim in devices.special_claims_of("uid-of-a-pod")},
    }


def is_shared(volume: PersistentVolume) -> bool:
    return "ReadWriteMany" in volume.spec.access_modes


class ForksAgainstScratch(RuleBasedStateMachine):
    """Live cache, forks, forks of forks: each changes by itself, and each stays what its own objects make it."""

    sides = Bundle("sides")

    @initialize(target=sides)
    def live(self) -> Side:
        self.all: list[Side] = [Side(ClusterCache(selector_limit=3, group_apis=GROUP_APIS))]
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
        node = testing.node(
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

    @rule(side=sides, number=st.integers(0, 5), shape=st.integers(0, 7))
    def place(self, side: Side, number: int, shape: int) -> None:
        self.serial += 1
        anti = affinity_json(anti_required=[pod_term({"app": "web"})])
        fields: dict[str, Any] = (
            {"cpu": "500m"},
            {"ports": [8080 if self.is_free(side, f"n{number}", 8080) else 9000 + self.serial]},
            {"affinity": anti},
            {"requests": {"example.com/gpu": "1"}},
            {"claims": [f"c{number % 2}"]},
            {"deleted": "2026-02-01T00:00:00Z"},
            {"volumes": [DISK]},
            {"spec": {"schedulingGroup": {"podGroupName": f"g{number % 2}"}}},
        )[shape]
        labels = {"app": ("web", "db")[number % 2]}
        info = PodInfo(pod(f"p{self.serial}", node=f"n{number}", labels=labels, **fields))
        side.cache.observe_pod(info)
        side.pods[info.uid] = info

    @staticmethod
    def is_free(side: Side, node: str, port: int) -> bool:
        """Of two pods that share a port the first to leave frees it: then it matters what was there before."""
        there = [info for info in side.pods.values() if info.node_name == node]
        return all(each.port != port for info in there for each in info.ports)

    @rule(side=sides, data=st.data())
    def remove_pod(self, side: Side, data: st.DataObject) -> None:
        if side.pods:
            uid = data.draw(st.sampled_from(sorted(side.pods)))
            del side.pods[uid]
            side.cache.remove_pod(uid)

    @rule(side=sides, name=st.integers(0, 1), bound=st.booleans())
    def put_claim(self, side: Side, name: int, bound: bool) -> None:
        volume = f"v{name}" if bound else ""
        self.put_object(side, builders.claim(f"c{name}", volume=volume, resource_version=self.next_version()))

    @rule(side=sides, number=st.integers(0, 2), shape=st.integers(0, 5), where=st.integers(0, 3))
    def put_volume(self, side: Side, number: int, shape: int, where: int) -> None:
        affinity = [[], [f"{ZONE} In east"], [f"{ZONE} In west,north", "disk Exists"], ["disk DoesNotExist"]][where]
        volume = builders.volume(
            f"v{number}",
            size=f"{1 + shape % 3}Gi",
            storage_class=CLASSES[shape // 4],
            modes=["ReadWriteMany"] if shape % 2 else ["ReadWriteOnce"],
            labels={"tier": "gold"} if shape in (1, 4) else {},
            node_affinity=[node_term(*affinity)] if affinity else None,
            claimed_by={"namespace": "default", "name": "c0", "uid": ""} if shape == 5 else None,
            csi=None if shape == 2 else ("csi.test", f"h{number}"),
            spec={"awsElasticBlockStore": {"volumeID": f"vol-{number}"}} if shape == 2 else None,
            resource_version=self.next_version(),
        )
        self.put_object(side, volume)

    @rule(side=sides, number=st.integers(0, 2), capacity=st.integers(1, 4), zone=st.sampled_from(("", "east", "west")))
    def put_capacity(self, side: Side, number: int, capacity: int, zone: str) -> None:
        topology = {ZONE: zone} if zone else {}
        name = f"k{number}"
        self.put_object(
            side, builders.csi_capacity(name, CLASSES[number // 2], topology=topology, capacity=f"{capacity}Gi")
        )

    @rule(side=sides, number=st.integers(0, 4), driver=st.sampled_from(DRIVERS), limit=st.integers(0, 3))
    def put_csi_node(self, side: Side, number: int, driver: str, limit: int) -> None:
        annotations = {MIGRATED_PLUGINS_ANNOTATION: EBS_PLUGIN} if limit % 2 else None
        self.put_object(side, builders.csi_node(f"n{number}", {driver: limit, "csi.test": 1}, annotations=annotations))

    @rule(side=sides, number=st.integers(0, 4), volume=st.integers(0, 2))
    def put_attachment(self, side: Side, number: int, volume: int) -> None:
        self.put_object(side, builders.attachment(f"a{volume}", f"n{number}", f"v{volume}"))

    @rule(side=sides, data=st.data())
    def remove_object(self, side: Side, data: st.DataObject) -> None:
        if side.objects:
            kind, key = data.draw(st.sampled_from(sorted(side.objects, key=str)))
            del side.objects[kind, key]
            side.cache.remove_object(kind, key)

    @rule(side=sides, number=st.integers(0, 4), count=st.integers(0, 2), shape=st.integers(0, 5))
    def put_slice(self, side: Side, number: int, count: int, shape: int) -> None:
        """Of a node, a zone, all nodes, or device by device; with counters, or of a later generation."""
        devices = [gpu(f"gpu-{place}", allowMultipleAllocations=place == 1) for place in range(count)]
        made = resource_slice(f"n{number}", *devices, pool=f"pool{number % 3}", name=f"slice{number}")
        spec = made["spec"]
        spec["pool"] |= {"generation": 1 + shape // 5, "resourceSliceCount": 1 + number // 3}
        if shape in (1, 2, 3):
            del spec["nodeName"]
        if shape == 1:
            zone = {"key": ZONE, "operator": "In", "values": ["east"]}
            spec["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
        elif shape == 2:
            spec["allNodes"] = True
        elif shape == 3:
            spec["perDeviceNodeSelection"] = True
            for device in devices:
                device["nodeName"] = f"n{number}"
        elif shape == 4:
            spec["devices"] = []
            spec["sharedCounters"] = [{"name": "memory", "counters": {"slots": {"value": str(count)}}}]
        made["metadata"]["resourceVersion"] = self.next_version()
        self.put_object(side, build(ResourceSlice, made))

    @rule(side=sides, number=st.integers(0, 2), is_allocated=st.booleans(), is_special=st.booleans())
    def put_device_claim(self, side: Side, number: int, is_allocated: bool, is_special: bool) -> None:
        """No device is held by two claims: then it matters which of them came first."""
        made = claim(f"devices{number}", "gpus")
        result: dict[str, Any] = {"request": "r", "driver": DRIVER, "pool": f"pool{number}", "device": "gpu-0"}
        if is_special:
            made["metadata"]["annotations"] = {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}
            owner = {"kind": "Pod", "name": "a-pod", "uid": "uid-of-a-pod", "controller": True}
            made["metadata"]["ownerReferences"] = [owner]
            result |= {"device": "gpu-1", "shareID": f"share{number}", "consumedCapacity": {"memory": "1Gi"}}
        if is_allocated:
            made["status"] = {"allocation": {"devices": {"results": [result]}}}
        made["metadata"]["resourceVersion"] = self.next_version()
        self.put_object(side, build(ResourceClaim, made))

    @rule(side=sides, is_mapped=st.booleans())
    def put_device_class(self, side: Side, is_mapped: bool) -> None:
        fields = {"extendedResourceName": "example.com/gpu"} if is_mapped else {}
        made = device_class("gpus", **fields)
        made["metadata"]["resourceVersion"] = self.next_version()
        self.put_object(side, build(DeviceClass, made))

    def next_version(self) -> str:
        self.serial += 1
        return str(self.serial)

    def put_object(self, side: Side, obj: ApiObject) -> None:
        kind = kind_of(obj)
        side.cache.observe_object(kind, obj)
        side.objects[kind, obj.key] = obj

    @rule(side=sides, number=st.integers(0, 1), min_count=st.integers(1, 3))
    def put_group(self, side: Side, number: int, min_count: int) -> None:
        spec = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
        meta = {"name": f"g{number}", "namespace": "default", "resourceVersion": self.next_version()}
        self.put_object(side, build(PodGroup, {"metadata": meta, "spec": spec}))

    @rule(side=sides, number=st.integers(0, 3), is_there=st.booleans())
    def member_waits(self, side: Side, number: int, is_there: bool) -> None:
        spec = {"schedulingGroup": {"podGroupName": f"g{number % 2}"}}
        info = PodInfo(pod(f"member{number}", spec=spec))
        if is_there:
            side.cache.groups.pending_shown(info)
            side.waiting[info.uid] = info
        else:
            side.cache.groups.pending_gone(info)
            side.waiting.pop(info.uid, None)

    @rule(side=sides, number=st.integers(0, 2), name=st.integers(0, 2))
    def nominate(self, side: Side, number: int, name: int) -> None:
        info = PodInfo(pod(f"w{name}"))
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
TestForksAgainstScratch.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def small() -> ClusterCache:
    cache = ClusterCache()
    cache.observe_node(testing.node("n", taints=["a=b:NoSchedule"], zone="east"))
    cache.observe_pod(PodInfo(pod("p", node="n", labels={"app": "web"})))
    return cache


def test_a_fork_without_references_is_gone_at_once() -> None:
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


class CollectingRow(int):
    """The garbage collector runs whenever it likes: here whenever the row is looked up."""

    __slots__ = ()

    def __hash__(self) -> int:
        gc.collect()
        return int.__hash__(self)


def test_a_fork_may_be_collected_in_the_middle_of_a_change_of_the_table() -> None:
    table = small().table
    cycle: list[object] = [table.fork()]
    cycle.append(cycle)
    del cycle
    assert table.remove_pod(CollectingRow(0), "pod-p").name == "p"


def test_no_id_is_used_again_while_a_fork_lives() -> None:
    cache = small()
    fork = cache.fork()
    known = cache.table.vocabulary.taints
    for number in range(400):
        cache.observe_node(testing.node("n", taints=[f"a={number}:NoSchedule"], resource_version=str(number)))
    assert cache.table.vocabulary.taints is known
    assert len(known) > 400
    assert known.values[fork.table.taint_set[0]] == (("a", "b", "NoSchedule"),)
    del fork
    cache.observe_node(testing.node("n", taints=["a=last:NoSchedule"], resource_version="last"))
    assert len(cache.table.vocabulary.taints) <= 64


def test_a_query_of_a_fork_never_means_another_elsewhere() -> None:
    cache = small()
    fork = cache.fork()
    mine = fork.pod_counts.intern(ALL_NAMESPACES, WEB)
    assert mine != cache.pod_counts.intern(ALL_NAMESPACES, EVERY_APP)
    assert fork.pod_counts.counts(mine).tolist() == [1]


# --- volumes ----------------------------------------------------------------------------------------------------------


def with_volumes() -> ClusterCache:
    """Two nodes, each with a volume of 1Gi that only it reaches, and with room for one more to be made."""
    cache = ClusterCache()
    for number in range(2):
        node = testing.node(f"n{number}", labels={"host": f"h{number}"})
        cache.observe_node(node)
        affinity = [node_term(f"host In h{number}")]
        volume = builders.volume(f"v{number}", storage_class="fast", node_affinity=affinity, labels={"tier": "gold"})
        cache.observe_object(Kind.PERSISTENT_VOLUME, volume)
        capacity = builders.csi_capacity(f"k{number}", "fast", topology={"host": f"h{number}"}, capacity="1Gi")
        cache.observe_object(Kind.CSI_STORAGE_CAPACITY, capacity)
    cache.observe_object(Kind.PERSISTENT_VOLUME_CLAIM, builders.claim("c", storage_class="fast"))
    cache.observe_pod(PodInfo(pod("user", node="n0", claims=["c"])))
    return cache


def ranks(cache: ClusterCache) -> list[bool]:
    """Whether each row has a volume to offer. Asked twice, since answers are kept."""
    pool = cache.volumes.pool("fast")

    def ask(table: NodeTable) -> list[bool]:
        found = pool.smallest_of_rows(table, parse("1Gi"), GOLD, lambda _: True, [])
        return [bool(rank != np.iinfo(np.int64).max) for rank in found]

    assert ask(cache.table) == ask(cache.table)
    return ask(cache.table)


def has_room(cache: ClusterCache) -> list[bool]:
    found: list[bool] = cache.volumes.capacity("fast").rows_with(cache.table, parse("1Gi")).tolist()
    return found


def reserve_first(cache: ClusterCache) -> None:
    claim = cache.objects.get(Kind.PERSISTENT_VOLUME_CLAIM, "default/c")
    taken = builders.volume(
        "v0", storage_class="fast", claimed_by={"namespace": "default", "name": "c", "uid": claim.metadata.uid}
    )
    cache.apply(Reservation("pod-user", "n0", (StaticBinding(taken, claim, is_changed=True),), ()))


@pytest.mark.parametrize("is_fork_first", [True, False])
def test_a_volume_that_one_side_sets_aside_is_free_on_the_other(is_fork_first: bool) -> None:
    cache = with_volumes()
    assert ranks(cache) == [True, True]
    fork = cache.fork()
    assert ranks(fork) == [True, True]
    one, other = (fork, cache) if is_fork_first else (cache, fork)
    reserve_first(one)
    assert (ranks(one), ranks(other)) == ([False, True], [True, True])
    other.remove_object(Kind.PERSISTENT_VOLUME, "v1")
    assert (ranks(one), ranks(other)) == ([False, True], [True, False])
    one.apply(Release("pod-user"))
    assert (ranks(one), ranks(other)) == ([True, True], [True, False])


@pytest.mark.parametrize("is_fork_first", [True, False])
def test_capacity_and_labels_of_one_side_say_nothing_of_the_other(is_fork_first: bool) -> None:
    cache = with_volumes()
    assert has_room(cache) == [True, True]
    fork = cache.fork()
    one, other = (fork, cache) if is_fork_first else (cache, fork)
    one.remove_object(Kind.CSI_STORAGE_CAPACITY, "default/k0")
    assert (has_room(one), has_room(other)) == ([False, True], [True, True])
    other.observe_node(testing.node("n1", labels={"host": "elsewhere"}, resource_version="2"))
    assert (has_room(one), has_room(other)) == ([False, True], [True, False])
    assert (ranks(one), ranks(other)) == ([True, True], [True, False])


def test_a_fork_that_asked_for_volumes_is_gone_at_once() -> None:
    """What is kept of an answer is shared with the parent, and must not hold the fork."""
    cache = with_volumes()
    gc.collect()
    gc.disable()
    try:
        fork = cache.fork()
        assert ranks(fork) == has_room(fork) == [True, True]
        table = weakref.ref(fork.table)
        del fork
        assert table() is None
    finally:
        gc.enable()


def test_volumes_that_change_beside_one_fork_after_the_other_leave_no_layers_behind() -> None:
    """Each copy would otherwise stand on the one before, for as long as the live cluster is up."""
    cache = with_volumes()
    maps = []
    for _ in range(3):
        fork = cache.fork()
        reserve_first(cache)
        cache.apply(Release("pod-user"))
        maps.append(weakref.ref(fork.volumes.pool("fast")._labels._columns._rows_of))
        del fork
    gc.collect()
    assert [each() for each in maps] == [None] * 3
    assert ranks(cache) == [True, True]
