"""``docs/configuration.md`` has every setting of a TandemConfiguration, with its values and its default."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from scheduler.config.feature_gates import HONOURED
from scheduler.config.tandem import LIMIT_RANGES, TandemConfiguration
from tests.docs.pages import DOCS, section

PAGE = (DOCS / "configuration.md").read_text()
ROWS: dict[str, tuple[str, str]] = {
    name: (values, default)
    for name, values, default in re.findall(
        r"^\| `([\w.]+)` \| (.+?) \| `(.+?)` \|", section(PAGE, "TandemConfiguration"), re.MULTILINE
    )
}


def settings(of: msgspec.Struct, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The path of each setting with its default; the parts of a Struct in its place."""
    for field in msgspec.structs.fields(of):
        value = getattr(of, field.name)
        name = f"{prefix}{field.encode_name}"
        if isinstance(value, msgspec.Struct):
            yield from settings(value, f"{name}.")
        elif name not in ("apiVersion", "kind"):
            yield name, value


def shown(value: Any) -> str:
    """As the table writes a default."""
    match value:
        case bool():
            return str(value).lower()
        case enum.Enum():
            return str(value.value)
        case dict():
            return "{}"
        case tuple():
            return "[]"
        case int() if type(value) is int:
            return f"{value:,}"
        case _:
            return str(value)


def test_every_setting_is_there_with_its_default() -> None:
    found = {name: shown(value) for name, value in settings(TandemConfiguration())}
    assert {name: default for name, (_, default) in ROWS.items()} == found
    assert found["preemption.breaker.window"] == "10m0s" and found["limits.cachedSelectors"] == "5,000"


def test_choices_and_ranges_are_those_that_are_accepted() -> None:
    for name, value in settings(TandemConfiguration()):
        if isinstance(value, enum.Enum):
            choices = ", ".join(f"`{one.value}`" for one in type(value))
            assert sorted(ROWS[name][0].split(", ")) == sorted(choices.split(", ")), name
    for field in msgspec.structs.fields(type(TandemConfiguration().limits)):
        low, high = LIMIT_RANGES[field.name]
        assert ROWS[f"limits.{field.encode_name}"][0] == f"{low:,} to {high:,}"


def test_every_gate_that_can_be_switched_is_named() -> None:
    text = section(PAGE, "Feature gates")
    assert len(HONOURED) == 11 and "Eleven can be switched" in text
    assert [gate for gate in sorted(HONOURED) if f"`{gate}`" not in text] == []
