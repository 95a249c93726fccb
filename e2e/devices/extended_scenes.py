"""Scenes whose pods ask for extended resources that devices give, by name.

Each has a driver, classes and nodes of its own, so that what one leaves behind concerns no other.
"""

from __future__ import annotations

from collections.abc import Callable

from e2e import builders
from e2e.builders import Object
from e2e.devices.objects import (
    asking,
    claim,
    container,
    device_class,
    gpus,
    pool,
    resource,
)
from e2e.devices.scene import Phase, Scene, on_one_node


def _extended(place: str, *phases: Phase, nodes: list[Object] | None = None, devices: int = 8) -> Scene:
    a = f"{place}-a"
    there = Phase([device_class(place, extendedResourceName=resource(place)), pool(place, a, *gpus(devices))])
    return Scene(place, nodes or [builders.node(a)], [there, *phases])


def _extended_resources_by_both_names(place: str) -> Scene:
    implicit = f"deviceclass.resource.kubernetes.io/{place}"
    both = {resource(place): 1, implicit: 2}
    return _extended(
        place,
        Phase([asking(place, "implicit", container("c", {implicit: 1}))]),
        Phase([asking(place, "both", container("c", both), container("d", {resource(place): 1}))]),
        Phase([asking(place, "more", container("c", {implicit: 4}))]),
        Phase(delete=[("Pod", "both")], seconds=4),
    )


def _extended_resources_of_init_containers(place: str) -> Scene:
    name = resource(place)
    sidecar = container("side", {name: 1}, restartPolicy="Always")
    init = (container("i0", {name: 2}), sidecar, container("i1", {name: 4}), container("i2", {name: 1}))
    return _extended(
        place,
        Phase([asking(place, "p", container("c0", {name: 1}), container("c1", {name: 1}), init=init)]),
        Phase([asking(place, "q", container("c0", {name: 3}))]),
    )


def _extended_resources_of_device_plugins(place: str) -> Scene:
    name = resource(place)
    nodes = [builders.node(f"{place}-{one}", labels={"side": one}) for one in "ab"]
    for kind in ("allocatable", "capacity"):
        nodes[1]["status"][kind][name] = "1"
    return _extended(
        place,
        Phase([asking(place, "p0", container("c", {name: 1}), nodeSelector={"side": "b"})]),
        Phase([asking(place, "p1", container("c", {name: 1}), nodeSelector={"side": "b"})]),
        Phase([asking(place, "p2", container("c", {name: 1}))]),
        nodes=nodes,
        devices=1,
    )


def _extended_resources_beside_claims(place: str) -> Scene:
    name = resource(place)
    both = asking(place, "p", container("c", {name: 2}))
    both["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimName": "own"}]
    return _extended(
        place,
        Phase([claim(place, "own"), both]),
        # All three devices: which of the two claims gives its devices back first is up to the controllers.
        Phase([asking(place, "q", container("c", {name: 3}))]),
        Phase(delete=[("Pod", "p")], seconds=4),
        devices=3,
    )


def _extended_resource_of_a_class_that_comes_later(place: str) -> Scene:
    name = resource(place)
    return on_one_node(
        place,
        Phase([pool(place, f"{place}-a", *gpus(1)), asking(place, "p", container("c", {name: 1}))]),
        Phase([device_class(place)]),
        Phase(change=[("DeviceClass", place, {"spec": {"extendedResourceName": name}}, "")]),
    )


EXTENDED_SCENES: dict[str, Callable[[str], Scene]] = {
    "extended-resources-by-both-names": _extended_resources_by_both_names,
    "extended-resources-of-init-containers": _extended_resources_of_init_containers,
    "extended-resources-of-device-plugins": _extended_resources_of_device_plugins,
    "extended-resources-beside-claims": _extended_resources_beside_claims,
    "extended-resource-of-a-class-that-comes-later": _extended_resource_of_a_class_that_comes_later,
}
