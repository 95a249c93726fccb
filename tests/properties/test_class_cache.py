"""The class cache against an evaluation from nothing: whatever happens in the cluster, both answer alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scheduler import testing
from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.framework.classes.cache import ClassCache
from scheduler.framework.per_node import PerNodeFilter, PerNodeScore
from scheduler.framework.plugin import Plugin, Reads
from scheduler.framework.profile import Profile
from scheduler.messages.status import unschedulable
from scheduler.objects.kinds import Kind
from scheduler.objects.storage import PersistentVolume
from scheduler.plugins.registry import registry
from scheduler.testing.fragments import affinity_json, node_term, pod_term, spread_json
from tests import builders
from tests.properties.class_answers import answers_of

ZONES = ("east", "west")
APPS = ("web", "db")


TAINTS = {
    1: ["odd:PreferNoSchedule"],
    2: ["odd:PreferNoSchedule", "loud:PreferNoSchedule", "far:PreferNoSchedule"],
    3: ["odd:PreferNoSchedule", "loud:PreferNoSchedule"],
    4: ["dedicated=db:NoSchedule"],
}
"""Of a node, by its shape."""


class LabelOfPods(PerNodeFilter, PerNodeScore):
    """Declared: looks at the labels of the pods on a node, as a plugin of a user may."""

    name = "LabelOfPods"
    reads = Reads.USAGE | Reads.NODE

    def fragment(self, pod: PodInfo, view: Any) -> Any:
        return pod.labels.get("app", "")

    def filter_one(self, state: Any, pod: PodInfo, node: Any, node_view: Any) -> Any:
        noisy = sum(other.labels.get("noisy") == "yes" for other in node_view.pods)
        return unschedulable(f"{noisy} noisy pods") if noisy else None

    def score_one(self, state: Any, pod: PodInfo, node: Any, node_view: Any) -> int:
        alike: int = sum(other.labels.get("app") == pod.labels.get("app") for other in node_view.pods)
        return min(100, 10 * alike)


class ByName(PerNodeFilter):
    """Declared: goes by the pod's own name, which no template tells."""

    name = "ByName"
    reads = Reads.NODE

    def fragment(self, pod: PodInfo, view: Any) -> Any:
        return pod.name[-1]

    def filter_one(self, state: Any, pod: PodInfo, node: Any, node_view: Any) -> Any:
        return unschedulable("not for this name") if pod.name[-1] == node.metadata.name[-1] else None


class Secretive(PerNodeFilter, PerNodeScore):
    """Declares nothing, so it is asked afresh each time: its answers depend on the pod's name and on all nodes."""

    name = "Secretive"

    def filter_one(self, state: Any, pod: PodInfo, node: Any, node_view: Any) -> Any:
        # By the node's name: a row's number in a view of some rows depends on which others are asked about with it.
        odd = (len(pod.name) + node_view.view.total_nodes + int(node.metadata.name[-1])) % 5
        return unschedulable("odd") if odd == 0 else None

    def score_one(self, state: Any, pod: PodInfo, node: Any, node_view: Any) -> int:
        return int(7 * len(pod.name) + node_view.view.total_nodes) % 100


class Stamped(PerNodeFilter, PerNodeScore):
    """Declared: goes by the number of services, which only its stamp tells; it has no PreFilter and no PreScore."""

    name = "Stamped"
    reads = Reads.NODE

    def fragment(self, pod: PodInfo, view: Any) -> Any:
        return ()

    def stamp(self, fragment: Any, view: Any) -> Any:
        return view.version(Kind.SERVICE)

    def filter_one(self, state: Any, pod: PodInfo, node: Any, node_view: Any) -> Any:
        services = len(node_view.view.all(Kind.SERVICE))
        return unschedulable("not now") if int(node.metadata.name[-1]) % 4 == services % 4 else None

    def score_one(self, state: Any, pod: PodInfo, node: Any, node_view: Any) -> int:
        return (7 * len(node_view.view.all(Kind.SERVICE)) + int(node.metadata.name[-1])) % 100


ADDED = (LabelOfPods, ByName, Stamped, Secretive)


def profile_of(*added: type[Plugin]) -> Profile:
    """A profile with a name of its own: the cache goes by the names."""
    name = f"with-{len(added)}-added"
    enabled = ", ".join(f"{{name: {plugin.name}}}" for plugin in added)
    text = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: {name}
  plugins: {{multiPoint: {{enabled: [{enabled}]}}}}
"""
    return build_profiles(load(text), registry(added))[name]


PROFILES = (profile_of(), profile_of(LabelOfPods, ByName, Stamped), profile_of(*ADDED))
"""The built-in plugins alone; with plugins of users that declare what they read; and with one that does not."""


def pending(kind: int, name: str, priority: int = 0) -> PodInfo:
    """One of a few very different pods."""
    app = APPS[kind % 2]
    spread = [spread_json("topology.kubernetes.io/zone", {"app": app}, soft=kind == 3)]
    honoring = [
        spread_json(key, {"app": app}, soft=soft, nodeTaintsPolicy="Honor")
        for key, soft in (("topology.kubernetes.io/zone", False), ("kubernetes.io/hostname", True))
    ]
    anti = affinity_json(anti_required=[pod_term({"app": app})])
    prefers = affinity_json(preferred=[(10, pod_term({"app": "web"}, "topology.kubernetes.io/zone"))])
    ssd = affinity_json(node_preferred=[(5, node_term("disk In ssd"))])
    fields: dict[int, dict[str, Any]] = {
        0: {"cpu": "500m"},
        1: {"cpu": "1", "ports": [8080], "tolerations": ["dedicated=db:NoSchedule"]},
        2: {"spread": spread, "cpu": "250m"},
        3: {"spread": spread},
        4: {"affinity": anti},
        5: {"affinity": prefers, "image": "registry.test/big:v1"},
        6: {"affinity": ssd, "node_selector": {"topology.kubernetes.io/zone": "east"}},
        7: {"requests": {"example.com/gpu": "1"}},
        8: {"cpu": "250m", "claims": [f"c{sum(name.encode()) % CLAIMS}"]},
        9: {"spread": honoring},
    }
    return PodInfo(testing.pod(name, labels={"app": app}, priority=priority, **fields[kind]))


def volume(number: int, handle: int, is_zonal: bool) -> PersistentVolume:
    """What claim ``number`` is bound to. Volumes of one handle are one to the nodes."""
    labels = {"topology.kubernetes.io/zone": "east"} if is_zonal else {}
    affinity = [node_term("disk In ssd")] if number == 0 else None
    return builders.volume(f"pv{number}", csi=("csi.test", f"h{handle}"), labels=labels, node_affinity=affinity)


CLAIMS = 5
KINDS = st.integers(0, 9)
NODES = st.integers(0, 5)


class Comparison(RuleBasedStateMachine):
    """Nodes and pods come, change and go; after each step a pod of some kind is asked about twice."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = ClusterCache()
        self.classes = ClassCache()
        self.pods: dict[str, PodInfo] = {}
        self.waiting: dict[str, PodInfo] = {}
        self.nominator = Nominator(lambda key: self.waiting.get(key), self.cache.affinity_terms)
        self.serial = 0
        self.version = 0

    @initialize(count=st.integers(1, 4))
    def begin(self, count: int) -> None:
        for number in range(count):
            self.put_node(number, 0, 0)
        for number in range(CLAIMS):
            self.cache.observe_object(Kind.PERSISTENT_VOLUME_CLAIM, builders.claim(f"c{number}", volume=f"pv{number}"))
            self.put_volume(number, number, False)

    @rule(number=NODES, shape=st.integers(0, 5), zone=st.integers(0, 1))
    def put_node(self, number: int, shape: int, zone: int) -> None:
        self.version += 1
        self.cache.observe_node(
            testing.node(
                f"n{number}",
                cpu=("2", "4", "1")[shape % 3],
                zone=ZONES[zone],
                labels={"disk": "ssd"} if shape % 2 else {},
                taints=TAINTS.get(shape, []),
                unschedulable=shape == 5,
                images={"registry.test/big:v1": 500 * 2**20} if shape in (1, 2) else None,
                allocatable={"example.com/gpu": "2"} if shape in (0, 3) else None,
                resource_version=str(self.version),
            )
        )

    @rule(number=st.integers(0, CLAIMS - 1), handle=st.integers(0, 2), is_zonal=st.booleans())
    def put_volume(self, number: int, handle: int, is_zonal: bool) -> None:
        self.cache.observe_object(Kind.PERSISTENT_VOLUME, volume(number, handle, is_zonal))

    @rule(number=NODES, limit=st.integers(0, 3))
    def limit_volumes(self, number: int, limit: int) -> None:
        self.cache.observe_object(Kind.CSI_NODE, builders.csi_node(f"n{number}", {"csi.test": limit}))

    @rule(number=NODES, claim=st.integers(0, CLAIMS - 1))
    def leave_a_volume_attached(self, number: int, claim: int) -> None:
        left = builders.attachment(f"left-{number}", f"n{number}", f"pv{claim}")
        self.cache.observe_object(Kind.VOLUME_ATTACHMENT, left)

    @rule(number=NODES)
    def remove_node(self, number: int) -> None:
        self.cache.remove_node(f"n{number}")

    @rule(kind=KINDS, number=NODES, noisy=st.booleans())
    def place_pod(self, kind: int, number: int, noisy: bool) -> None:
        self.serial += 1
        info = pending(kind, f"p{self.serial}").on_node(f"n{number}")
        if noisy:
            info = self._labelled(info, {"app": "web", "noisy": "yes"})
        self.pods[info.uid] = info
        if self.serial % 2:
            self.cache.assume(info)
        else:
            self.cache.observe_pod(info)

    @rule(data=st.data(), noisy=st.booleans(), terminating=st.booleans())
    def change_pod(self, data: st.DataObject, noisy: bool, terminating: bool) -> None:
        if not self.pods:
            return
        info = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        labels = dict(info.labels) | ({"noisy": "yes"} if noisy else {"noisy": "no"})
        changed = self._labelled(info, labels, deleted="2026-02-01T00:00:00Z" if terminating else None)
        self.pods[info.uid] = changed
        self.cache.observe_pod(changed)

    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        if self.pods:
            uid = data.draw(st.sampled_from(sorted(self.pods)))
            del self.pods[uid]
            self.cache.remove_pod(uid)

    @rule(kind=KINDS, number=NODES, priority=st.integers(0, 2), name=st.integers(0, 2))
    def nominate(self, kind: int, number: int, priority: int, name: int) -> None:
        info = pending(kind, f"w{name}", priority)
        self.waiting[info.key] = info
        self.nominator.nominate(info, f"n{number}")

    @rule(name=st.integers(0, 2))
    def withdraw(self, name: int) -> None:
        self.waiting.pop(f"default/w{name}", None)
        self.nominator.delete(f"pod-w{name}")

    @rule()
    def make_a_service(self) -> None:
        self.serial += 1
        self.cache.observe_object(Kind.SERVICE, builders.service(f"s{self.serial}", {"app": "web"}))

    @rule(kind=KINDS, name=st.sampled_from(["x", "yy", "a1", "b2", "w1"]), priority=st.integers(0, 2))
    def ask(self, kind: int, name: str, priority: int) -> None:
        for profile in PROFILES:
            self.compare(profile, kind, name, priority)

    @invariant()
    def old_acquaintances_get_true_answers(self) -> None:
        """Classes that are asked after every step, so that each change meets answers that are kept."""
        for profile in PROFILES[:2]:
            for kind, name in ((0, "a0"), (2, "a2"), (3, "a3"), (5, "a5"), (8, "a8"), (8, "b8"), (9, "a9")):
                self.compare(profile, kind, name, 1)

    def compare(self, profile: Profile, kind: int, name: str, priority: int) -> None:
        pod = self.waiting.get(f"default/{name}") or pending(kind, name, priority)
        pod_class, fragments = self.classes.find(profile, pod, self.cache.view)
        kept = answers_of(self.cache, self.nominator, pod_class, fragments, pod)
        fresh_pod = PodInfo(pod.pod)
        fresh_class, fresh_fragments = ClassCache().find(profile, fresh_pod, self.cache.view)
        fresh = answers_of(self.cache, self.nominator, fresh_class, fresh_fragments, fresh_pod)
        assert kept == fresh

    @rule(kind=KINDS, number=NODES)
    def try_out_in_a_fork(self, kind: int, number: int) -> None:
        """Answers are read from the live classes, brought up to date in the fork, and never seen by the live ones."""
        live = self.cache, self.classes, self.nominator
        self.serial += 1
        self.cache, self.classes = self.cache.fork(), self.classes.fork(self.cache)
        self.nominator = self.nominator.fork(self.cache.affinity_terms)
        try:
            changes: tuple[Callable[[], object], ...] = (
                lambda: None,
                lambda: self.cache.assume(pending(kind, f"f{self.serial}").on_node(f"n{number}")),
                lambda: self.cache.observe_node(testing.node(f"n{number}", cpu="8", zone=ZONES[0])),
            )
            for change in changes:
                change()
                for profile in PROFILES:
                    for asked in dict.fromkeys((0, 3, 8, kind)):
                        self.compare(profile, asked, f"a{asked}", 1)
            self.cache.check()
        finally:
            self.cache, self.classes, self.nominator = live

    @rule()
    def much_happens(self) -> None:
        """More than is looked at row by row."""
        for number in range(40):
            self.cache.observe_node(testing.node(f"m{number}", cpu="1", zone=ZONES[number % 2]))
        for number in range(3, 40):
            self.cache.remove_node(f"m{number}")

    @rule(kind=KINDS, stay=st.integers(0, 20))
    def many_pods_come_and_most_go(self, kind: int, stay: int) -> None:
        """The same with pods, which change no node."""
        for _ in range(35):
            self.serial += 1
            info = pending(kind, f"p{self.serial}").on_node(f"n{self.serial % 6}")
            self.cache.observe_pod(info)
            if self.serial % 35 < stay:
                self.pods[info.uid] = info
            else:
                self.cache.remove_pod(info.uid)

    @invariant()
    def the_cache_is_consistent(self) -> None:
        self.cache.check()

    @staticmethod
    def _labelled(info: PodInfo, labels: dict[str, str], deleted: str | None = None) -> PodInfo:
        metadata = msgspec.structs.replace(info.pod.metadata, labels=labels, deletion_timestamp=deleted)
        return PodInfo(msgspec.structs.replace(info.pod, metadata=metadata), node_name=info.node_name)


TestClassCache = Comparison.TestCase
TestClassCache.settings = settings(max_examples=50, stateful_step_count=30)
