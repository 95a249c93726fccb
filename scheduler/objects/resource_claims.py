"""DeviceClass: the one kind of dynamic resource allocation that decides about pods without claims."""

from __future__ import annotations

from scheduler.objects.meta import ApiObject, ApiStruct

IMPLICIT_EXTENDED_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Followed by a class's name: the extended resource that every class stands for."""


class DeviceClassSpec(ApiStruct, frozen=True):
    extended_resource_name: str | None = None


class DeviceClass(ApiObject, frozen=True):
    """A class of devices. An extended resource it maps may be given by devices instead of by the node's allocatable."""

    spec: DeviceClassSpec = DeviceClassSpec()

    @property
    def implicit_resource_name(self) -> str:
        return IMPLICIT_EXTENDED_RESOURCE_PREFIX + self.metadata.name
