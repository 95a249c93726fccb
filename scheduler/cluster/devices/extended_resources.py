"""Which DeviceClass stands for which extended resource (docs/kube-scheduler/dra.md §12)."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.objects.devices import DeviceClass


class ClassesByResource:
    """Extended resource → class, as the events of classes came in."""

    def __init__(self) -> None:
        self.by_resource: dict[str, DeviceClass] = {}
        """Read only; empty in clusters without devices."""
        self.version = 0
        """Equal versions of one object promise equal answers."""

    def observe(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        """Apply a change of a class. Of two classes for one name the later one wins, then the one with the lower name.
        A class that loses is dropped with its implicit name, and deleting a winner brings no loser back, as in
        kube-scheduler 1.36."""
        self.version += 1
        if new is None:
            if old is not None:
                self._forget(old)
            return
        if old is not None and old.spec.extended_resource_name != new.spec.extended_resource_name:
            self._forget_name(old.spec.extended_resource_name, old)
        name = new.spec.extended_resource_name
        if name:
            known = self.by_resource.get(name)
            if known is not None and not _wins(new, known):
                return
            self.by_resource[name] = new
        self.by_resource[new.implicit_resource_name] = new

    def clear(self) -> None:
        self.by_resource.clear()
        self.version += 1

    def copy(self) -> ClassesByResource:
        other = ClassesByResource()
        other.by_resource = dict(self.by_resource)
        other.version = self.version
        return other

    def get(self, resource: str) -> str | None:
        """The name of the class that stands for a resource."""
        found = self.by_resource.get(resource)
        return found.metadata.name if found is not None else None

    def mapped(self, resources: Iterable[str]) -> frozenset[str]:
        """The resources among these that a class stands for."""
        if not self.by_resource:
            return frozenset()
        return frozenset([resource for resource in resources if resource in self.by_resource])

    def _forget(self, device_class: DeviceClass) -> None:
        self._forget_name(device_class.spec.extended_resource_name, device_class)
        self._forget_name(device_class.implicit_resource_name, device_class)

    def _forget_name(self, name: str | None, device_class: DeviceClass) -> None:
        known = self.by_resource.get(name or "")
        if known is not None and known.metadata.name == device_class.metadata.name:
            del self.by_resource[name or ""]


def _wins(new: DeviceClass, known: DeviceClass) -> bool:
    one, other = new.metadata.creation_timestamp or "", known.metadata.creation_timestamp or ""
    if one != other:
        return one > other
    return new.metadata.name < known.metadata.name
