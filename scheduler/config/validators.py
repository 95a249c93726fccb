"""Checks that several settings share: ranges, names of labels and resources, weights of resources, shapes of scores.

Each returns the faults it finds, in kube-scheduler 1.36's words; none for a valid value.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from scheduler.config.field_faults import duplicate, invalid, required
from scheduler.errors import Fault

MAX_UTILIZATION: Final = 100
MAX_SHAPE_SCORE: Final = 10
MAX_RESOURCE_WEIGHT: Final = 100

_NAME_LENGTH: Final = 63
_SUBDOMAIN_LENGTH: Final = 253
_NAME_PATTERN: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SUBDOMAIN_PATTERN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME: Final = re.compile(_NAME_PATTERN)
_SUBDOMAIN: Final = re.compile(_SUBDOMAIN_PATTERN)
_NAME_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PATTERN}')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN_PATTERN}')"
)


class ResourceWeight(Protocol):
    """A resource with its weight in a score, as plugin args state it."""

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> int: ...


class ShapePoint(Protocol):
    """A corner of a score's shape: utilization in percent, score from 0 to 10."""

    @property
    def utilization(self) -> int: ...

    @property
    def score(self) -> int: ...


def in_range(path: str, value: int, low: int, high: int, detail: str = "") -> tuple[Fault, ...]:
    """A fault unless low <= value <= high; the default text is ``not in valid range [low-high]``."""
    if low <= value <= high:
        return ()
    return (invalid(path, value, detail or f"not in valid range [{low}-{high}]"),)


def int32(path: str, value: int) -> tuple[Fault, ...]:
    """A fault unless the value is one of 32 bits, as that of a field of an API object has to be."""
    return in_range(path, value, -(2**31), 2**31 - 1, f"must be between {-(2**31)} and {2**31 - 1}")


def percentage(path: str, value: int | None) -> tuple[Fault, ...]:
    """Faults of a ``percentageOfNodesToScore``; None is valid."""
    return () if value is None else in_range(path, value, 0, 100)


def qualified_name_errors(name: str) -> tuple[str, ...]:
    """The errors of a label key or resource name, such as ``example.com/gpu`` or ``cpu``."""
    prefix, slash, rest = name.partition("/")
    if "/" in rest:
        return (
            f"a qualified name {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    errors: list[str] = []
    short = rest if slash else prefix
    if slash:
        if not prefix:
            errors.append("prefix part must be non-empty")
        else:
            errors.extend(f"prefix part {error}" for error in subdomain_errors(prefix))
    if not short:
        errors.append("name part must be non-empty")
    elif len(short.encode()) > _NAME_LENGTH:
        errors.append(f"name part must be no more than {_NAME_LENGTH} bytes")
    if not _NAME.fullmatch(short):
        errors.append(f"name part {_NAME_RULE}")
    return tuple(errors)


def subdomain_errors(name: str) -> tuple[str, ...]:
    """The errors of a DNS subdomain (RFC 1123), such as ``example.com``."""
    errors: list[str] = []
    if len(name.encode()) > _SUBDOMAIN_LENGTH:
        errors.append(f"must be no more than {_SUBDOMAIN_LENGTH} bytes")
    if not _SUBDOMAIN.fullmatch(name):
        errors.append(_SUBDOMAIN_RULE)
    return tuple(errors)


def qualified_name(path: str, name: str) -> tuple[Fault, ...]:
    """``qualified_name_errors`` as faults of ``path``."""
    return tuple(invalid(path, name, error) for error in qualified_name_errors(name))


label_name = qualified_name
"""A label's key is a qualified name."""


def is_extended_resource_name(name: str) -> bool:
    """Whether a resource is an extended one: of a domain that isn't Kubernetes' own, and not a quota's."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not qualified_name_errors(f"requests.{name}")


def extended_resource_name(path: str, name: str) -> tuple[Fault, ...]:
    """The name of an extended resource."""
    faults = qualified_name(path, name)
    if not faults and not is_extended_resource_name(name):
        return (invalid(path, name, "is an invalid extended resource name"),)
    return faults


def resource_weights(path: str, resources: Sequence[ResourceWeight]) -> tuple[Fault, ...]:
    """The ``resources`` of a scoring strategy: weights above 0 and up to 100, after the default of 1."""
    return tuple(
        invalid(
            f"{path}[{index}].weight",
            resource.weight,
            f"resource weight of {resource.name} not in valid range (0, {MAX_RESOURCE_WEIGHT}]",
        )
        for index, resource in enumerate(resources)
        if not 0 < resource.weight <= MAX_RESOURCE_WEIGHT
    )


def distinct(path: str, names: Iterable[str], field: str = "") -> tuple[Fault, ...]:
    """Faults for repeated names; ``field`` is the item's field that holds the name."""
    seen: set[str] = set()
    faults: list[Fault] = []
    for index, name in enumerate(names):
        if name in seen:
            faults.append(duplicate(f"{path}[{index}].{field}" if field else f"{path}[{index}]", name))
        seen.add(name)
    return tuple(faults)


def shape(path: str, points: Sequence[ShapePoint]) -> tuple[Fault, ...]:
    """A score's shape: at least one point, utilization rising within 0 to 100, score within 0 to 10."""
    if not points:
        return (required(path, "at least one point must be specified"),)
    faults: list[Fault] = []
    for index, (before, point) in enumerate(itertools.pairwise(points), start=1):
        if point.utilization <= before.utilization:
            place = f"{path}[{index}].utilization"
            faults.append(invalid(place, point.utilization, "values must be sorted in increasing order"))
    for index, point in enumerate(points):
        place = f"{path}[{index}]"
        for field, value, highest in (
            ("utilization", point.utilization, MAX_UTILIZATION),
            ("score", point.score, MAX_SHAPE_SCORE),
        ):
            faults.extend(in_range(f"{place}.{field}", value, 0, highest, f"not in valid range [0-{highest}]"))
    return tuple(faults)
