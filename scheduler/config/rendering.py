"""Renders a completed configuration in its public form, for ``--write-config-to`` and ``/configz``.

The result loads as the same configuration.
"""

from __future__ import annotations

import base64
import enum
from typing import Any, Final

import msgspec
import yaml

from scheduler.config.documents import MAX_EXACT, kind_of_bare
from scheduler.config.durations import Duration
from scheduler.config.points import PluginEntry
from scheduler.config.types import API_VERSION, KIND, Extender, KubeSchedulerConfiguration

_OMITTED_IF_EMPTY: Final = ("node_scope", "match_labels")


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Puts quotes around all strings that the reader takes for something else without them."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        style = "'" if kind_of_bare(text) != "str" else None
        node: yaml.ScalarNode = self.represent_scalar("tag:yaml.org,2002:str", text, style=style)
        return node


_Dumper.add_representer(str, _Dumper.represent_text)


def configuration_document(configuration: KubeSchedulerConfiguration, *, with_keys: bool = True) -> dict[str, Any]:
    """The configuration as plain values, with ``apiVersion`` and ``kind``.

    ``with_keys=False`` leaves private keys out, for pages that others may read.
    """
    if not with_keys:
        extenders = tuple(_without_key(extender) for extender in configuration.extenders)
        configuration = msgspec.structs.replace(configuration, extenders=extenders)
    return {"apiVersion": API_VERSION, "kind": KIND, **_members(configuration)}


def write_yaml(*documents: dict[str, Any]) -> str:
    """Plain documents as YAML text, their fields in the order given."""
    text: str = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return text


def public_form(value: object) -> Any:
    """A value as a file states it: Structs as mappings in camel case, durations as Go's text, bytes in base64.

    None and empty lists are omitted, and so are empty plugin sets and weights that are not given.
    """
    match value:
        case msgspec.Struct():
            return _members(value)
        case Duration():
            return str(value)
        case enum.Enum():
            return value.value
        case float() if value.is_integer() and abs(value) < MAX_EXACT:
            return int(value)
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case tuple() | list():
            return [public_form(item) for item in value]
        case dict() if any(isinstance(member, msgspec.Struct) for member in value.values()):
            return {key: public_form(member) for key, member in value.items()}
        case _:
            return value


def _members(struct: msgspec.Struct) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        # Args are their plugin's own: `args: {}` stays as it is, and nothing inside is touched.
        if value is None or value == () or value == b"" or (value == {} and field.name in _OMITTED_IF_EMPTY):
            continue
        if isinstance(struct, PluginEntry) and field.name == "weight" and value == 0:
            continue
        form = public_form(value)
        if form == {} and isinstance(value, msgspec.Struct):
            continue
        members[field.encode_name] = form
    return members


def _without_key(extender: Extender) -> Extender:
    if extender.tls_config is None:
        return extender
    return msgspec.structs.replace(extender, tls_config=msgspec.structs.replace(extender.tls_config, key_data=b""))
