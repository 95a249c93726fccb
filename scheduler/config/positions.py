"""Where the fields of a configuration file are: line and column, for the messages of faults."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from scheduler.config.documents import check_extent
from scheduler.config.field_faults import child
from scheduler.errors import ConfigurationError, Fault

Position = tuple[int, int]
"""Line and column, from 1."""

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NAMED: Final = re.compile(r'(?:unknown|duplicate) field "([^"]+)"')
_PLUGIN: Final = re.compile(r'"([^"]+)" does not exist')
_SAID: Final = re.compile(r" \(line (\d+), column (\d+)\)\Z")
_LAST_STEP: Final = re.compile(r"(\.[^.\[\]]+|\[[^\]]*\]|^[^.\[\]]+)\Z")


class Positions:
    """The positions of all fields of all documents of a text that ``read_documents`` has accepted."""

    def __init__(self, text: str) -> None:
        self._of: dict[str, Position] = {}
        """Path → where it is first."""
        self._documents: list[dict[str, Position]] = []
        """The same of each document; "" stands for its beginning."""
        self._values: dict[str, Position] = {}
        """Text of a field called ``name`` → where it is first."""
        for node in yaml.compose_all(text, Loader=_LOADER):
            document = {"": _position(node)}
            self._documents.append(document)
            for path, found in _walk(node, ""):
                document.setdefault(path, _position(found))
                self._of.setdefault(path, _position(found))
                if path.endswith(".name") and isinstance(found, yaml.ScalarNode):
                    self._values.setdefault(found.value, _position(found))

    def of(self, fault: Fault) -> tuple[Position, ...]:
        """Where a fault is: at the fields that it names, or at the nearest one around a field that is missing."""
        if fault.near is not None:
            number, path = fault.near
            document = self._documents[number]
            return (document.get(path, document[""]),)
        named = _NAMED.findall(fault.message)
        if named:
            return tuple([place for path in named if (place := self._nearest(path)) is not None])
        plugin = _PLUGIN.search(fault.message)
        if plugin is not None and plugin[1] in self._values:
            return (self._values[plugin[1]],)
        place = self._nearest(fault.path) if fault.path else None
        return () if place is None else (place,)

    def _nearest(self, path: str) -> Position | None:
        while path:
            if path in self._of:
                return self._of[path]
            path = _LAST_STEP.sub("", path)
        return None


def placed(faults: tuple[Fault, ...], text: str, name: str) -> tuple[Fault, ...]:
    """The faults with ``FILE:LINE:COLUMN`` at the end of their messages, where they have a place in the text; with
    ``FILE`` where it is the whole text that is at fault."""
    positions: Positions | None = None
    # The composer recurses as deep as the text does, on the C library's stack.
    with contextlib.suppress(ConfigurationError, yaml.YAMLError, ValueError):
        check_extent(text)
        positions = Positions(text)
    answer = []
    for fault in faults:
        places = () if positions is None else positions.of(fault)
        shown = ", ".join(f"{name}:{line}:{column}" for line, column in places)
        if shown:
            answer.append(Fault(fault.path, f"{fault.message} ({shown})"))
        else:
            answer.append(fault if fault.path else Fault("", _with_file(fault.message, name)))
    return tuple(answer)


def _with_file(message: str, name: str) -> str:
    """The message of a fault of a whole text, which may end with a line and a column."""
    said = _SAID.search(message)
    return f"{message} ({name})" if said is None else f"{message[: said.start()]} ({name}:{said[1]}:{said[2]})"


def _walk(node: Any, path: str) -> Iterator[tuple[str, yaml.Node]]:
    """Each path with the node at which a reader would look: a member's value, or its key where the value is a
    collection. Aliases are not followed twice: what they stand for has one place."""
    waiting: list[tuple[str, Any]] = [(path, node)]
    seen: set[int] = set()
    while waiting:
        place, current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, yaml.MappingNode):
            for key, value in current.value:
                if isinstance(key, yaml.ScalarNode):
                    at = child(place, key.value)
                    yield at, value if isinstance(value, yaml.ScalarNode) else key
                    waiting.append((at, value))
        elif isinstance(current, yaml.SequenceNode):
            for index, item in enumerate(current.value):
                at = f"{place}[{index}]"
                yield at, item
                waiting.append((at, item))


def _position(node: yaml.Node) -> Position:
    mark = node.start_mark
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
