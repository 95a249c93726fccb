"""Kinds of requests: what a pod may ask for, and the objects that it needs there.

A ``Request`` makes one pod after the other, each unlike the others in what it asks for, so that no class of pods is met
twice where the kind depends on it. Pods with claims differ in their claims, as those of a StatefulSet do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.cluster.volumes.migration import AWS_EBS
from scheduler.objects.meta import ApiObject
from scheduler.objects.storage import MIGRATED_PLUGINS_ANNOTATION, SELECTED_NODE_ANNOTATION
from scheduler.testing.fragments import Json, affinity_json, node_term, owner_json, pod_term, spread_json
from tests import builders
from tests.benchmarks.clusters import ZONES

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DRIVER = "csi.test"
EBS_DRIVER = "ebs.csi.aws.com"

Objects = list[ApiObject]


def node_name(number: int) -> str:
    return f"node-{number:05}"


def _nothing(_: int) -> Objects:
    return []


@dataclass(frozen=True, slots=True)
class Request:
    """``fields``: of pod ``number``, for ``clusters.pending``. ``own``: objects of that pod alone. ``shared``: what is
    there before, for a cluster of that number of nodes."""

    fields: Callable[[int], Json]
    own: Callable[[int], Objects] = _nothing
    shared: Callable[[int], Objects] = _nothing


# --- storage ----------------------------------------------------------------------------------------------------------


def csi_nodes(nodes: int, drivers: Sequence[str] = (DRIVER, EBS_DRIVER), limit: int = 64) -> Objects:
    migrated = {MIGRATED_PLUGINS_ANNOTATION: AWS_EBS}
    limits: dict[str, int | None] = dict.fromkeys(drivers, limit)
    return [builders.csi_node(node_name(number), limits, annotations=migrated) for number in range(nodes)]


def _claimed(name: str) -> Json:
    return {"namespace": "default", "name": name, "uid": f"claim-{name}"}


def bound(name: str, *, modes: Sequence[str] = ("ReadWriteOnce",), **volume: Any) -> Objects:
    """A claim with its volume; of the test driver unless the volume says otherwise."""
    if "spec" not in volume:
        volume.setdefault("csi", (DRIVER, f"handle-{name}"))
    return [
        builders.claim(name, volume=f"pv-{name}", modes=modes),
        builders.volume(f"pv-{name}", claimed_by=_claimed(name), phase="Bound", modes=modes, **volume),
    ]


def in_tree(name: str, **volume: Any) -> Objects:
    return bound(name, spec={"awsElasticBlockStore": {"volumeID": f"vol-{name}"}}, **volume)


def _in_zone(number: int) -> list[Json]:
    return [node_term(f"{ZONE} In zone-{number % ZONES}")]


def _claims(*suffixes: str) -> Callable[[int], Json]:
    """Pods whose claims have the pod's number and these suffixes in their names."""
    return lambda number: {"claims": [f"c-{number}{suffix}" for suffix in suffixes]}


def _delayed(storage_class: str = "later", suffix: str = "", **fields: Any) -> Callable[[int], Objects]:
    return lambda number: [builders.claim(f"c-{number}{suffix}", storage_class=storage_class, **fields)]


def local_volumes(nodes: int, each: int = 1, storage_class: str = "later") -> Objects:
    """Static volumes, of sizes that grow with their number on the node."""
    return [
        builders.storage_class(storage_class, "kubernetes.io/no-provisioner"),
        *[
            builders.volume(
                f"{storage_class}-{number:05}-{place}",
                size=f"{1 + place}Gi",
                storage_class=storage_class,
                labels={"media": "disk" if number % 3 else "flash"},
                node_affinity=[node_term(f"{HOST} In {node_name(number)}")],
            )
            for number in range(nodes)
            for place in range(each)
        ],
    ]


def capacities(nodes: int, storage_class: str = "later") -> Objects:
    return [
        builders.storage_class(storage_class, DRIVER),
        builders.csi_driver(DRIVER, storageCapacity=True),
        *[
            builders.csi_capacity(
                f"{storage_class}-{number}",
                storage_class,
                topology={HOST: node_name(number)},
                capacity=f"{1 + number % 7}Gi",
            )
            for number in range(nodes)
        ],
    ]


def zone_capacities(nodes: int) -> Objects:
    """Two classes, each with capacity in the zones that the other lacks it in, and a driver that looks at it."""
    return [
        builders.csi_driver(DRIVER, storageCapacity=True),
        *[builders.storage_class(f"class-{side}", DRIVER) for side in range(2)],
        *[
            builders.csi_capacity(
                f"zone-{zone}-{side}",
                f"class-{side}",
                topology={ZONE: f"zone-{zone}"},
                capacity="10Gi" if zone % 2 == side or zone == 0 else "1Mi",
            )
            for zone in range(ZONES)
            for side in range(2)
        ],
    ]


def several_of(*makers: Callable[[int], Iterable[ApiObject]]) -> Callable[[int], Objects]:
    return lambda number: [each for maker in makers for each in maker(number)]


def _ebs_disk(number: int) -> Json:
    return {"volumes": [{"name": "disk", "awsElasticBlockStore": {"volumeID": f"inline-{number}"}}]}


def _rbd_disk(number: int) -> Json:
    rbd = {"monitors": ["a", "b"], "pool": "p", "image": f"image-{number}"}
    return {"volumes": [{"name": "disk", "rbd": rbd}, {"name": "target", "iscsi": {"iqn": f"iqn-{number}"}}]}


def _ephemeral_claim(number: int) -> Objects:
    owner = owner_json("Pod", f"new-{number}", uid=f"uid-new-{number}", api_version="v1")
    return [builders.claim(f"new-{number}-scratch", storage_class="later", owner=owner)]


def _selected(number: int) -> Objects:
    annotations = {SELECTED_NODE_ANNOTATION: node_name(number % 100)}
    return [builders.claim(f"c-{number}", storage_class="later", annotations=annotations)]


VOLUMES: dict[str, Request] = {
    "bound CSI claim, limits on every node": Request(_claims(""), lambda n: bound(f"c-{n}"), csi_nodes),
    "bound CSI claim in a zone": Request(_claims(""), lambda n: bound(f"c-{n}", node_affinity=_in_zone(n)), csi_nodes),
    "bound in-tree claim, CSINodes there": Request(
        _claims(""), lambda n: in_tree(f"c-{n}", labels={ZONE: f"zone-{n % ZONES}"}), csi_nodes
    ),
    "local volumes, one a node, WaitForFirstConsumer": Request(_claims(""), _delayed(), local_volumes),
    "provisioned, with storage capacities of each node": Request(
        _claims(""), _delayed(), several_of(csi_nodes, capacities)
    ),
    "provisioned, without": Request(
        _claims(""), _delayed(), several_of(csi_nodes, lambda _: [builders.storage_class("later", DRIVER)])
    ),
    "a ReadWriteOncePod claim": Request(_claims(""), lambda n: bound(f"c-{n}", modes=("ReadWriteOncePod",))),
    "an inline disk": Request(_ebs_disk, shared=csi_nodes),
    "an inline disk, without CSINodes": Request(_rbd_disk),
    "bound CSI claim, its zone as a label": Request(
        _claims(""), lambda n: bound(f"c-{n}", labels={ZONE: f"zone-{n % ZONES}"}), csi_nodes
    ),
    "bound in-tree claim, no CSINodes": Request(_claims(""), lambda n: in_tree(f"c-{n}")),
    "three bound claims of three drivers": Request(
        _claims("", "-b", "-d"),
        lambda n: [*bound(f"c-{n}"), *bound(f"c-{n}-b", csi=("other.test", f"h-{n}")), *in_tree(f"c-{n}-d")],
        lambda nodes: csi_nodes(nodes, (DRIVER, EBS_DRIVER, "other.test")),
    ),
    "one shared claim for all pods": Request(
        lambda n: {"claims": ["shared"], "cpu": f"{100 + n}m"},
        shared=several_of(csi_nodes, lambda _: bound("shared", modes=("ReadWriteMany",))),
    ),
    "a bound claim in a zone beside a local one": Request(
        _claims("", "-l"),
        several_of(lambda n: bound(f"c-{n}", node_affinity=_in_zone(n)), _delayed(suffix="-l")),
        several_of(csi_nodes, local_volumes),
    ),
    "two local volumes, four a node": Request(
        _claims("", "-b"), several_of(_delayed(), _delayed(suffix="-b", size="2Gi")), lambda n: local_volumes(n, 4)
    ),
    "local volumes, by their labels": Request(
        _claims(""), _delayed(spec={"selector": {"matchLabels": {"media": "flash"}}}), local_volumes
    ),
    "two provisioned claims of two classes, capacities of zones": Request(
        _claims("", "-b"),
        several_of(_delayed("class-0"), _delayed("class-1", "-b")),
        several_of(csi_nodes, zone_capacities),
    ),
    "two provisioned claims of two classes, capacities of nodes": Request(
        _claims("", "-b"),
        several_of(_delayed("class-0"), _delayed("class-1", "-b")),
        several_of(csi_nodes, lambda n: capacities(n, "class-0"), lambda n: capacities(n, "class-1")),
    ),
    "provisioned in the class's topologies": Request(
        _claims(""),
        _delayed(),
        lambda _: [builders.storage_class("later", DRIVER, topologies=[{ZONE: ["zone-1", "zone-2"]}])],
    ),
    "provisioned where a node was selected": Request(
        _claims(""), _selected, lambda _: [builders.storage_class("later", DRIVER)]
    ),
    "a generic ephemeral volume": Request(
        lambda _: {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]},
        _ephemeral_claim,
        several_of(csi_nodes, lambda _: [builders.storage_class("later", DRIVER)]),
    ),
}


# --- everything else --------------------------------------------------------------------------------------------------


def _own_app(number: int) -> dict[str, str]:
    return {"app": f"app-{number}"}


def _near(kind: str, key: str, *, weight: int | None = None) -> Callable[[int], Json]:
    def fields(number: int) -> Json:
        term: Any = pod_term(_own_app(number), key)
        terms: dict[str, Any] = {kind: [term if weight is None else (weight, term)]}
        return {
            "labels": _own_app(number),
            "affinity": affinity_json(**terms),
        }

    return fields


def _spread(key: str, *, soft: bool = False) -> Callable[[int], Json]:
    return lambda number: {"labels": _own_app(number), "spread": [spread_json(key, _own_app(number), soft=soft)]}


def _node_affinity(number: int) -> Json:
    return {"affinity": affinity_json(node_required=[node_term(f"{ZONE} In zone-{number % ZONES},zone-x{number}")])}


def _preferred_node_affinity(number: int) -> Json:
    return {"affinity": affinity_json(node_preferred=[(1 + number % 100, node_term(f"{ZONE} In zone-1"))])}


OWN_CPU = "a CPU request of its own"
OTHERS: dict[str, Request] = {
    OWN_CPU: Request(lambda n: {"cpu": f"{100 + n}m"}),
    "zone spread, its own selector": Request(_spread(ZONE)),
    "host spread, its own selector": Request(_spread(HOST)),
    "zone spread as a preference": Request(_spread(ZONE, soft=True)),
    "affinity to its own kind in a zone": Request(_near("required", ZONE)),
    "anti-affinity to its own kind on a node": Request(_near("anti_required", HOST)),
    "affinity as a preference": Request(_near("preferred", ZONE, weight=7)),
    "anti-affinity as a preference": Request(_near("anti_preferred", HOST, weight=7)),
    "a host port": Request(lambda n: {"ports": [10_000 + n]}),
    "a memory request of its own": Request(lambda n: {"memory": f"{200 + n}Mi"}),
    "an extended resource": Request(lambda n: {"requests": {"cpu": "100m", "example.com/gpu": f"{n}"}}),
    "ephemeral storage": Request(lambda n: {"requests": {"cpu": "100m", "ephemeral-storage": f"{n}Mi"}}),
    "a node selector": Request(lambda n: {"node_selector": {ZONE: f"zone-{n % ZONES}"}, "cpu": f"{100 + n}m"}),
    "node affinity": Request(_node_affinity),
    "preferred node affinity": Request(_preferred_node_affinity),
    "a toleration": Request(lambda n: {"tolerations": [f"key-{n}=x:NoSchedule"]}),
    "a node by its name": Request(
        lambda n: {
            "affinity": affinity_json(node_required=[node_term(fields=[f"metadata.name In {node_name(n % 100)}"])])
        }
    ),
    "an image of its own": Request(lambda n: {"image": f"registry.test/app:{n}"}),
    "labels of its own": Request(lambda n: {"labels": _own_app(n)}),
    "a config map": Request(lambda n: {"volumes": [{"name": "config", "configMap": {"name": f"config-{n}"}}]}),
}
