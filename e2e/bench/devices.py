"""Objects of the scenarios whose pods ask for devices: eight GPUs a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from e2e.builders import Object

API = "resource.k8s.io/v1"
DRIVER = "gpu.bench.test"
GPUS = 8
"""Devices of a node."""
CLASS = "bench-gpus"
KINDS = 50
"""Of GPUs, where each kind has a class and an extended resource of its own."""

MODELS = ("full", "half", "quarter")
"""Parts that a GPU can be divided into: one, two or four."""


def _selector(expression: str) -> list[Object]:
    return [{"cel": {"expression": expression}}]


def _class(name: str, expression: str, **spec: Any) -> Object:
    body = {"selectors": _selector(expression), **spec}
    return {"kind": "DeviceClass", "apiVersion": API, "metadata": {"name": name}, "spec": body}


def _slice(node: str, part: str = "gpus", slices: int = 1, **spec: Any) -> Object:
    return {
        "kind": "ResourceSlice",
        "apiVersion": API,
        "metadata": {"name": f"{node}-{part}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": slices},
            **spec,
        },
    }


def _gpu(number: int, **attributes: Object) -> Object:
    """The first four of a node are on NUMA node 0."""
    return {
        "name": f"gpu-{number}",
        "attributes": {"numa": {"int": number // (GPUS // 2)}, "model": {"string": "a100"}, **attributes},
        "capacity": {"memory": {"value": "80Gi"}},
    }


def with_gpus(nodes: Iterable[str]) -> Iterator[Object]:
    """The class and, for each node, a pool of whole GPUs."""
    yield _class(CLASS, f'device.driver == "{DRIVER}"')
    for node in nodes:
        yield _slice(node, devices=[_gpu(number) for number in range(GPUS)])


def with_gpus_of_many_kinds(nodes: Iterable[str]) -> Iterator[Object]:
    """The GPUs are of 50 kinds in turn; for each kind a class that stands for an extended resource."""
    for kind in range(KINDS):
        expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].kind == {kind}'
        yield _class(f"{CLASS}-{kind:02}", expression, extendedResourceName=resource(kind))
    for index, node in enumerate(nodes):
        kinds = [(GPUS * index + number) % KINDS for number in range(GPUS)]
        yield _slice(node, devices=[_gpu(number, kind={"int": kind}) for number, kind in enumerate(kinds)])


def with_divided_gpus(nodes: Iterable[str]) -> Iterator[Object]:
    """Each GPU is to be had whole, as two halves or as four quarters, which share the counters of its memory."""
    yield _class(CLASS, f'device.driver == "{DRIVER}"')
    counters = [
        {"name": f"gpu-{number}", "counters": {"memory": {"value": "80Gi"}, "engines": {"value": "4"}}}
        for number in range(GPUS)
    ]
    devices = [part for number in range(GPUS) for part in _parts(number)]
    for node in nodes:
        yield _slice(node, "counters", 2, sharedCounters=counters)
        yield _slice(node, "parts", 2, devices=devices)


def _parts(number: int) -> Iterator[Object]:
    for model, parts in zip(MODELS, (1, 2, 4), strict=True):
        memory, engines = {"value": f"{80 // parts}Gi"}, {"value": str(4 // parts)}
        for part in range(parts):
            yield {
                "name": f"gpu-{number}-{model}-{part}",
                "attributes": {"model": {"string": model}},
                "capacity": {"memory": memory},
                "consumesCounters": [
                    {"counterSet": f"gpu-{number}", "counters": {"memory": memory, "engines": engines}}
                ],
            }


def resource(kind: int) -> str:
    return f"{DRIVER}/kind-{kind:02}"


# --- what pods ask for ------------------------------------------------------------------------------------------------


def _template(name: str, namespace: str, expression: str, count: int = 1, **devices: Any) -> Object:
    exactly = {"deviceClassName": CLASS, "count": count, "selectors": _selector(expression)}
    spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}], **devices}}
    return {
        "kind": "ResourceClaimTemplate",
        "apiVersion": API,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": spec},
    }


def one_large(namespace: str) -> Iterator[Object]:
    """A template ``gpus`` that asks for a GPU of at least 40Gi."""
    enough = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
    yield _template("gpus", namespace, enough)


def two_together(namespace: str) -> Iterator[Object]:
    """A template ``gpus`` that asks for two GPUs of one NUMA node."""
    expression = f'device.attributes["{DRIVER}"].model == "a100"'
    yield _template("gpus", namespace, expression, 2, constraints=[{"matchAttribute": f"{DRIVER}/numa"}])


def one_of_each_part(namespace: str) -> Iterator[Object]:
    """A template for each way of dividing a GPU."""
    for model in MODELS:
        yield _template(f"gpus-{model}", namespace, f'device.attributes["{DRIVER}"].model == "{model}"')


def claiming(template: str) -> Object:
    """A field of a pod's spec: it has a claim made from the template."""
    return {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": template}]}


def part_of(index: int) -> str:
    """The template of a pod by its number: of seven pods one takes a whole GPU, two a half and four a quarter."""
    return f"gpus-{MODELS[(0, 1, 1, 2, 2, 2, 2)[index % 7]]}"


def existing(
    nodes: Callable[[int, int], Iterable[Object]],
    pools: Callable[[Iterable[str]], Iterable[Object]],
    templates: Callable[[str], Iterable[Object]],
    namespace: str,
) -> Callable[[int, int], Iterator[Object]]:
    """Nodes, their pools and the templates of pods."""

    def made(node_count: int, pod_count: int) -> Iterator[Object]:
        there = list(nodes(node_count, pod_count))
        names = [node["metadata"]["name"] for node in there]
        return chain(there, pools(names), templates(namespace))

    return made
