"""The text of a file that a user gives as plain values: YAML or JSON, several documents, duplicate keys found.

Scalars follow Kubernetes' reader rather than PyYAML's: no timestamps and no base-60 numbers, so ``1:30`` stays text.

The file's author is not trusted with the process: its size is bounded before it is parsed, and its depth and number of
parts on the parser's flat stream of events, since the composer that follows recurses as deep as the text does, on the
stack of the C library.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

from scheduler.config.field_faults import child
from scheduler.errors import ConfigurationError, Fault

MAX_BYTES: Final = 1024 * 1024
"""Maximum size in bytes: what a ConfigMap can hold."""
MAX_NESTING: Final = 100
MAX_EVENTS: Final = 100_000
"""Maximum parts of a YAML file: two for a member of a mapping. A file at this limit takes 0.6 s to parse."""
MAX_VALUES: Final = 100_000
"""Maximum values of a file once its aliases are resolved: a few lines of aliases could name billions."""
MAX_NUMBER_LENGTH: Final = 64
"""Maximum characters of a number: no field takes a longer one, and Python refuses to show integers of some thousand
digits."""

_TOO_LONG: Final = f"a number of more than {MAX_NUMBER_LENGTH} characters"
_MUST_BE_JSON: Final = "what begins with { must be JSON"
_TAG: Final = "tag:yaml.org,2002:"
_INTEGER: Final = re.compile(r"[-+]?(0b[01]+|0x[0-9a-fA-F]+|0o[0-7]+|[0-9]+)\Z")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_BOOLEANS: Final = {
    "true": True, "yes": True, "on": True, "y": True, "false": False, "no": False, "off": False, "n": False,
}  # fmt: skip
MAX_EXACT: Final = 1e21
"""The number from which on kube-scheduler's reader writes a whole number with an exponent: it is no integer any
more."""
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document(msgspec.Struct, frozen=True):
    """One document: its fields, and the paths of the fields that occur more than once (the last one counts).

    ``number``: which one of the file's documents, from 0, empty ones included.
    """

    content: dict[str, Any]
    duplicates: tuple[str, ...]
    number: int = 0


def read_documents(text: str | bytes) -> tuple[Document, ...]:
    """The documents of a file, empty ones left out.

    Raises ConfigurationError where the text is neither YAML nor JSON, where it is too large or too deep, or a document
    is not a mapping; and nothing else, whatever the text is.
    """
    if len(text) > MAX_BYTES:
        raise ConfigurationError([Fault("", f"the text has more than {MAX_BYTES} bytes")])
    if isinstance(text, bytes):
        read = text
        try:
            text = read.decode("utf-8")
        except UnicodeDecodeError as error:
            reason = f"byte 0x{read[error.start]:02x}{_at_byte(read, error.start)}"
            raise ConfigurationError([Fault("", f"the text is not UTF-8: {reason}")]) from None
    # As in kube-scheduler: what begins with a brace is JSON, although YAML's flow style looks alike.
    parsed = _json_documents(text) if text.lstrip().startswith("{") else _yaml_documents(text)
    documents: list[Document] = []
    for number, (content, duplicates) in enumerate(parsed):
        if content is None:
            continue
        if not isinstance(content, dict):
            reason = f"a document must be a mapping, got {kind_of(content)}"
            raise ConfigurationError([Fault("", reason, near=(number, ""))])
        documents.append(Document(content, tuple(duplicates), number))
    return tuple(documents)


def read_values(text: bytes) -> Iterator[Any]:
    """The documents of YAML that has no maximum size, whatever they are; empty ones are left out.

    For files that only their user waits for: a kubeconfig, the objects of a cluster. They are no deeper than a
    configuration, and their aliases stand for no more values than a text of that size could hold without any. Raises
    ConfigurationError, also once the first documents have been read.
    """
    most = max(len(text), MAX_VALUES)
    builder = _YamlBuilder(most)
    try:
        check_extent(text, most)
        for node in yaml.compose_all(text, Loader=_LOADER):
            if (content := builder.build(node, "", 0)) is not None:
                yield content
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigurationError([Fault("", f"is not YAML: {_reason(error)}")]) from None


def read_value(text: bytes) -> Any:
    """The one document of a YAML text, as ``read_values``; None for an empty text. Raises ConfigurationError."""
    values = list(read_values(text))
    if len(values) > 1:
        raise ConfigurationError([Fault("", f"the text has {len(values)} documents, where one is expected")])
    return values[0] if values else None


def kind_of(value: object) -> str:
    """The kind of a decoded value, for an error message."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case dict():
            return "a mapping"
        case _:
            return "a list"


def _at_byte(text: bytes, index: int) -> str:
    """The line and column of a byte, as the end of a message; what is before it is UTF-8."""
    before = text[:index].decode().split("\n")
    return f" (line {len(before)}, column {len(before[-1]) + 1})"


class _JsonObject(list[tuple[str, Any]]):
    """The members of a JSON object, in order and with duplicates."""


class _Refused(str):
    """Why a value of JSON text is refused, in its place until its path is known."""

    __slots__ = ()


def _json_documents(text: str) -> list[tuple[Any, list[str]]]:
    try:
        raw = json.loads(text, object_pairs_hook=_JsonObject, parse_constant=_no_constant, parse_int=_integer)
    except json.JSONDecodeError as error:
        reason = f"{error.msg} (line {error.lineno}, column {error.colno})"
        raise ConfigurationError([Fault("", f"{_MUST_BE_JSON}: {reason}")]) from None
    except RecursionError:
        raise ConfigurationError([_too_deep()]) from None
    duplicates: list[str] = []
    return [(_from_json(raw, "", duplicates, 0), duplicates)]


def _no_constant(name: str) -> _Refused:
    """Refuses NaN and Infinity, which JSON does not have, though Python's reader takes them."""
    return _Refused(f"{_MUST_BE_JSON}: {name} is no JSON")


def _integer(text: str) -> int | _Refused:
    return int(text) if len(text) <= MAX_NUMBER_LENGTH else _Refused(_TOO_LONG)


def _from_json(value: object, path: str, duplicates: list[str], depth: int) -> Any:
    if depth > MAX_NESTING:
        raise ConfigurationError([_too_deep()])
    if isinstance(value, _JsonObject):
        members: dict[str, Any] = {}
        for key, member in value:
            place = child(path, key)
            if key in members:
                duplicates.append(place)
            members[_text(key, path)] = _from_json(member, place, duplicates, depth + 1)
        return members
    if isinstance(value, list):
        return [_from_json(item, f"{path}[{index}]", duplicates, depth + 1) for index, item in enumerate(value)]
    if isinstance(value, _Refused):
        raise ConfigurationError([Fault(path, str(value))])
    return _text(value, path) if isinstance(value, str) else value


def _text(text: str, path: str) -> str:
    """The text itself. Raises ConfigurationError for half a surrogate pair, which JSON can escape but UTF-8 can't
    encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError([Fault(path, "text that is not Unicode")]) from None
    return text


def _yaml_documents(text: str) -> list[tuple[Any, list[str]]]:
    try:
        check_extent(text)
        nodes = list(yaml.compose_all(text, Loader=_LOADER))
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigurationError([Fault("", f"error converting YAML to JSON: yaml: {_reason(error)}")]) from None
    builder = _YamlBuilder(MAX_VALUES)
    documents: list[tuple[Any, list[str]]] = []
    for node in nodes:
        builder.duplicates = []
        documents.append((builder.build(node, "", 0), builder.duplicates))
    return documents


def _reason(error: Exception) -> str:
    """The parser's message in one line, without its name for a text, which has a name of its own for the user."""
    return " ".join(re.sub(r'in "<(unicode|byte) string>",', "at", str(error)).split())


def check_extent(text: str | bytes, most_events: int = MAX_EVENTS) -> None:
    """Raise ConfigurationError for text that is too deep or has too many parts, before anything is built from it."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_LOADER)):
        if count >= most_events:
            raise ConfigurationError([Fault("", f"the text has more than {most_events} parts{_at(event)}")])
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_NESTING:
                raise ConfigurationError([_too_deep(_at(event))])
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _at(part: yaml.Event | yaml.Node) -> str:
    """The line and column, as the end of a message."""
    mark = part.start_mark
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""


def _too_deep(place: str = "") -> Fault:
    return Fault("", f"the text is nested deeper than {MAX_NESTING} levels{place}")


class _YamlBuilder:
    """Builds the values of documents from their nodes, noting duplicate keys by path; ``most`` values in all."""

    def __init__(self, most: int) -> None:
        self.duplicates: list[str] = []
        self._most = most
        self._built = 0

    def build(self, node: yaml.Node | None, path: str, depth: int) -> Any:
        if depth > MAX_NESTING:
            raise ConfigurationError([_too_deep(_at(node) if node is not None else "")])
        self._built += 1
        if self._built > self._most:
            raise ConfigurationError([Fault("", f"the text holds more than {self._most} values")])
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node, path)
        return None

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged |= self._merged(value_node, path, depth)
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigurationError([Fault(path, f"keys must be plain text{_at(key_node)}")])
            key = key_node.value
            place = child(path, key)
            if key in members:
                self.duplicates.append(place)
            members[key] = self.build(value_node, place, depth + 1)
        return merged | members

    def _merged(self, node: yaml.Node, path: str, depth: int) -> dict[str, Any]:
        """The members that ``<<: *anchor`` brings in; of several, the first to name a key wins."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for source in sources:
            members = self.build(source, path, depth + 1)
            if not isinstance(members, dict):
                text = f"map merge requires map or sequence of maps as the value{_at(source)}"
                raise ConfigurationError([Fault(path, text)])
            merged = members | merged
        return merged


def _scalar(node: yaml.ScalarNode, path: str) -> Any:
    text: str = node.value
    kind = node.tag.removeprefix(_TAG)
    if kind == "str" and _is_bare(node):
        kind = kind_of_bare(text)
    if kind in ("int", "float") and len(text) > MAX_NUMBER_LENGTH:
        raise ConfigurationError([Fault(path, f"{_TOO_LONG}{_at(node)}")])
    match kind:
        case "null":
            return None
        case "bool" if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        case "int":
            return _whole_number(text)
        case "float" if ":" in text:
            return text
        case "float" if (number := _number(text)) is not None:
            if not math.isfinite(number):
                raise ConfigurationError([Fault(path, f'"{text[:MAX_NUMBER_LENGTH]}" is no number in JSON{_at(node)}')])
            return int(number) if number.is_integer() and abs(number) < MAX_EXACT else number
        case "str" | "timestamp" | "value":
            return text
        case "bool" | "float":
            raise ConfigurationError([Fault(path, f'"{text[:MAX_NUMBER_LENGTH]}" is no !!{kind}{_at(node)}')])
        case _:
            raise ConfigurationError([Fault(path, f"the YAML tag {node.tag} is not supported{_at(node)}")])


def _is_bare(node: yaml.ScalarNode) -> bool:
    """Whether the text stands there by itself, without quotes, tag or anchor."""
    begin, end = node.start_mark, node.end_mark
    return not node.style and begin is not None and end is not None and end.index - begin.index == len(node.value)


def kind_of_bare(text: str) -> str:
    """What kube-scheduler's reader takes bare text for that is a string for PyYAML."""
    if text in ("y", "Y", "n", "N"):
        return "bool"
    digits = text if text.startswith(".") else text.replace("_", "")
    if text.startswith("_"):
        return "str"
    if _INTEGER.match(digits) and isinstance(_whole_number(text), int):
        return "int"
    return "float" if _FLOAT.match(digits) and math.isfinite(float(digits)) else "str"


def _whole_number(text: str) -> int | str:
    """An integer by Kubernetes' rules; everything else stays text."""
    digits = text.replace("_", "")
    if not _INTEGER.match(digits):
        return text
    bare = digits.lstrip("+-")
    is_legacy_octal = len(bare) > 1 and bare.isdigit() and bare[0] == "0"
    try:
        return int(digits, 8 if is_legacy_octal else 0)
    except ValueError:
        return text


def _number(text: str) -> float | None:
    digits = text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan")
    try:
        return float(digits)
    except ValueError:
        return None
