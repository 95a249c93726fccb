"""Slices, classes, claims and pods of a scene. ``place``: the scene's namespace, driver and extended resources."""

from __future__ import annotations

from typing import Any

from e2e import builders
from e2e.builders import Object

API = "resource.k8s.io/v1"


def driver(place: str) -> str:
    return f"{place}.example.com"


def resource(place: str) -> str:
    """The extended resource that the scene's class stands for."""
    return f"{place}.example.com/gpu"


def _object(kind: str, name: str, namespace: str = "", **fields: Any) -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": API, "kind": kind, "metadata": metadata, **fields}


def device_class(place: str, suffix: str = "", *expressions: str, **spec: Any) -> Object:
    """Named like the place and the suffix; without expressions it has all devices of the scene's driver."""
    selectors = expressions or (f'device.driver == "{driver(place)}"',)
    written = [{"cel": {"expression": one}} for one in selectors]
    return _object("DeviceClass", place + suffix, spec={"selectors": written, **spec})


def gpu(name: str, **fields: Any) -> Object:
    """``attributes`` by name, as plain values."""
    attributes = {key: _typed(value) for key, value in fields.pop("attributes", {}).items()}
    return {"name": name, **({"attributes": attributes} if attributes else {}), **fields}


def _typed(value: Any) -> Object:
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": value}


def gpus(count: int, **fields: Any) -> list[Object]:
    return [gpu(f"gpu-{number}", **fields) for number in range(count)]


def pool(
    place: str, node: str, *devices: Object, name: str = "", slices: int = 1, generation: int = 1, **spec: Any
) -> Object:
    """A slice of the node's pool. ``slices``: how many the pool says that it has."""
    where = {} if {"nodeSelector", "allNodes", "perDeviceNodeSelection"} & spec.keys() else {"nodeName": node}
    about = {"name": spec.pop("pool", node), "generation": generation, "resourceSliceCount": slices}
    spec = {"driver": spec.pop("driver", driver(place)), "pool": about, **where, **spec}
    if devices:
        spec["devices"] = list(devices)
    return _object("ResourceSlice", name or f"{place}-{node}", spec=spec)


def exactly(place: str, name: str = "r", *expressions: str, suffix: str = "", **fields: Any) -> Object:
    """A request for devices of the scene's class."""
    return {"name": name, "exactly": _asked(place, expressions, suffix, fields)}


def alternative(place: str, name: str, *expressions: str, suffix: str = "", **fields: Any) -> Object:
    return {"name": name, **_asked(place, expressions, suffix, fields)}


def _asked(place: str, expressions: tuple[str, ...], suffix: str, fields: Object) -> Object:
    selectors = [{"cel": {"expression": one}} for one in expressions]
    return {"deviceClassName": place + suffix, **({"selectors": selectors} if selectors else {}), **fields}


def claim(place: str, name: str, *requests: Object, **devices: Any) -> Object:
    """Without requests it asks for one device."""
    return _object(
        "ResourceClaim", name, place, spec={"devices": {"requests": list(requests) or [exactly(place)], **devices}}
    )


def template(place: str, name: str, *requests: Object, **devices: Any) -> Object:
    spec = claim(place, name, *requests, **devices)["spec"]
    return _object("ResourceClaimTemplate", name, place, spec={"spec": spec})


def pod(place: str, name: str, *claims: str, **spec: Any) -> Object:
    """With these claims."""
    if claims:
        spec["resourceClaims"] = [{"name": one, "resourceClaimName": one} for one in claims]
    return builders.pod(name, place, **spec)


def from_template(place: str, name: str, of: str) -> Object:
    return builders.pod(name, place, resourceClaims=[{"name": of, "resourceClaimTemplateName": of}])


def container(name: str, amounts: dict[str, int], **fields: Any) -> Object:
    written = {key: str(amount) for key, amount in amounts.items()} | {"cpu": "10m"}
    return {"name": name, "image": builders.IMAGE, "resources": {"requests": written, "limits": written}, **fields}


def asking(place: str, name: str, *containers: Object, init: tuple[Object, ...] = (), **spec: Any) -> Object:
    """A pod with these containers."""
    return pod(place, name, containers=list(containers), initContainers=list(init), **spec)
