"""Decoding of a plugin's args: the raw mapping of ``pluginConfig`` into the Struct that the plugin owns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from scheduler.config.strict import decode_strictly, strict_decoding_error
from scheduler.config.types import API_GROUP, API_VERSION
from scheduler.errors import Fault

ArgsType = TypeVar("ArgsType")

_TYPE_FIELDS: Final = ("apiVersion", "kind")


def args_path(profile: int, plugin_config: int) -> str:
    """The path of the args of one ``pluginConfig`` entry of one profile."""
    return f"profiles[{profile}].pluginConfig[{plugin_config}].args"


def decode_args(
    args_type: type[ArgsType], raw: Mapping[str, object] | None, path: str, plugin: str
) -> tuple[ArgsType | None, tuple[Fault, ...]]:
    """A plugin's args, strictly decoded, and every fault; the args are None exactly if there are faults.

    ``args_type`` is a Struct with ``rename="camel"`` whose defaults are the plugin's; None or an empty ``raw`` gives
    them. ``path`` is as of ``args_path``. Durations are fields of type ``Duration``. If the args say what they are, it
    must be ``<plugin>Args``. Values are for the plugin to check (``validators.py``).
    """
    stated = dict(raw or {})
    prefix = f"decoding .{path.removesuffix('.args')}: "
    mistyped = _mistyped(stated, plugin)
    if mistyped:
        return None, (Fault("", prefix + mistyped),)
    members = {key: value for key, value in stated.items() if key not in _TYPE_FIELDS}
    decoded = decode_strictly(members, args_type, path)
    faults = list(decoded.faults)
    if decoded.unknown:
        # kube-scheduler names unknown fields from the args on, the place of the args being in the prefix.
        unknown = tuple(field.removeprefix(f"{path}.") for field in decoded.unknown)
        text = strict_decoding_error(unknown, meant=decoded.meant)
        faults.insert(0, Fault("", f"{prefix}decoding args for plugin {plugin}: {text}"))
    if faults:
        return None, tuple(faults)
    value: ArgsType = decoded.value
    return value, ()


def _mistyped(stated: Mapping[str, object], plugin: str) -> str:
    """What is wrong with the ``apiVersion`` and ``kind`` that the args state, if they do."""
    wanted = f"{plugin}Args"
    version, kind = stated.get("apiVersion") or API_VERSION, stated.get("kind") or wanted
    group, _, number = str(version).rpartition("/")
    if kind != wanted or group != API_GROUP:
        got = f"{kind}.{group}" if group else str(kind)
        return f"args for plugin {plugin} were not of type {wanted}.{API_GROUP}, got {got}"
    if number != "v1":
        return f'decoding args for plugin {plugin}: no kind "{kind}" is registered for version "{version}"'
    return ""
