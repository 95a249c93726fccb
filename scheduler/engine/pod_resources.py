"""``/metrics/resources``: what each pod of the cluster requests and its limits, as kube-scheduler 1.36 shows them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.engine import Engine
from scheduler.objects.pod import Container, Pod, ResourceRequirements
from scheduler.objects.resources import ResourceVector, requests_of

_SLICE: Final = 100
"""Pods described in about a millisecond."""
_LINES_A_PART: Final = 400
_HEADS: Final = {
    "kube_pod_resource_request": (
        "Resources requested by workloads on the cluster, broken down by pod. This shows the resource usage the "
        "scheduler and kubelet expect per pod for resources along with the unit for the resource if any."
    ),
    "kube_pod_resource_limit": (
        "Resources limit for workloads on the cluster, broken down by pod. This shows the resource usage the scheduler "
        "and kubelet expect per pod for resources along with the unit for the resource if any."
    ),
}


def resource_page_in_slices(engine: Engine) -> Generator[None, None, list[bytes]]:
    """The page in Prometheus' text format, in parts of some 64 KiB: with 150,000 pods it has 50 MB, which are not to be
    joined in one step. Yields after each slice of about a millisecond."""
    parts = {name: _Parts(name, text) for name, text in _HEADS.items()}
    requests, limits = parts.values()
    for number, info in enumerate(tuple(engine.known_pods), start=1):
        pod = info.pod
        if not pod.is_finished:
            labels = _labels(info)
            requests.add(labels, info.requests)
            limits.add(labels, requests_of(_with_limits_as_requests(pod)))
        if number % _SLICE == 0:
            yield
    return [part for one in parts.values() for part in one.ended()]


class _Parts:
    """The series of one metric, encoded."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._lines = [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
        self._encoded: list[bytes] = []

    def add(self, labels: str, amounts: ResourceVector) -> None:
        lines = self._lines
        lines += [
            f'{self._name}{{{labels},resource="{_escaped(resource)}",unit="{unit}"}} {value}'
            for resource, unit, value in _amounts(amounts)
        ]
        if len(lines) >= _LINES_A_PART:
            self._encode()

    def ended(self) -> list[bytes]:
        if self._lines:
            self._encode()
        return self._encoded

    def _encode(self) -> None:
        self._encoded.append(("\n".join(self._lines) + "\n").encode())
        self._lines = []


def _labels(info: PodInfo) -> str:
    spec = info.pod.spec
    priority = "" if spec.priority is None else str(spec.priority)
    return (
        f'namespace="{_escaped(info.namespace)}",pod="{_escaped(info.name)}",node="{_escaped(spec.node_name)}",'
        f'scheduler="{_escaped(spec.scheduler_name)}",priority="{priority}"'
    )


def _amounts(vector: ResourceVector) -> Iterator[tuple[str, str, str]]:
    """Resource, unit and value of each amount above 0."""
    if vector.milli_cpu:
        yield "cpu", "cores", repr(vector.milli_cpu / 1000)
    if vector.memory:
        yield "memory", "bytes", str(vector.memory)
    if vector.ephemeral_storage:
        yield "ephemeral-storage", "bytes", str(vector.ephemeral_storage)
    for name, amount in sorted(vector.scalars.items()):
        if amount:
            yield name, "bytes" if name.startswith("hugepages-") else "integer", str(amount)


def _with_limits_as_requests(pod: Pod) -> Pod:
    """The pod with its limits in place of its requests: they add up by the same rules. The overhead counts only beside
    limits."""
    spec = pod.spec
    own = spec.resources
    replaced = msgspec.structs.replace(
        spec,
        containers=tuple([_limited(each) for each in spec.containers]),
        init_containers=tuple([_limited(each) for each in spec.init_containers]),
        resources=None if own is None else ResourceRequirements(requests=own.limits),
    )
    stated = _stated(replaced.containers) | _stated(replaced.init_containers) | set(own.limits if own else ())
    overhead = {name: amount for name, amount in spec.overhead.items() if name in stated}
    status = msgspec.structs.replace(pod.status, container_statuses=(), init_container_statuses=(), resources=None)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(replaced, overhead=overhead), status=status)


def _limited(container: Container) -> Container:
    return msgspec.structs.replace(container, resources=ResourceRequirements(requests=container.resources.limits))


def _stated(containers: tuple[Container, ...]) -> set[str]:
    return {name for each in containers for name in each.resources.requests}


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


_ESCAPES: Final[Mapping[int, str]] = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
