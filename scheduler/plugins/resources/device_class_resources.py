"""Extended resources mapped by DeviceClasses (KEP-5004): devices provide them instead of the node itself."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import msgspec
import numpy as np

from scheduler.cluster.devices.tallies import Column
from scheduler.cluster.view import View
from scheduler.objects.devices import DeviceClass
from scheduler.objects.kinds import Kind
from scheduler.plugins.devices.candidates import first_false
from scheduler.plugins.devices.requests import NamedExpression


def mapped_by_classes(view: View, names: Iterable[str]) -> frozenset[str]:
    """The resource names among these that some DeviceClass maps, by its ``extendedResourceName`` or by its own name."""
    view.devices.catch_up()
    return view.devices.classes.mapped(names)


def device_columns(view: View, resource: str) -> tuple[Column, Column] | None:
    """How many devices of the resource's class each row of ``view.table`` can reach, and how many of them are held;
    None where no class stands for the resource."""
    name = view.devices.classes.get(resource)
    if name is None:
        return None
    found = view.find(DeviceClass, name)
    if found is None:
        return None
    devices = view.devices
    devices.catch_up()
    tally = devices.tallies.of(name)
    stamp = (devices.common_version, view.version(Kind.DEVICE_CLASS))
    tally.update(stamp, devices.row_versions(), lambda row: _count(view, found, row))
    if devices.is_of(view.table):
        return tally.totals, tally.held
    # A private table: its rows are found in the cluster by their names.
    rows = [devices.row_of(node) for node in view.table.names[: view.table.size]]
    totals = np.array([0 if row is None else tally.totals[row] for row in rows], np.int64)
    return totals, np.array([0 if row is None else tally.held[row] for row in rows], np.int64)


def tallies_stamp(view: View, resources: Iterable[str]) -> Hashable:
    """Equal stamps promise equal ``device_columns`` of all the resources."""
    devices = view.devices
    changes = devices.version if devices.classes.mapped(resources) else 0
    return view.version(Kind.DEVICE_CLASS), changes


def _count(view: View, device_class: DeviceClass, row: int) -> tuple[int, int]:
    """Nothing on a node where a selector fails, as in kube-scheduler 1.36."""
    selectors = tuple(
        [NamedExpression("", one.cel.expression) for one in device_class.spec.selectors if one.cel is not None]
    )
    total = held = 0
    for device in view.devices.reachable(row):
        # Scores do not know which devices can be shared, as in kube-scheduler 1.36.
        fault = first_false(selectors, msgspec.structs.replace(device.described, allows_multiple=False))
        if isinstance(fault, str):
            return 0, 0
        if fault is None:
            total += 1
            held += view.devices.is_held(device.id)
    return total, held
