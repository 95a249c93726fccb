"""Clusters to test a plugin on: an initial state (``Cluster``), and one that changes (``World``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Unpack

from msgspec import Struct, field
from msgspec.structs import replace

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.objects.kinds import kind_of
from scheduler.objects.meta import ApiObject, Condition
from scheduler.objects.node import ContainerImage, Node, Taint
from scheduler.objects.pod import Pod
from scheduler.testing.documents import PodFields
from scheduler.testing.fragments import affinity_json, pod_term, spread_json
from scheduler.testing.objects import node, pod

SIEVE_LABEL = "contract.test/sieve"
"""Nodes with this label are refused by the harness's own filter, which changes the feasible nodes."""


class Cluster(Struct, frozen=True):
    """Nodes, pods on them, pending pods, and objects of other kinds."""

    nodes: Sequence[Node]
    pods: Sequence[Pod] = ()
    pending: Sequence[Pod] = field(default_factory=lambda: (_pod("pending"),))
    objects: Sequence[ApiObject] = ()

    def view(self) -> View:
        """The view that plugins get of the cluster."""
        return World(self).view


def usual_clusters(seed: int = 0, count: int = 2) -> tuple[Cluster, ...]:
    """Small clusters with zones, taints, full and cordoned nodes, and pods of several kinds, determined by the seed."""
    rng = Random(seed)
    return tuple(_usual_cluster(rng) for _ in range(count))


def _usual_cluster(rng: Random) -> Cluster:
    nodes = [
        node(
            f"n{number}",
            cpu=rng.choice(("1", "2", "8")),
            memory=rng.choice(("2Gi", "16Gi")),
            labels={
                "topology.kubernetes.io/zone": rng.choice("ab"),
                "disk": rng.choice(("ssd", "hdd")),
                "cost": rng.choice(("low", "high")),
            },
            taints=rng.choice(((), (), ("dedicated=db:NoSchedule",), ("spot:PreferNoSchedule",))),
            unschedulable=rng.random() < 0.1,
        )
        for number in range(6)
    ]
    pods = [
        _pod(
            f"p{number}",
            node=f"n{rng.randrange(6)}",
            cpu=rng.choice(("100m", "500m")),
            labels={"app": rng.choice(("web", "db"))},
        )
        for number in range(5)
    ]
    web = {"app": "web"}
    pending = [
        _pod("plain"),
        _pod("web", labels=web),
        _pod("big", cpu="1500m", memory="3Gi", labels={"app": "db"}, priority=10),
        _pod("picky", node_selector={"disk": "ssd"}, tolerations=[""]),
        _pod("apart", labels=web, affinity=affinity_json(anti_required=[pod_term(web)])),
        _pod("spread", labels=web, spread=[spread_json("topology.kubernetes.io/zone", web)]),
    ]
    return Cluster(nodes, pods, pending)


def _pod(name: str, **fields: Unpack[PodFields]) -> Pod:
    """A pod that requests 100m and 200Mi unless stated, so that resources differ."""
    requests: PodFields = {"cpu": "100m", "memory": "200Mi"}
    return pod(name, **(requests | fields))


class World:
    """A cluster that changes. ``change`` makes one random change and returns its description."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.cache = ClusterCache()
        self.pending = [PodInfo(pod) for pod in cluster.pending]
        self._gone_nodes: dict[str, Node] = {}
        self._gone_objects: dict[str, ApiObject] = {}
        self._numbers = count(1)
        for one in cluster.nodes:
            self.cache.observe_node(one)
        for thing in cluster.objects:
            self.cache.observe_object(kind_of(thing), thing)
        for each in cluster.pods:
            self.cache.observe_pod(PodInfo(each))

    @property
    def view(self) -> View:
        return self.cache.view

    @property
    def nodes(self) -> list[Node]:
        table = self.cache.table
        found = [table.nodes[row] for row in table.order.rows.tolist()]
        return [one for one in found if one is not None]

    def place(self, info: PodInfo, node_name: str) -> PodInfo:
        """Adds a copy of a pod, under another name, to a node."""
        return PodInfo(twin(info.pod, f"copy{next(self._numbers)}").on_node(node_name))

    def change(self, rng: Random) -> str:
        """Makes a random change and describes it; if one is not possible, makes a different one. Never raises."""
        makers: tuple[Callable[[Random], str], ...] = (
            self._change_node,
            self._change_node,
            self._change_pods,
            self._change_pods,
            self._change_membership,
            self._change_object,
        )
        while True:
            said = rng.choice(makers)(rng)
            if said:
                return said

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _change_node(self, rng: Random) -> str:
        if not self.nodes:
            return ""
        changes = (_relabel, _sieve, _taint, _cordon, _resize, _annotate, _trouble, _pull_image)
        said, changed = rng.choice(changes)(rng.choice(self.nodes), self.cluster, rng)
        self.cache.observe_node(changed)
        return f"{said} of node {changed.name} changed"

    def _change_membership(self, rng: Random) -> str:
        if self._gone_nodes and (rng.random() < 0.6 or len(self.nodes) < 2):
            name = rng.choice(sorted(self._gone_nodes))
            self.cache.observe_node(self._gone_nodes.pop(name))
            return f"node {name} was added"
        if len(self.nodes) < 2:
            return ""
        gone = rng.choice(self.nodes)
        self._gone_nodes[gone.name] = gone
        self.cache.remove_node(gone.name)
        return f"node {gone.name} was removed"

    # --- pods and objects ---------------------------------------------------------------------------------------------

    def _change_pods(self, rng: Random) -> str:
        placed = list(self.cache.pods.values())
        if self.nodes and (len(placed) < 3 or (rng.random() < 0.5 and len(placed) < 30)):
            name = rng.choice(self.nodes).name
            copy = self.place(rng.choice(self.pending), name)
            self.cache.observe_pod(copy)
            return f"pod {copy.name} came to node {name}"
        if not placed:
            return ""
        one = rng.choice(placed)
        if rng.random() < 0.5:
            self.cache.remove_pod(one.uid)
            return f"pod {one.name} left node {one.node_name}"
        labels = dict(rng.choice(self.pending).labels)
        self.cache.observe_pod(PodInfo(replace(one.pod, metadata=replace(one.pod.metadata, labels=labels))))
        return f"the labels of pod {one.name} on node {one.node_name} changed"

    def _change_object(self, rng: Random) -> str:
        things = {f"{kind_of(thing).value} {thing.key}": thing for thing in self.cluster.objects}
        if not things:
            return ""
        name = rng.choice(sorted(things))
        thing = self._gone_objects.pop(name, None)
        if thing is not None:
            self.cache.observe_object(kind_of(thing), thing)
            return f"{name} was added"
        self._gone_objects[name] = things[name]
        self.cache.remove_object(kind_of(things[name]), things[name].key)
        return f"{name} was removed"


def twin(original: Pod, name: str) -> Pod:
    """A copy of a pod with another name and UID."""
    return replace(original, metadata=replace(original.metadata, name=name, uid=f"uid-{name}"))


# --- changes of a node ------------------------------------------------------------------------------------------------


def _relabel(one: Node, cluster: Cluster, rng: Random) -> tuple[str, Node]:
    labels = dict(one.metadata.labels)
    values: dict[str, set[str]] = {}
    for other in cluster.nodes:
        for key, value in other.metadata.labels.items():
            values.setdefault(key, set()).add(value)
    key = rng.choice(sorted(values) or [SIEVE_LABEL])
    if key in labels and rng.random() < 0.3:
        del labels[key]
    else:
        labels[key] = rng.choice([*sorted(values.get(key, ())), "other"])
    return f"label {key}", replace(one, metadata=replace(one.metadata, labels=labels))


def _sieve(one: Node, _: Cluster, rng: Random) -> tuple[str, Node]:
    labels = dict(one.metadata.labels)
    if labels.pop(SIEVE_LABEL, None) is None:
        labels[SIEVE_LABEL] = "out"
    return f"label {SIEVE_LABEL}", replace(one, metadata=replace(one.metadata, labels=labels))


def _taint(one: Node, cluster: Cluster, rng: Random) -> tuple[str, Node]:
    known = [taint for other in cluster.nodes for taint in other.spec.taints]
    taint = rng.choice([*known, Taint(key="contract.test/taint", effect="NoSchedule")])
    taints = tuple(other for other in one.spec.taints if other != taint)
    taints = taints if len(taints) < len(one.spec.taints) else (*taints, taint)
    return "the taints", replace(one, spec=replace(one.spec, taints=taints))


def _cordon(one: Node, _: Cluster, rng: Random) -> tuple[str, Node]:
    return "spec.unschedulable", replace(one, spec=replace(one.spec, unschedulable=not one.spec.unschedulable))


def _resize(one: Node, cluster: Cluster, rng: Random) -> tuple[str, Node]:
    sizes = [other.status.allocatable for other in (*cluster.nodes, node("small", cpu="500m"), node("wide", cpu="64"))]
    return "the allocatable resources", replace(one, status=replace(one.status, allocatable=rng.choice(sizes)))


def _annotate(one: Node, cluster: Cluster, rng: Random) -> tuple[str, Node]:
    known = sorted({key for other in cluster.nodes for key in other.metadata.annotations}) or ["contract.test/note"]
    annotations = {**one.metadata.annotations, rng.choice(known): str(rng.random())}
    return "the annotations", replace(one, metadata=replace(one.metadata, annotations=annotations))


def _trouble(one: Node, _: Cluster, rng: Random) -> tuple[str, Node]:
    conditions = tuple(
        Condition(type=kind, status=rng.choice(("True", "False"))) for kind in ("Ready", "MemoryPressure")
    )
    return "the conditions", replace(one, status=replace(one.status, conditions=conditions))


def _pull_image(one: Node, cluster: Cluster, rng: Random) -> tuple[str, Node]:
    names = sorted(
        {container.image for each in cluster.pending for container in each.spec.containers if container.image}
    )
    image = ContainerImage(names=(rng.choice([*names, "other"]),), size_bytes=rng.randrange(1, 2**30))
    return "the images", replace(one, status=replace(one.status, images=(image,)))
