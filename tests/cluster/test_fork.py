"""Forks of the whole cluster against caches built from scratch with the same objects."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from scheduler import testing
from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.groups.v1alpha2 import v1alpha2
from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.kinds import Kind, kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.pod_group import PodGroup
from scheduler.objects.resource_claims import EXTENDED_RESOURCE_CLAIM_ANNOTATION, ResourceClaim
from scheduler.objects.storage import MIGRATED_PLUGINS_ANNOTATION
from scheduler.testing.fragments import affinity_json, node_term, pod_term
from scheduler.testing.objects import build, pod
from tests import builders
from tests.cluster.cache_answers import CLASSES, DISK, DRIVERS, EBS_PLUGIN, ZONE, answers
from tests.device_documents import DRIVER, claim, device_class, gpu, resource_slice

GROUP_APIS = (v1alpha2(reads_constraints=True, preempts_as_one=True, has_claims=True),)


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
            unschedulable=shape in (1, 5),
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
TestForksAgainstScratch.settings = settings(max_examples=40, stateful_step_count=30)
