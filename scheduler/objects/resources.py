"""Resource requests of pods and allocatable resources of nodes (docs/kube-scheduler/plugins.md §2.2, §2.3).

Quantities of one pod are summed exactly and rounded once, at the end; nodes sum the rounded numbers of their pods.
Four callers read a pod's request in four ways, see the functions below.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import Final, NamedTuple

import msgspec

from scheduler.objects.memo import MAX_PARTS, has_many_parts, memo
from scheduler.objects.node import Node
from scheduler.objects.pod import Container, ContainerStatus, Pod, PodSpec, ResourceRequirements
from scheduler.objects.quantity import Quantities, milli_value, parse, value
from scheduler.objects.resource_names import is_pod_level_resource, scalar_names

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

ExactResources = dict[str, int]
"""Resource name -> exact amount in nano-units. Cached: never mutate one that a function here returns."""

NON_ZERO_DEFAULTS: Mapping[str, str] = {CPU: "100m", MEMORY: "200Mi"}
"""The requests assumed for a container without its own, so that scores don't pile up such pods on one node."""

_Written = tuple[tuple[str, str | int | float], ...]


class ResourceVector(msgspec.Struct, frozen=True, gc=False):
    """Amounts as whole numbers: milli-CPU, bytes, bytes, number of pods, and units of every scalar resource.

    Never mutate `scalars`. A scalar of 0 is kept as a key. `pods` is set for nodes only.
    """

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    pods: int = 0
    scalars: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def key(self) -> tuple[int, int, int, int, tuple[tuple[str, int], ...]]:
        """A hashable form, equal for equal vectors."""
        scalars = tuple(sorted(self.scalars.items())) if self.scalars else ()
        return self.milli_cpu, self.memory, self.ephemeral_storage, self.pods, scalars

    @property
    def is_zero(self) -> bool:
        """Whether no resource is requested; a scalar of 0 counts as requested."""
        return not (self.milli_cpu or self.memory or self.ephemeral_storage or self.scalars)

    def amount(self, name: str) -> int:
        """The amount of a resource, in the units above; 0 for an absent name."""
        match name:
            case "cpu":
                return self.milli_cpu
            case "memory":
                return self.memory
            case "ephemeral-storage":
                return self.ephemeral_storage
            case "pods":
                return self.pods
            case _:
                return self.scalars.get(name, 0)


class NonZeroRequest(NamedTuple):
    """The request of a pod as scores count it: with defaults, so 0 only if the pod requests 0 itself."""

    milli_cpu: int
    memory: int


# --- the four readings ------------------------------------------------------------------------------------------------


def requests_of(pod: Pod) -> ResourceVector:
    """The request that must fit: from the spec, pod-level requests included; the status is ignored."""
    return _vector(_shape_of(pod), False)


def score_requests_of(pod: Pod) -> ResourceVector:
    """The request that NodeResourcesFit's score adds: with defaults, **without pod-level requests**.

    Ignoring the pod-level requests here, and only here, is a quirk of kube-scheduler 1.36.
    """
    return _vector(_shape_of(pod), True)


def charge_as_requested(pod: Pod, requests: ResourceVector) -> tuple[ResourceVector, NonZeroRequest] | None:
    """``node_info_requests_of`` for a pod whose ``requests_of`` are known; None where its status counts, too."""
    return None if reports_resources(pod) else (requests, _non_zero(_shape_of(pod)))


def node_info_requests_of(pod: Pod) -> tuple[ResourceVector, NonZeroRequest]:
    """The request that a placed pod takes from its node, a resize in place counting with the largest of wanted, granted
    and actual; and its request as scores count it, with defaults."""
    key = id(pod.spec.containers), id(pod.status.container_statuses)
    known = _CHARGES.get(key)
    if known is not None and known.is_of(pod):
        return known.charge
    shape, is_as_written = _shape_with_status(pod)
    charge = _vector(shape, False), _non_zero(shape)
    if is_as_written:
        _remember_charge(key, pod, charge)
    return charge


def pod_requests(
    pod: Pod,
    *,
    use_status: bool,
    defaults: Mapping[str, str] | None = None,
) -> ExactResources:
    """The exact request of a pod. `defaults` apply to each container for the names that it doesn't mention.

    Raises `InvalidQuantity`.
    """
    shape = _shape_with_status(pod)[0] if use_status else _shape_of(pod)
    return _total(shape, False, tuple(defaults.items()) if defaults else ())


def allocatable_of(node: Node) -> ResourceVector:
    """The node's `status.allocatable`; its capacity never counts. Raises `InvalidQuantity`."""
    return _allocatable(tuple(node.status.allocatable.items()))


def amounts_of(quantities: Quantities) -> ResourceVector:
    """Amounts by name, rounded up as those of nodes. Raises `InvalidQuantity`."""
    return _allocatable(tuple(quantities.items()))


def reports_resources(pod: Pod) -> bool:
    """Whether the status reports the pod's resources, which may differ from the spec."""
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses or status.resources is not None)


def requests_alike(one: Pod, other: Pod) -> bool:
    """Whether what the pods request is worked out of the same, the status counted: most updates leave that alone."""
    before, now = one.status, other.status
    return (
        one.spec == other.spec
        and before.container_statuses == now.container_statuses
        and before.init_container_statuses == now.init_container_statuses
        and before.resources == now.resources
        and before.allocated_resources == now.allocated_resources
        and (before.conditions == now.conditions or _resize_is_infeasible(one) == _resize_is_infeasible(other))
    )


# --- sums -------------------------------------------------------------------------------------------------------------


class _Shape(NamedTuple):
    """The inputs of a pod's request, hashable, so that pods of one template share one computation."""

    containers: tuple[_Written, ...]
    init_containers: tuple[tuple[bool, _Written], ...]
    """Whether each is a sidecar, and its requests."""
    pod_level: _Written
    overhead: _Written


def _is_long(shape: _Shape, *_: object) -> bool:
    init = shape.init_containers
    parts = len(shape.containers) + len(init) + len(shape.pod_level) + len(shape.overhead)
    parts += sum([len(written) for written in shape.containers])
    return parts + sum([len(written) for _, written in init]) > MAX_PARTS


def _shape_of(pod: Pod) -> _Shape:
    spec = pod.spec
    init_containers = spec.init_containers
    return _Shape(
        tuple([tuple(container.resources.requests.items()) for container in spec.containers]),
        tuple([(c.is_sidecar, tuple(c.resources.requests.items())) for c in init_containers])
        if init_containers
        else (),
        tuple(spec.resources.requests.items()) if spec.resources is not None else (),
        tuple(spec.overhead.items()) if spec.overhead else (),
    )


def _shape_with_status(pod: Pod) -> tuple[_Shape, bool]:
    """The shape with the kubelet's reported resources in place of the spec's, where the two may differ; and whether
    nothing differs, whatever the pod's conditions."""
    shape = _shape_of(pod)
    if not reports_resources(pod):
        return shape, True
    status = pod.status
    infeasible = _resize_is_infeasible(pod)
    statuses = {known.name: known for known in (*status.container_statuses, *status.init_container_statuses)}

    def reported(container: Container, written: _Written) -> _Written:
        known: ContainerStatus | None = statuses.get(container.name)
        if known is None or known.resources is None:
            return written
        wanted, allocated = container.resources.requests, known.allocated_resources
        if known.resources.requests == wanted and (not allocated or allocated == wanted):
            return written
        return _effective(wanted, known.resources, allocated, infeasible)

    spec = pod.spec
    pod_level = shape.pod_level
    is_as_written = True
    if pod_level and status.resources is not None:
        is_as_written = False
        effective = dict(_effective(dict(pod_level), status.resources, status.allocated_resources, infeasible))
        pod_level = tuple([(name, effective.get(name, 0)) for name, _ in pod_level])
    containers = tuple([reported(c, written) for c, written in zip(spec.containers, shape.containers, strict=True)])
    init_containers = tuple(
        [
            (is_sidecar, reported(container, written) if is_sidecar else written)
            for container, (is_sidecar, written) in zip(spec.init_containers, shape.init_containers, strict=True)
        ]
    )
    # By identity: an equal amount that was computed may be equal only under this pod's conditions.
    is_as_written = (
        is_as_written
        and all(map(is_, containers, shape.containers))
        and all(one[1] is other[1] for one, other in zip(init_containers, shape.init_containers, strict=True))
    )
    return _Shape(containers, init_containers, pod_level, shape.overhead), is_as_written


def _resize_is_infeasible(pod: Pod) -> bool:
    pending = pod.condition("PodResizePending")
    return pending is not None and pending.reason == "Infeasible"


def _effective(wanted: Quantities, actual: ResourceRequirements, allocated: Quantities, infeasible: bool) -> _Written:
    """The largest of wanted, granted and actual amounts, per name; an infeasible resize is not counted as wanted."""
    largest: Quantities = {} if infeasible else dict(wanted)
    for others in (actual.requests, allocated):
        for name, written in others.items():
            known = largest.get(name)
            if known is None or parse(written) > parse(known):
                largest[name] = written
    return tuple(largest.items())


class _Charge(NamedTuple):
    """What pods with these very parts take; held, so that no other part gets one of their identities."""

    spec: PodSpec
    statuses: tuple[ContainerStatus, ...]
    init_statuses: tuple[ContainerStatus, ...]
    charge: tuple[ResourceVector, NonZeroRequest]

    def is_of(self, pod: Pod) -> bool:
        own, other, status = self.spec, pod.spec, pod.status
        return (
            own.containers is other.containers
            and own.init_containers is other.init_containers
            and own.overhead is other.overhead
            and own.resources is other.resources
            and self.statuses is status.container_statuses
            and self.init_statuses is status.init_container_statuses
            and (own.resources is None or status.resources is None)
        )


_CHARGES: dict[tuple[int, int], _Charge] = {}
"""By the identities of containers and their statuses, which pods of one template share (`sharing.py`)."""
MAX_CHARGES: Final = 4096
MAX_CHARGE_BYTES: Final = 4096
"""The longest parts, as JSON, of which a charge is remembered."""
_ENCODER: Final = msgspec.json.Encoder()


def _remember_charge(key: tuple[int, int], pod: Pod, charge: tuple[ResourceVector, NonZeroRequest]) -> None:
    spec, status = pod.spec, pod.status
    parts = (
        spec.containers, spec.init_containers, spec.overhead, spec.resources, status.container_statuses,
        status.init_container_statuses,
    )  # fmt: skip
    if len(_ENCODER.encode(parts)) > MAX_CHARGE_BYTES:
        return
    if len(_CHARGES) >= MAX_CHARGES:
        _CHARGES.clear()
    held = PodSpec(
        containers=spec.containers,
        init_containers=spec.init_containers,
        overhead=spec.overhead,
        resources=spec.resources,
    )
    _CHARGES[key] = _Charge(held, status.container_statuses, status.init_container_statuses, charge)


@memo(4096, _is_long)
def _total(shape: _Shape, skip_pod_level: bool, defaults: tuple[tuple[str, str], ...]) -> ExactResources:
    total: ExactResources = {}
    for written in shape.containers:
        _add(total, _exact(written, defaults))
    if shape.init_containers:
        _raise_to(total, _add_init_containers(total, shape.init_containers, defaults))
    if shape.pod_level and not skip_pod_level:
        total.update({name: amount for name, amount in _exact(shape.pod_level).items() if is_pod_level_resource(name)})
    _add(total, _exact(shape.overhead))
    return total


def _add_init_containers(
    total: ExactResources,
    init_containers: tuple[tuple[bool, _Written], ...],
    defaults: tuple[tuple[str, str], ...],
) -> ExactResources:
    """Adds the sidecars, which run for the whole life of the pod, to `total`; returns the peak while starting up."""
    sidecars: ExactResources = {}
    peak: ExactResources = {}
    for is_sidecar, written in init_containers:
        now = _exact(written, defaults)
        if is_sidecar:
            _add(total, now)
            _add(sidecars, now)
            _raise_to(peak, sidecars)
        else:
            _add(now, sidecars)
            _raise_to(peak, now)
    return peak


def _exact(written: _Written, defaults: tuple[tuple[str, str], ...] = ()) -> ExactResources:
    exact = {name: parse(text) for name, text in written}
    for name, text in defaults:
        if name not in exact:
            exact[name] = parse(text)
    return exact


def _add(total: ExactResources, more: ExactResources) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(largest: ExactResources, other: ExactResources) -> None:
    for name, amount in other.items():
        if name not in largest or amount > largest[name]:
            largest[name] = amount


@memo(4096, _is_long)
def _vector(shape: _Shape, for_score: bool) -> ResourceVector:
    defaults = tuple(NON_ZERO_DEFAULTS.items()) if for_score else ()
    return _rounded(_total(shape, for_score, defaults))


@memo(2048, _is_long)
def _non_zero(shape: _Shape) -> NonZeroRequest:
    missing = tuple(NON_ZERO_DEFAULTS.items())
    if any(is_pod_level_resource(name) for name, _ in shape.pod_level):
        # A pod with pod-level requests gets a default only for what neither it nor a container mentions.
        stated = _total(shape, False, ())
        missing = tuple([item for item in missing if item[0] not in stated])
    total = _total(shape, False, missing)
    return NonZeroRequest(milli_value(total.get(CPU, 0)), value(total.get(MEMORY, 0)))


@memo(2048, has_many_parts)
def _allocatable(written: _Written) -> ResourceVector:
    return _rounded(_exact(written))


def _rounded(exact: ExactResources) -> ResourceVector:
    return ResourceVector(
        milli_cpu=milli_value(exact.get(CPU, 0)),
        memory=value(exact.get(MEMORY, 0)),
        ephemeral_storage=value(exact.get(EPHEMERAL_STORAGE, 0)),
        pods=value(exact.get(PODS, 0)),
        scalars={name: value(exact[name]) for name in scalar_names(exact)},
    )
