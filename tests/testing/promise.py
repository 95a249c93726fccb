"""What `scheduler.plugin` promises, line by line; ``python -m tests.testing.promise`` writes down what is there now."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scheduler import plugin

FILE = Path(__file__).with_name("promise.txt")
NAMED: dict[str, tuple[str, ...]] = {
    "PodInfo": ("labels", "name", "namespace", "pod", "priority", "requests", "uid"),
    "View": ("all", "get", "ordered_rows", "rows", "table", "version"),
    "ApiObject": ("metadata",),
    "Node": (),
    "Pod": (),
}
"""Of these only what the page names is promised: other attributes are the API's fields, or the scheduler's own."""


def present() -> list[str]:
    """Every name of the module; of functions and of methods the parameters, of classes the public attributes."""
    return sorted({line for name in plugin.__all__ for line in _lines(name, getattr(plugin, name))})


def promised() -> list[str]:
    return FILE.read_text().splitlines()


def _lines(name: str, thing: Any) -> Iterator[str]:
    if inspect.isfunction(thing):
        yield f"{name}{_parameters(thing)}"
        return
    yield name
    if name in NAMED:
        yield from (f"{name}.{attribute}" for attribute in NAMED[name] if hasattr(thing, attribute))
        return
    if not inspect.isclass(thing):
        return
    for kind in thing.__mro__:
        if not kind.__module__.startswith("scheduler."):
            continue
        for attribute in kind.__annotations__ if "__annotations__" in vars(kind) else ():
            if not attribute.startswith("_"):
                yield f"{name}.{attribute}"
        for attribute, value in vars(kind).items():
            if attribute.startswith("_"):
                continue
            value = getattr(value, "__func__", value)
            yield f"{name}.{attribute}{_parameters(value) if inspect.isfunction(value) else ''}"


def _parameters(function: Any) -> str:
    parameters = inspect.signature(function).parameters.values()
    return f"({', '.join(str(each.replace(annotation=each.empty, default=each.empty)) for each in parameters)})"


if __name__ == "__main__":
    FILE.write_text("\n".join(present()) + "\n")
