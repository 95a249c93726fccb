"""A device as selectors and constraints see it: hashable, so that answers about equal devices are shared."""

from __future__ import annotations

import msgspec

from scheduler.objects.devices import Device, DeviceAttribute

AttributeValue = tuple[str, str | int | bool]
"""Type (``string``, ``int``, ``bool``, ``version``; ``list`` for what 1.36 does not support by default) and value."""


class Described(msgspec.Struct, frozen=True, cache_hash=True):
    """All of a device that selectors can look at; attributes and capacities by domain and name."""

    driver: str
    attributes: tuple[tuple[str, str, str, str | int | bool], ...]
    """(domain, name, type, value)"""
    capacity: tuple[tuple[str, str, str], ...]
    """(domain, name, quantity as written)"""
    allows_multiple: bool


def describe(driver: str, device: Device) -> Described:
    """Names without a domain belong to the driver's."""
    attributes = [
        (*_qualified(driver, name), *value_of(attribute)) for name, attribute in sorted(device.attributes.items())
    ]
    capacity = [(*_qualified(driver, name), str(one.value)) for name, one in sorted(device.capacity.items())]
    return Described(driver, tuple(attributes), tuple(capacity), device.allow_multiple_allocations)


def value_of(attribute: DeviceAttribute) -> AttributeValue:
    if attribute.string is not None:
        return "string", attribute.string
    if attribute.int_ is not None:
        return "int", attribute.int_
    if attribute.bool_ is not None:
        return "bool", attribute.bool_
    if attribute.version is not None:
        return "version", attribute.version
    return "list", ""


def attribute_of(driver: str, device: Device, full_name: str) -> AttributeValue | None:
    """The attribute that a constraint names, fully qualified; None if the device has none."""
    found = device.attributes.get(full_name)
    if found is None:
        domain, _, name = full_name.partition("/")
        found = device.attributes.get(name) if domain == driver else None
    return None if found is None else value_of(found)


def _qualified(driver: str, name: str) -> tuple[str, str]:
    domain, slash, bare = name.partition("/")
    return (domain, bare) if slash else (driver, name)
