"""Extended resources that devices give: the claim that the scheduler makes itself (docs/kube-scheduler/dra.md §12)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from scheduler.objects.devices import IMPLICIT_EXTENDED_RESOURCE_PREFIX
from scheduler.objects.pod import Container, ContainerExtendedResourceRequest, Pod
from scheduler.objects.quantity import NANO, InvalidQuantity, parse
from scheduler.objects.resource_claims import EXACT_COUNT, DeviceRequest, ExactDeviceRequest
from scheduler.objects.resource_names import is_extended_resource

SPECIAL_CLAIM_NAME = "<extended-resources>"
"""The name of the claim before it is made."""


class ExtendedRequests(NamedTuple):
    """What the claim asks for, and which container's resource each request serves."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


class _Asking(NamedTuple):
    """One container that asks for a resource."""

    container: str
    request: str
    amount: int
    place: int


def may_be_mapped(resource: str) -> bool:
    """Whether a class can stand for a resource of this name."""
    return is_extended_resource(resource) or resource.startswith(IMPLICIT_EXTENDED_RESOURCE_PREFIX)


def extended_requests(pod: Pod, classes: Iterable[tuple[str, str]]) -> ExtendedRequests:
    """The pod's extended resources as requests for devices. ``classes``: (resource, class), for the resources that
    devices are to give."""
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource, device_class in sorted(classes):
        counts, served = _of_resource(pod, resource)
        requests += [_request(name, device_class, count) for name, count in counts]
        mappings += [
            ContainerExtendedResourceRequest(container_name=container, resource_name=resource, request_name=name)
            for container, name in served
        ]
    return ExtendedRequests(tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings))


def _request(name: str, device_class: str, count: int) -> DeviceRequest:
    exactly = ExactDeviceRequest(device_class_name=device_class, allocation_mode=EXACT_COUNT, count=count)
    return DeviceRequest(name=name, exactly=exactly)


def _of_resource(pod: Pod, resource: str) -> tuple[list[tuple[str, int]], list[tuple[str, str]]]:
    """The requests for a resource, as (request, count), and which container each serves. Plain init containers use what
    containers that live on use later, and ask for what is missing; of what several of them miss only the largest is
    asked for."""
    init = pod.spec.init_containers
    containers = (*init, *pod.spec.containers)
    long_lived: list[_Asking] = []
    starting: list[_Asking] = []
    for place, container in enumerate(containers):
        asking = _asking(container, resource, place)
        if asking is not None:
            is_plain_init = place < len(init) and not container.is_sidecar
            (starting if is_plain_init else long_lived).append(asking)
    served = [(asking.container, asking.request) for asking in long_lived]
    missing: list[tuple[_Asking, int]] = []
    shared: list[tuple[_Asking, list[str], bool]] = []
    for asking in starting:
        rest = asking.amount
        names = []
        for later in long_lived:
            if later.place > asking.place and rest > 0:
                names.append(later.request)
                rest -= later.amount
        if rest > 0:
            missing.append((asking, rest))
        shared.append((asking, names, rest > 0))
    counts = [(asking.request, asking.amount) for asking in long_lived]
    own = ""
    if missing:
        largest, rest = max(missing, key=lambda entry: entry[1])
        own = largest.request
        counts.append((own, rest))
    for asking, names, is_short in shared:
        served += [(asking.container, name) for name in (*names, own) if name and (name != own or is_short)]
    return counts, served


def _asking(container: Container, resource: str, place: int) -> _Asking | None:
    requested = container.resources.requests
    if resource not in requested:
        return None
    try:
        amount, rest = divmod(parse(requested[resource]), NANO)
    except InvalidQuantity:
        return None
    if rest or amount <= 0:
        return None
    number = sorted(requested).index(resource)
    return _Asking(container.name, f"container-{place}-request-{number}", amount, place)
