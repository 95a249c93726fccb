"""Extended resources mapped by DeviceClasses (KEP-5004): devices provide them instead of the node itself."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.cluster.view import View


def mapped_by_classes(view: View, names: Iterable[str]) -> frozenset[str]:
    """Those of the resource names that some DeviceClass maps, by its ``extendedResourceName`` or by its own name."""
    view.devices.catch_up()
    return view.devices.classes.mapped(names)
