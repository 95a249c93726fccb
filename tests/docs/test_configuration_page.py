"""``docs/configuration.md`` has every setting of TandemConfiguration, with its default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import fields

from scheduler.config.tandem import TandemConfiguration, configuration_document
from tests.docs.pages import DOCS, section

TABLE = section((DOCS / "configuration.md").read_text(), "TandemConfiguration")
ROWS = dict(re.findall(r"^\| `([\w.]+)` \| [^|]+ \| `([^`]+)` \|", TABLE, re.MULTILINE))
EMPTY = ("{}", "[]")
"""Defaults that a rendered configuration leaves out."""


def settings(document: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Each setting by its path, with its value as the page writes it."""
    for name, value in document.items():
        if isinstance(value, dict) and value:
            yield from settings(value, f"{path}{name}.")
        elif isinstance(value, bool):
            yield f"{path}{name}", str(value).lower()
        else:
            yield f"{path}{name}", f"{value:,}" if isinstance(value, int) else str(value)


def test_the_table_has_every_setting_with_its_default() -> None:
    document = configuration_document(TandemConfiguration())
    names = {field.encode_name for field in fields(TandemConfiguration)}
    del document["apiVersion"], document["kind"]
    assert {name: default for name, default in ROWS.items() if default not in EMPTY} == dict(settings(document))
    assert names - {"apiVersion", "kind"} <= {name.partition(".")[0] for name in ROWS}
