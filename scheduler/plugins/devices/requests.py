"""What a claim asks for, checked and put into the form that the search works on (docs/kube-scheduler/dra.md §6.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from scheduler.errors import SchedulerError
from scheduler.objects.devices import DeviceClass, DeviceConfiguration, DeviceSelector
from scheduler.objects.pod import Toleration
from scheduler.objects.quantity import InvalidQuantity, parse
from scheduler.objects.resource_claims import (
    ALL,
    EXACT_COUNT,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)

MAX_RESULTS = 32
"""Devices that one claim can hold."""

ClassLookup = Callable[[str], DeviceClass | None]


class InvalidClaim(SchedulerError):
    """The claim can't be understood, which ends the attempt with an error, whichever node is tried."""


class NamedExpression(NamedTuple):
    """A CEL selector and how errors name it: ``class gpu: selector #0``."""

    place: str
    expression: str


class Need(NamedTuple):
    """An exact request, or one alternative of a request."""

    name: str
    """The name in results: ``request`` or ``request/alternative``."""
    parent: str
    """The request's name."""
    own_name: str
    """The name in errors."""
    device_class: DeviceClass
    selectors: tuple[NamedExpression, ...]
    """The class's first; all must hold."""
    takes_all: bool
    exact_count: int
    is_admin: bool
    tolerations: tuple[Toleration, ...]
    capacity: tuple[tuple[str, int, str], ...]
    """(name, nano-units, as written)"""


class Request(NamedTuple):
    """``alternatives`` are tried in order; an exact request has one and ``is_ranked`` False."""

    name: str
    alternatives: tuple[Need, ...]
    is_ranked: bool


class ClaimNeeds(NamedTuple):
    """One claim to be allocated. ``key`` is ``namespace/name``."""

    key: str
    requests: tuple[Request, ...]
    constraints: tuple[DeviceConstraint, ...]
    config: tuple[DeviceConfiguration, ...]


def needs_of(claim: ResourceClaim, find_class: ClassLookup) -> ClaimNeeds:
    """What the claim asks for, in the form that the search works on. Raises InvalidClaim."""
    devices = claim.spec.devices
    for number, constraint in enumerate(devices.constraints):
        if constraint.match_attribute is None and constraint.distinct_attribute is None:
            raise InvalidClaim(
                f"claim {claim.key}, constraint #{number}: empty constraint (unsupported constraint type?)"
            )
    requests = tuple([_request(claim.key, request, find_class) for request in devices.requests])
    return ClaimNeeds(claim.key, requests, devices.constraints, devices.config)


def _request(claim: str, request: DeviceRequest, find_class: ClassLookup) -> Request:
    if request.exactly is not None:
        need = _need(claim, request.name, request.name, request.name, request.exactly, find_class)
        return Request(request.name, (need,), False)
    alternatives = [
        _need(claim, f"{request.name}/{one.name}", request.name, one.name, one, find_class)
        for one in request.first_available
    ]
    if not alternatives:
        raise InvalidClaim(
            f"claim {claim}, request {request.name}: missing device class name (unsupported request type?)"
        )
    return Request(request.name, tuple(alternatives), True)


def _need(claim: str, name: str, parent: str, own_name: str, asked: DeviceSubRequest, find_class: ClassLookup) -> Need:
    where = f"claim {claim}, request {own_name}"
    own_selectors = _expressions(where, f"claim {claim}", asked.selectors)
    if not asked.device_class_name:
        raise InvalidClaim(f"{where}: missing device class name (unsupported request type?)")
    device_class = find_class(asked.device_class_name)
    if device_class is None:
        missing = f'deviceclass.resource.k8s.io "{asked.device_class_name}" not found'
        raise InvalidClaim(f"{where}: could not retrieve device class {asked.device_class_name}: {missing}")
    if asked.allocation_mode not in (EXACT_COUNT, ALL):
        raise InvalidClaim(f"{where}: unsupported count mode {asked.allocation_mode}")
    class_selectors = _expressions(where, f"class {asked.device_class_name}", device_class.spec.selectors)
    try:
        capacity = tuple(
            [
                (key, parse(written), str(written))
                for key, written in sorted(asked.capacity.requests.items() if asked.capacity is not None else ())
            ]
        )
    except InvalidQuantity as error:
        raise InvalidClaim(f"{where}: {error}") from error
    return Need(
        name,
        parent,
        own_name,
        device_class,
        class_selectors + own_selectors,
        asked.allocation_mode == ALL,
        asked.count,
        isinstance(asked, ExactDeviceRequest) and asked.admin_access,
        asked.tolerations,
        capacity,
    )


def _expressions(where: str, owner: str, selectors: tuple[DeviceSelector, ...]) -> tuple[NamedExpression, ...]:
    found = []
    for number, selector in enumerate(selectors):
        if selector.cel is None:
            raise InvalidClaim(f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)")
        found.append(NamedExpression(f"{owner}: selector #{number}", selector.cel.expression))
    return tuple(found)
