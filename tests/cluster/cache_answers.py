"""What may be asked of a cluster cache, by names instead of rows and ids: equal for caches that hold the same."""

from __future__ import annotations

from typing import Any

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.pod_counts import ALL_NAMESPACES
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.volumes.csi import Attachable
from scheduler.cluster.volumes.disks import disks_of
from scheduler.cluster.volumes.ranked import Wish
from scheduler.objects.quantity import parse
from scheduler.objects.selector_fields import LabelSelector
from scheduler.objects.selectors import EVERYTHING, parse_selector
from scheduler.objects.storage import PersistentVolume
from scheduler.testing.objects import pod
from tests import builders

ZONE = "topology.kubernetes.io/zone"
KEYS = (ZONE, "kubernetes.io/hostname", "disk", "example.com/nowhere")
RESOURCES = ("cpu", "memory", "pods", "example.com/gpu", "example.com/never")
WEB = parse_selector(LabelSelector(match_labels={"app": "web"}))
EVERY_APP = parse_selector(LabelSelector(match_labels={}))
DRIVERS = ("csi.test", "ebs.csi.aws.com", "other")
EBS_PLUGIN = "kubernetes.io/aws-ebs"
CLASSES = ("fast", "slow")
GOLD = parse_selector(LabelSelector(match_labels={"tier": "gold"}))


DISK = {"name": "d", "awsElasticBlockStore": {"volumeID": "vol-inline"}}


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
        found[key] = {name: values.value(ids.item(row)) for row, name in rows}
    found["cordoned"] = {name for row, name in rows if table.unschedulable[row]}
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
            wishes = [Wish(pool.ranks(parse("1Gi"), selector, accepts)) for accepts in (is_shared, lambda _: True)]
            first, second = pool.given(table, wishes)
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
