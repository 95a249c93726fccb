"""Contracts between parts are typed: where Any stands in a signature, and why it must."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Resource
from scheduler.framework.plugin import Plugin
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.plugins.registry import registry

ROOT = Path(__file__).parents[2]
PACKAGES = ("cluster", "engine", "framework", "messages", "plugins", "preemption", "queue")

UNTYPED = {
    "cluster/devices/answers.py": 6,  # what a plugin keeps there: its own values, from one question to the next
    "cluster/devices/allocated.py": 2,  # an empty dict that serves as one of every type
    "cluster/forkable.py": 12,  # dict's own signatures
    "engine/answers.py": 2,  # a table from types to functions of that type
    "engine/engine.py": 1,  # likewise
    "engine/questions/applying.py": 2,  # likewise, and the fields of a Struct
    "engine/recording": 54,  # any object of the engine's graph, on its way to bytes or back
    "framework/events.py": 1,  # RegisteredObject says why
    "framework/plugin.py": 2,  # the arguments of a plugin: each class has its own type of them
    "plugins/devices/selectors": 73,  # values of CEL, whose library has no types
}
"""Files and folders with Any in a signature or an annotation, how often, and why. It may only shrink."""

JSON = {"dict", "Mapping"}
ARRAYS = {"NDArray", "ndarray", "integer"}


def _is_excused(node: ast.Subscript) -> bool:
    """``dict[str, Any]`` is a JSON document; ``NDArray[Any]`` an array of numbers of any width."""
    name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    return name in ARRAYS or (name in JSON and ast.unparse(node.slice) == "(str, Any)")


def _anys(node: ast.AST) -> Iterator[ast.Name]:
    if isinstance(node, ast.Subscript) and _is_excused(node):
        return
    if isinstance(node, ast.Name) and node.id == "Any":
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _anys(child)


def _found() -> Counter[str]:
    found: Counter[str] = Counter()
    for package in PACKAGES:
        for path in sorted((ROOT / "scheduler" / package).rglob("*.py")):
            count = len(list(_anys(ast.parse(path.read_text(encoding="utf-8")))))
            if count:
                name = path.relative_to(ROOT / "scheduler").as_posix()
                folder = next((place for place in UNTYPED if name.startswith(f"{place}/")), name)
                found[folder] += count
    return found


def test_any_stands_only_where_no_type_can() -> None:
    assert dict(_found()) == UNTYPED


OBJECT_TYPES: dict[Resource, type[ApiObject] | type[PodInfo]] = {
    Resource.POD: PodInfo,
    Resource.ASSIGNED_POD: PodInfo,
    Resource.UNSCHEDULED_POD: PodInfo,
    Resource.NODE: Kind.NODE.entry.type,
    **{Resource(kind.entry.event_resource): kind.entry.type for kind in Kind if kind.entry.has_events},
}


@pytest.mark.parametrize("plugin_type", registry().values(), ids=lambda plugin_type: plugin_type.name)
def test_the_hints_of_built_in_plugins_take_the_objects_of_their_events(plugin_type: type[Plugin]) -> None:
    for registration in plugin_type().events():
        object_type = OBJECT_TYPES[registration.event.resource]
        for function, places in (
            (registration.hint, (1, 2)),
            (registration.class_hint, (1, 2)),
            (registration.facet, (0,)),
            (registration.keys.offered if registration.keys is not None else None, (0,)),
        ):
            if function is None or function.__name__ == "<lambda>":
                continue
            hints = list(get_type_hints(function).items())
            for place in places:
                accepted = hints[place][1]
                types = getattr(accepted, "__args__", (accepted,))
                assert accepted is object or any(issubclass(object_type, one) for one in types), (
                    f"{function.__name__} takes a {accepted} of an event about a {object_type.__name__}"
                )
