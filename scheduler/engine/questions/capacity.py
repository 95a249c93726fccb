"""What is free: by pool of nodes and resource, and in units of the pods that wait and of those that run most.

Which nodes admit a pod is the filters' answer; how often it fits on each is counted by resources, pod slots and host
ports alone. Where copies of a pod refuse each other (anti-affinity, spread) or share volumes, the count is an upper
bound, and said to be; ``what-if --max`` places them one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from scheduler.cluster.pod_info import PodInfo
from scheduler.config.names import NODE_SCOPE_PLUGIN
from scheduler.engine.engine import Engine
from scheduler.engine.questions.evictions import created_again_in
from scheduler.engine.questions.trial import Trial
from scheduler.messages.now import Now
from scheduler.objects.meta import controller_of

POOL_LABELS: Final = (
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/instance-type",
)
"""The labels by which providers name pools; the first that a node has is taken where none is stated."""
MAX_POOLS: Final = 200
MAX_SHAPES: Final = 3
"""Shapes of waiting pods, and as many of running ones: those with the most pods."""
MAX_RESOURCES: Final = 64
"""Resources that a shape requests: a pod may name ten thousand, each of which would be counted on each node."""
MAX_WAITING: Final = 5_000
COMMON: Final = ("cpu", "memory", "ephemeral-storage", "pods")
NODE_RESOURCES: Final = "NodeResourcesFit"
_SLICE: Final = 500

Rows = npt.NDArray[np.int64]


class Amount(msgspec.Struct, frozen=True, rename="camel"):
    """What nodes of one pool offer of one resource and pods take of it, in milli-CPU, bytes, or pieces."""

    allocatable: int
    requested: int
    free: int
    largest_free: int
    """The most that is free on one node."""


class Shape(msgspec.Struct, frozen=True, rename="camel"):
    """Pods alike: of one controller, with the same requests. ``name``: namespace/name of the controller or the pod."""

    name: str
    pods: int
    is_waiting: bool
    requests: dict[str, int]
    is_upper_bound: bool
    """Its pods may refuse each other: the counts of it are upper bounds."""
    message: str = ""
    """Why no node admits one, if none does."""


class Fits(msgspec.Struct, frozen=True, rename="camel"):
    """How many more pods of one shape fit in one pool."""

    shape: str
    count: int
    """How many more fit."""
    nodes: int
    """The nodes that admit at least one."""
    lost: int
    """How many more would fit if what is free were in one piece: the loss by fragmentation."""
    limited_by: dict[str, int]
    """Resource → nodes on which it runs out first."""
    closed: int
    """Nodes that refuse such a pod for another reason than room."""
    outside_of_scope: int
    """Of these, the nodes outside of the ``nodeScope`` of the pods' profile."""


class Pool(msgspec.Struct, frozen=True, rename="camel"):
    """The nodes of one pool: what is free there, and which shapes fit how often."""

    name: str
    nodes: int
    cordoned: int
    resources: dict[str, Amount]
    fits: tuple[Fits, ...]


class Capacity(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of ``capacity``."""

    pool_labels: tuple[str, ...]
    """The labels whose values name a pool; a node without them is in the pool ""."""
    pools: tuple[Pool, ...]
    shapes: tuple[Shape, ...]
    pools_left_out: int = 0


def capacity(engine: Engine, now: Now, labels: Sequence[str] = ()) -> Generator[None, None, Capacity]:
    """What is free now. ``labels`` define the pools; (): the first of ``POOL_LABELS`` that nodes have. Yields between
    its steps."""
    trial = Trial(engine, now)
    yield
    pool_labels, by_pool = yield from _pools(trial, labels)
    shapes = yield from _shapes(engine)
    found: list[tuple[Shape, _Copies]] = []
    for shape, info in shapes:
        attempt_message, copies = _copies(trial, info)
        found.append((msgspec.structs.replace(shape, message=attempt_message), copies))
        yield
    pools = []
    for name, rows in list(by_pool.items())[:MAX_POOLS]:
        pools.append(_pool(trial, name, rows, found))
        yield
    return Capacity(pool_labels, tuple(pools), tuple([shape for shape, _ in found]), max(len(by_pool) - MAX_POOLS, 0))


# --- pools ------------------------------------------------------------------------------------------------------------


def _pools(trial: Trial, stated: Sequence[str]) -> Generator[None, None, tuple[tuple[str, ...], dict[str, Rows]]]:
    table = trial.cache.table
    rows = table.order.rows
    labels = tuple(stated)
    if not labels:
        for key in POOL_LABELS:
            if _is_on_a_node(trial, key):
                labels = (key,)
                break
            yield
    by_name: dict[str, list[int]] = {}
    for row in rows.tolist():
        node = table.nodes[row]
        if node is not None:
            name = ",".join(node.labels.get(key, "") for key in labels).strip(",")
            by_name.setdefault(name, []).append(row)
        if row % _SLICE == _SLICE - 1:
            yield
    in_order = sorted(by_name.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return labels, {name: np.array(of_pool, np.int64) for name, of_pool in in_order}


def _is_on_a_node(trial: Trial, key: str) -> bool:
    return any(node is not None and key in node.labels for node in trial.cache.table.nodes)


def _pool(trial: Trial, name: str, rows: Rows, shapes: Sequence[tuple[Shape, _Copies]]) -> Pool:
    table = trial.cache.table
    resources = {}
    for resource in (*COMMON, *_scalars(shapes)):
        offered, taken = table.allocatable(resource)[rows], table.requested(resource)[rows]
        free = np.maximum(offered - taken, 0)
        if offered.any() or taken.any():
            resources[resource] = Amount(int(offered.sum()), int(taken.sum()), int(free.sum()), int(free.max()))
    cordoned = sum(node is not None and node.unschedulable for node in (table.nodes[row] for row in rows.tolist()))
    fits = tuple([copies.in_pool(shape, rows) for shape, copies in shapes])
    return Pool(name, len(rows), cordoned, resources, fits)


def _scalars(shapes: Sequence[tuple[Shape, _Copies]]) -> tuple[str, ...]:
    names = (name for shape, _ in shapes for name in shape.requests if name not in COMMON)
    return tuple(dict.fromkeys(names))


# --- shapes -----------------------------------------------------------------------------------------------------------


def _shapes(engine: Engine) -> Generator[None, None, list[tuple[Shape, PodInfo]]]:
    """The shapes of most waiting pods, then those of most running pods of any scheduler."""
    waiting = [record.info for record in (yield from engine.queue.first_waiting(MAX_WAITING, _SLICE))]
    found = yield from _most(waiting, True)
    known = {shape.name for shape, _ in found}
    running = yield from _most(list(engine.cache.pods.values()), False)
    return [*found, *(one for one in running if one[0].name not in known)]


def _most(pods: Sequence[PodInfo], is_waiting: bool) -> Generator[None, None, list[tuple[Shape, PodInfo]]]:
    counts: Counter[tuple[object, ...]] = Counter()
    examples: dict[tuple[object, ...], PodInfo] = {}
    for number, info in enumerate(pods):
        owner = controller_of(info.pod.metadata)
        is_unit = is_waiting or owner is None or owner.kind != "DaemonSet"
        if is_unit and len(info.requests.scalars) <= MAX_RESOURCES:
            key: tuple[object, ...] = (info.namespace, info.name if owner is None else owner.name, info.requests.key)
            counts[key] += 1
            examples.setdefault(key, info)
        if number % _SLICE == _SLICE - 1:
            yield
    shapes = []
    for shape_key, count in counts.most_common(MAX_SHAPES):
        info = examples[shape_key]
        requests = {name: info.requests.amount(name) for name in (*COMMON, *info.requests.scalars)}
        stated = {name: amount for name, amount in requests.items() if amount}
        name = f"{shape_key[0]}/{shape_key[1]}"
        shapes.append((Shape(name, count, is_waiting, stated, _may_refuse_each_other(info)), info))
    return shapes


def _may_refuse_each_other(info: PodInfo) -> bool:
    spec = info.pod.spec
    return bool(info.has_affinity or spec.topology_spread_constraints or spec.volumes or spec.resource_claims)


# --- how often a shape fits -------------------------------------------------------------------------------------------


class _Copies:
    """How often a pod fits on each row. ``is_open``: nothing but room decides there."""

    def __init__(
        self,
        per_row: Rows,
        limits: Rows,
        is_open: npt.NDArray[np.bool_],
        is_outside: npt.NDArray[np.bool_],
        free: dict[str, Rows],
        requests: dict[str, int],
    ) -> None:
        """``limits``: of each row the place, in ``requests``, of the resource that runs out first."""
        self._per_row = per_row
        self._limits = limits
        self._is_open = is_open
        self._is_outside = is_outside
        self._free = free
        self._requests = requests

    def in_pool(self, shape: Shape, rows: Rows) -> Fits:
        is_open = self._is_open[rows]
        opened = rows[is_open]
        copies = self._per_row[opened]
        count = int(copies.sum())
        whole = min((int(free[opened].sum()) // self._requests[name] for name, free in self._free.items()), default=0)
        names = list(self._requests)
        limited = Counter(names[at] for at in self._limits[opened].tolist())
        return Fits(
            shape.name,
            count,
            int(np.count_nonzero(copies)),
            max(whole - count, 0),
            dict(limited.most_common()),
            int(len(rows) - len(opened)),
            int(np.count_nonzero(self._is_outside[rows])),
        )


def _copies(trial: Trial, info: PodInfo) -> tuple[str, _Copies]:
    """Why no node admits the pod ("" if one does), and how often it fits where."""
    waiting = created_again_in(trial.cache, info, f"capacity-{info.uid}") if info.node_name else info
    tried = trial.filtered(waiting)
    table = trial.cache.table
    asked = info.requests
    requests = {name: asked.amount(name) for name in (*COMMON[:3], *asked.scalars) if asked.amount(name)}
    requests["pods"] = 1
    free = {name: np.maximum(table.allocatable(name) - table.requested(name), 0) for name in requests}
    copies = np.stack([free[name] // amount for name, amount in requests.items()])
    limits = copies.argmin(axis=0)
    per_row = copies.min(axis=0)
    if info.ports:
        per_row = np.minimum(per_row, 1)
    per_row = np.where(tried.fits, per_row, 0)
    is_open = tried.fits | tried.refused_by(NODE_RESOURCES)
    return tried.message, _Copies(per_row, limits, is_open, tried.refused_by(NODE_SCOPE_PLUGIN), free, requests)
