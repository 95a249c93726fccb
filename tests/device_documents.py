"""Devices, classes and claims as JSON documents."""

from __future__ import annotations

from typing import Any

DRIVER = "gpu.example.com"
API = {"apiVersion": "resource.k8s.io/v1"}


def gpu(name: str, **fields: Any) -> dict[str, Any]:
    """A device; ``attributes`` by name, as plain values."""
    attributes = {key: _attribute(value) for key, value in fields.pop("attributes", {}).items()}
    return {"name": name, "attributes": attributes, **fields}


def _attribute(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": value}


def resource_slice(
    node: str, *devices: dict[str, Any], pool: str = "", name: str = "", driver: str = DRIVER, **spec: Any
) -> dict[str, Any]:
    return {
        **API,
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{node}-slice", "uid": f"slice-{name or node}"},
        "spec": {
            "driver": driver,
            "pool": {"name": pool or node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": list(devices),
            **spec,
        },
    }


def device_class(name: str, *expressions: str, **spec: Any) -> dict[str, Any]:
    return {
        **API,
        "kind": "DeviceClass",
        "metadata": {"name": name, "uid": f"class-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"selectors": [{"cel": {"expression": one}} for one in expressions], **spec},
    }


def exactly(device_class: str, *expressions: str, count: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "deviceClassName": device_class,
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": one}} for one in expressions],
        **fields,
    }


def claim(
    name: str, device_class: str = "", *, requests: list[dict[str, Any]] | None = None, **devices: Any
) -> dict[str, Any]:
    """One request ``r`` for one device of a class, or the requests given."""
    asked = requests if requests is not None else [{"name": "r", "exactly": exactly(device_class)}]
    return {
        **API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"claim-{name}"},
        "spec": {"devices": {"requests": asked, **devices}},
    }
