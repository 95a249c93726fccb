"""A configuration file's text as plain values: YAML or JSON, several documents, duplicate keys found.

Scalars follow Kubernetes' reader rather than PyYAML's: no timestamps and no base-60 numbers, so ``1:30`` stays text.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec
import yaml

from scheduler.config.field_faults import child
from scheduler.errors import ConfigurationError, Fault

DEEPEST_NESTING: Final = 100
MOST_VALUES: Final = 100_000
"""How many values a file may hold once its aliases are resolved: a few lines of aliases could name billions."""

_TAG: Final = "tag:yaml.org,2002:"
_INTEGER: Final = re.compile(r"[-+]?(0b[01]+|0x[0-9a-fA-F]+|0o[0-7]+|[0-9]+)\Z")
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document(msgspec.Struct, frozen=True):
    """One document: its fields, and the paths of the fields that occur more than once (the last one counts)."""

    content: dict[str, Any]
    duplicates: tuple[str, ...]


def read_documents(text: str | bytes) -> tuple[Document, ...]:
    """The documents of a file, empty ones left out.

    Raises ConfigurationError where the text is neither YAML nor JSON, or a document is not a mapping.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigurationError([Fault("", f"the configuration is not UTF-8: {error}")]) from None
    parsed = _json_documents(text) if text.lstrip().startswith("{") else None
    if parsed is None:
        parsed = _yaml_documents(text)
    documents: list[Document] = []
    for content, duplicates in parsed:
        if content is None:
            continue
        if not isinstance(content, dict):
            raise ConfigurationError([Fault("", f"a document must be a mapping, got {kind_of(content)}")])
        documents.append(Document(content, tuple(duplicates)))
    return tuple(documents)


def kind_of(value: object) -> str:
    """What a decoded value is, in words for an error message."""
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


class _JsonObject(list[tuple[str, Any]]):
    """The members of a JSON object, in order and with duplicates."""


def _json_documents(text: str) -> list[tuple[Any, list[str]]] | None:
    """None when the text isn't JSON: it may still be YAML, whose flow style looks alike."""
    try:
        raw = json.loads(text, object_pairs_hook=_JsonObject)
    except (ValueError, RecursionError):
        return None
    duplicates: list[str] = []
    return [(_from_json(raw, "", duplicates), duplicates)]


def _from_json(value: object, path: str, duplicates: list[str]) -> Any:
    if isinstance(value, _JsonObject):
        members: dict[str, Any] = {}
        for key, member in value:
            place = child(path, key)
            if key in members:
                duplicates.append(place)
            members[key] = _from_json(member, place, duplicates)
        return members
    if isinstance(value, list):
        return [_from_json(item, f"{path}[{index}]", duplicates) for index, item in enumerate(value)]
    return value


def _yaml_documents(text: str) -> list[tuple[Any, list[str]]]:
    try:
        nodes = list(yaml.compose_all(text, Loader=_LOADER))
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError([Fault("", f"error converting YAML to JSON: yaml: {reason}")]) from None
    except RecursionError:
        raise ConfigurationError([_too_deep()]) from None
    documents: list[tuple[Any, list[str]]] = []
    for node in nodes:
        builder = _YamlBuilder()
        documents.append((builder.build(node, "", 0), builder.duplicates))
    return documents


def _too_deep() -> Fault:
    return Fault("", f"the configuration is nested deeper than {DEEPEST_NESTING} levels")


class _YamlBuilder:
    """Builds one document's values from its nodes, noting duplicate keys by path."""

    def __init__(self) -> None:
        self.duplicates: list[str] = []
        self._built = 0

    def build(self, node: yaml.Node | None, path: str, depth: int) -> Any:
        if depth > DEEPEST_NESTING:
            raise ConfigurationError([_too_deep()])
        self._built += 1
        if self._built > MOST_VALUES:
            raise ConfigurationError([Fault("", f"the configuration holds more than {MOST_VALUES} values")])
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
                raise ConfigurationError([Fault(path, "keys must be plain text")])
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
                raise ConfigurationError([Fault(path, "map merge requires map or sequence of maps as the value")])
            merged = members | merged
        return merged


def _scalar(node: yaml.ScalarNode, path: str) -> Any:
    text: str = node.value
    match node.tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() in ("true", "yes", "on")
        case "int":
            digits = text.replace("_", "")
            if not _INTEGER.match(digits):
                return text
            bare = digits.lstrip("+-")
            legacy_octal = len(bare) > 1 and bare.isdigit() and bare[0] == "0"
            return int(digits, 8 if legacy_octal else 0)
        case "float":
            digits = text.replace("_", "").replace(".inf", "inf").replace(".Inf", "inf").replace(".INF", "inf")
            digits = digits.replace(".nan", "nan").replace(".NaN", "nan").replace(".NAN", "nan")
            return text if ":" in digits else float(digits)
        case "str" | "timestamp" | "value":
            return text
        case _:
            raise ConfigurationError([Fault(path, f"the YAML tag {node.tag} is not supported")])
