"""The bench's scenarios, as a table. Sizes are defaults; ``--nodes`` and ``--pods`` scale them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from e2e import builders
from e2e.bench import claims, devices, gangs, shapes
from e2e.bench.claims import HOST, ZONE
from e2e.builders import Object, priority_class

NAMESPACE = "bench"
LOW, HIGH = "bench-low", "bench-high"


@dataclass(frozen=True, slots=True)
class Scenario:
    """`existing` are the objects there before a scheduler starts, `arriving` the pods that are measured.

    Both get (number of nodes, number of pods). `noise` are pods created between the measured ones that never fit.
    The pods are all there before the scheduler starts, or created `meanwhile`, while it works: at `rate` pods a
    second, or (None) as fast as the API server takes them. `seconds` is the limit of one run.
    `binds_volumes`: claims get their volumes meanwhile, from the volume controller and a provisioner.
    `makes_claims`: the controller of ResourceClaims makes each pod's from a template, before the scheduler starts.
    """

    name: str
    about: str
    arriving: Callable[[int, int], Iterable[Object]]
    existing: Callable[[int, int], Iterable[Object]]
    noise: Callable[[int, int], Iterable[Object]] | None = None
    nodes: int = 5000
    pods: int = 5000
    meanwhile: bool = False
    rate: float | None = None
    seconds: float = 300.0
    binds_volumes: bool = False
    makes_claims: bool = False
    features: tuple[str, ...] = ()
    """Feature gates that are on, in the control plane and in the contenders."""
    apis: tuple[str, ...] = ()
    """API versions that are served besides the default ones."""


def _node(index: int, cpu: str = "32", memory: str = "256Gi") -> Object:
    return builders.node(f"node-{index:05}", cpu, memory, labels={ZONE: f"zone-{index % shapes.ZONES}"})


def _nodes(nodes: int, pods: int) -> Iterator[Object]:
    return (_node(index) for index in range(nodes))


def _nodes_with_some_pods(nodes: int, pods: int) -> Iterator[Object]:
    """Every fifth node has a pod already."""
    there = (_pod(f"there-{i:05}", {"app": "there"}, nodeName=f"node-{i * 5:05}") for i in range(nodes // 5))
    return chain(_nodes(nodes, pods), there)


def _pod(name: str, labels: dict[str, str] | None = None, cpu: str = "100m", **spec: Any) -> Object:
    return builders.pod(name, NAMESPACE, cpu, "200Mi", labels, **spec)


def _each(spec: Callable[[int], dict[str, Any]]) -> Callable[[int, int], Iterator[Object]]:
    """Pods whose labels and spec come from their number."""
    return lambda nodes, pods: (_pod(f"pod-{index:05}", **spec(index)) for index in range(pods))


def _of_daemon_sets(nodes: int, pods: int) -> Iterator[Object]:
    """A pod for each node and, where there are more, of one DaemonSet after the other."""
    return (
        _pod(f"pod-{index:05}", **shapes.of_a_daemon_set(index // nodes, f"node-{index % nodes:05}"))
        for index in range(pods)
    )


def _nodes_and_services(nodes: int, pods: int) -> Iterator[Object]:
    """A Service selects each deployment's pods, which makes the default spreading count them."""

    def service(number: int) -> Object:
        spec = {"selector": {"app": f"app-{number}"}, "ports": [{"port": 80}], "clusterIP": "None"}
        metadata = {"name": f"app-{number}", "namespace": NAMESPACE}
        return {"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": spec}

    return chain(_nodes(nodes, pods), (service(number) for number in range(shapes.DEPLOYMENTS)))


def _gangs(nodes: int, pods: int) -> Iterator[Object]:
    return chain(_nodes(nodes, pods), gangs.of_size(pods, NAMESPACE))


def _never_fits(nodes: int, pods: int) -> Iterator[Object]:
    return (_pod(f"hopeless-{index:05}", cpu="1000") for index in range(pods))


def _bound(make: Callable[..., Object], number: str, **spec: Any) -> tuple[Object, Object]:
    """A volume and the claim that it is bound to."""
    name, volume = f"claim-{number}", f"volume-{number}"
    return make(volume, claimRef={"namespace": NAMESPACE, "name": name}, **spec), claims.claim(name, NAMESPACE, volume)


def _and_bound(
    make: Callable[..., Object], *, is_zonal: bool = False, with_csi_nodes: bool = False
) -> Callable[[int, int], Iterator[Object]]:
    """Nodes, and for each pod a bound claim, whose volume one zone or every node can reach."""

    def existing(nodes: int, pods: int) -> Iterator[Object]:
        bound = [
            _bound(make, f"{i:05}", **(claims.reached_by(ZONE, f"zone-{i % shapes.ZONES}") if is_zonal else {}))
            for i in range(pods)
        ]
        csi_nodes = (claims.csi_node(f"node-{i:05}") for i in range(nodes if with_csi_nodes else 0))
        return chain(_nodes(nodes, pods), csi_nodes, (pair[0] for pair in bound), (pair[1] for pair in bound))

    return existing


def _with_a_claim(index: int) -> dict[str, Any]:
    return claims.mounted(f"claim-{index:05}")


def _waiting_claims(pods: int) -> Iterator[Object]:
    return (claims.claim(f"claim-{i:05}", NAMESPACE) for i in range(pods))


def _nodes_and_local_volumes(nodes: int, pods: int) -> Iterator[Object]:
    """A volume on each node in turn, as many as pods; and claims that wait for their first consumer."""
    volumes = (
        claims.csi_volume(
            f"volume-{i:05}", storageClassName=claims.CLASS, **claims.reached_by(HOST, f"node-{i % nodes:05}")
        )
        for i in range(pods)
    )
    kinds = _nodes(nodes, pods), (claims.storage_class(claims.NO_PROVISIONER),), volumes, _waiting_claims(pods)
    return chain(*kinds)


def _nodes_and_a_provisioner(nodes: int, pods: int) -> Iterator[Object]:
    csi_nodes = (claims.csi_node(f"node-{i:05}") for i in range(nodes))
    return chain(_nodes(nodes, pods), csi_nodes, (claims.storage_class(claims.DRIVER),), _waiting_claims(pods))


def _full(
    filling: Callable[[int], dict[str, Any]] = shapes.plain,
    others: Callable[[int, int], Iterable[Object]] | None = None,
) -> Callable[[int, int], Iterator[Object]]:
    """Four pods of low priority fill each node of four CPUs. ``filling``: what else such a pod has, by its number."""

    def existing(nodes: int, pods: int) -> Iterator[Object]:
        there = (
            _pod(f"low-{i:05}", cpu="1", nodeName=f"node-{i // 4:05}", priorityClassName=LOW, **filling(i))
            for i in range(4 * nodes)
        )
        classes = priority_class(LOW, 1), priority_class(HIGH, 1000)
        return chain(classes, (_node(i, cpu="4") for i in range(nodes)), others(nodes, pods) if others else (), there)

    return existing


def _nodes_of_100_pods(nodes: int, pods: int) -> Iterator[Object]:
    """A hundred pods of low priority fill each node of ten CPUs."""
    there = (
        _pod(f"low-{i:05}", cpu="100m", nodeName=f"node-{i // 100:05}", priorityClassName=LOW)
        for i in range(100 * nodes)
    )
    return chain(
        (priority_class(LOW, 1), priority_class(HIGH, 1000)), (_node(i, cpu="10") for i in range(nodes)), there
    )


def _claims_of_all(nodes: int, pods: int) -> Iterator[Object]:
    """A bound claim for each pod of ``_full`` and each preemptor."""
    numbers = [*(f"low-{i:05}" for i in range(4 * nodes)), *(f"{i:05}" for i in range(pods))]
    bound = [_bound(claims.csi_volume, number) for number in numbers]
    csi_nodes = (claims.csi_node(f"node-{i:05}") for i in range(nodes))
    return chain(csi_nodes, (pair[0] for pair in bound), (pair[1] for pair in bound))


def _preemptor(victims: int, more: Callable[[int], dict[str, Any]] = shapes.plain) -> Callable[[int], dict[str, Any]]:
    """A pod that needs the room of several pods of a node."""
    return lambda index: {"cpu": str(victims), "priorityClassName": HIGH} | more(index)


def _members_that_need_whole_nodes(nodes: int, pods: int) -> Iterator[Object]:
    """All of one gang."""
    return _each(_preemptor(4, lambda index: gangs.member(index, size=pods)))(nodes, pods)


def _with_its_claim_of_all(index: int) -> dict[str, Any]:
    return claims.mounted(f"claim-low-{index:05}")


def _asking_for_a_kind(index: int) -> dict[str, Any]:
    resources = {"cpu": "100m", "memory": "200Mi", devices.resource(index % devices.KINDS): "1"}
    asked = {"requests": resources, "limits": {devices.resource(index % devices.KINDS): "1"}}
    return {"containers": [{"name": "app", "image": builders.IMAGE, "resources": asked}]}


def _with_a_host_port(index: int) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1", "memory": "200Mi"}}
    port = {"containerPort": 80, "hostPort": 8080}
    return {"containers": [{"name": "app", "image": builders.IMAGE, "resources": resources, "ports": [port]}]}


_EBS = claims.ebs_volume
_DEVICES: dict[str, Any] = {"nodes": 500, "pods": 2000}
_SMALL: dict[str, Any] = {"nodes": 1000, "pods": 1000, "meanwhile": True}

_TABLE = (
    Scenario("plain", "plain pods, some nodes in use", _each(shapes.plain), _nodes_with_some_pods),
    Scenario("burst", "the same, created meanwhile", _each(shapes.plain), _nodes_with_some_pods, meanwhile=True),
    Scenario("arrival", "100 plain pods a second", _each(shapes.plain), _nodes, **_SMALL | {"pods": 2000}, rate=100.0),
    Scenario(
        "zone-host-spread", "hard zone and soft host spreading", _each(shapes.spread_over_zones_and_hosts), _nodes
    ),
    Scenario("host-anti-affinity", "groups of 2,500, one pod a host", _each(shapes.apart_from_its_group), _nodes),
    Scenario("zone-affinity", "groups of 100, each in one zone", _each(shapes.with_its_group_in_one_zone), _nodes),
    Scenario("preferred-node-affinity", "a preferred zone", _each(shapes.rather_in_one_zone), _nodes),
    Scenario(
        "mix-300-deployments",
        "300 deployments of five kinds",
        _each(shapes.one_of_many_deployments),
        _nodes_and_services,
    ),
    Scenario("daemon-sets", "a pod for each node", _of_daemon_sets, _nodes),
    Scenario(
        "bound-volumes", "a bound volume a pod", _each(_with_a_claim), _and_bound(claims.csi_volume, is_zonal=True)
    ),
    Scenario("bound-in-tree", "the same, in-tree and without CSINodes", _each(_with_a_claim), _and_bound(_EBS)),
    Scenario(
        "bound-migrated",
        "the same, in-tree and migrated, limits on every node",
        _each(_with_a_claim),
        _and_bound(_EBS, with_csi_nodes=True),
    ),
    Scenario(
        "bound-limits",
        "a bound CSI volume a pod, limits on every node",
        _each(_with_a_claim),
        _and_bound(claims.csi_volume, with_csi_nodes=True),
    ),
    Scenario(
        "local-volumes",
        "a claim a pod that waits for it, a volume on each node",
        _each(_with_a_claim),
        _nodes_and_local_volumes,
        binds_volumes=True,
    ),
    Scenario(
        "provisioned-volumes",
        "a claim a pod that waits for it, a provisioner",
        _each(_with_a_claim),
        _nodes_and_a_provisioner,
        binds_volumes=True,
    ),
    Scenario(
        "devices-claims",
        "a GPU a pod, from a template, eight GPUs a node",
        _each(lambda _: devices.claiming("gpus")),
        devices.existing(_nodes, devices.with_gpus, devices.one_large, NAMESPACE),
        makes_claims=True,
        **_DEVICES,
    ),
    Scenario(
        "devices-together",
        "two GPUs of one NUMA node a pod, the same",
        _each(lambda _: devices.claiming("gpus")),
        devices.existing(_nodes, devices.with_gpus, devices.two_together, NAMESPACE),
        makes_claims=True,
        **_DEVICES | {"pods": 1500},
    ),
    Scenario(
        "devices-partitions",
        "a GPU, a half or a quarter a pod, with shared counters",
        _each(lambda index: devices.claiming(devices.part_of(index))),
        devices.existing(_nodes, devices.with_divided_gpus, devices.one_of_each_part, NAMESPACE),
        makes_claims=True,
        **_DEVICES,
    ),
    Scenario(
        "devices-extended",
        "an extended resource a pod, of 50 classes",
        _each(_asking_for_a_kind),
        devices.existing(_nodes, devices.with_gpus_of_many_kinds, lambda _: (), NAMESPACE),
        **_DEVICES,
    ),
    Scenario(
        "hopeless",
        "as many that never fit between them, created meanwhile",
        _each(shapes.plain),
        _nodes,
        _never_fits,
        **_SMALL | {"pods": 2000},
    ),
    Scenario("preemption", "three victims a pod, created meanwhile", _each(_preemptor(3)), _full(), **_SMALL),
    Scenario(
        "preemption-waiting",
        "the same, all waiting when the scheduler starts",
        _each(_preemptor(3)),
        _full(),
        **_SMALL | {"meanwhile": False},
    ),
    Scenario(
        "preemption-of-100",
        "a whole node of 100 pods each, created meanwhile",
        _each(lambda _: {"cpu": "10", "priorityClassName": HIGH}),
        _nodes_of_100_pods,
        nodes=100,
        pods=50,
        meanwhile=True,
    ),
    Scenario("preemption-of-one", "one victim a pod, the same", _each(_preemptor(1)), _full(), **_SMALL),
    Scenario(
        "preemption-volumes",
        "three victims a pod, a bound claim each, limits on every node",
        _each(_preemptor(3, _with_a_claim)),
        _full(_with_its_claim_of_all, _claims_of_all),
        **_SMALL,
    ),
    Scenario(
        "preemption-spread",
        "three victims a pod, hard zone and soft host spreading",
        _each(_preemptor(3, shapes.spread_over_zones_and_hosts)),
        _full(),
        **_SMALL,
    ),
    Scenario(
        "preemption-affinity",
        "three victims a pod, groups of 2,500, one pod a host",
        _each(_preemptor(3, shapes.apart_from_its_group)),
        _full(),
        **_SMALL,
    ),
    Scenario(
        "preemption-host-ports",
        "one victim a pod, each with the same host port",
        _each(lambda _: {"priorityClassName": HIGH} | _with_a_host_port(0)),
        _full(lambda index: {} if index % 4 else _with_a_host_port(index)),
        **_SMALL,
    ),
    Scenario(
        "gangs",
        "gangs of 50, each of which starts whole",
        _each(gangs.member),
        _gangs,
        features=gangs.GATES,
        apis=(gangs.API,),
    ),
    Scenario(
        "gang-preemption",
        "one gang that removes the four pods of each node it needs",
        _members_that_need_whole_nodes,
        _full(others=lambda _, pods: [gangs.one_of_all(pods, NAMESPACE, HIGH)]),
        features=(*gangs.GATES, "WorkloadAwarePreemption"),
        apis=(gangs.API,),
        **_SMALL | {"pods": 100},
    ),
)
SCENARIOS = {scenario.name: scenario for scenario in _TABLE}
