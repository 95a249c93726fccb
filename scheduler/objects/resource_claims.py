"""DeviceClass: the one kind of dynamic resource allocation that affects pods without claims."""

from __future__ import annotations

from scheduler.objects.meta import ApiObject, ApiStruct

IMPLICIT_EXTENDED_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that every class stands for, followed by the class's name."""


class DeviceClassSpec(ApiStruct, frozen=True):
    extended_resource_name: str | None = None


class DeviceClass(ApiObject, frozen=True):
    """A class of devices. An extended resource that it maps may be provided by devices instead of the allocatable."""

    spec: DeviceClassSpec = DeviceClassSpec()

    @property
    def implicit_resource_name(self) -> str:
        return IMPLICIT_EXTENDED_RESOURCE_PREFIX + self.metadata.name
