"""A module whose classes raise in places where a class is looked for, derived from and made."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.user_plugins.samples import Rack


class Registered(Rack):
    """Each class that derives from it must have a name of its own, as in a registry of its author's."""

    def __init_subclass__(cls) -> None:
        raise ValueError("Rack is registered twice")


class LabelArgs(msgspec.Struct):
    label: str = ""

    def __post_init__(self) -> None:
        raise KeyError("label")


class Labelled(Rack):
    Args = LabelArgs  # type: ignore[assignment]


class UnknownArgs(msgspec.Struct):
    label: Nowhere = ""  # type: ignore[name-defined]  # noqa: F821 - as where it is imported for type checkers only


class Unknown(Rack):
    Args = UnknownArgs  # type: ignore[assignment]


def __getattr__(name: str) -> Any:
    raise KeyError(name)
