"""Extended resources mapped by DeviceClasses (KEP-5004): devices provide them instead of the node itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scheduler.objects.kinds import Kind

if TYPE_CHECKING:
    from scheduler.cluster.view import View


def mapped_by_classes(view: View, names: Iterable[str]) -> frozenset[str]:
    """The resource names that some DeviceClass maps, by its ``extendedResourceName`` or by its own name."""
    classes = view.all(Kind.DEVICE_CLASS)
    if not classes:
        return frozenset()
    mapped: set[str] = set()
    for device_class in classes.values():
        mapped.add(device_class.implicit_resource_name)
        if device_class.spec.extended_resource_name:
            mapped.add(device_class.spec.extended_resource_name)
    return frozenset(mapped.intersection(names))
