"""Text for a terminal: what others wrote must not steer it.

An answer holds texts of users, such as a device selector's expression, and of extenders. kubectl escapes them likewise.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All control characters but tab and line feed."""
_MAY_HAVE_CONTROL: Final = re.compile(rb"\\u00[0189]|\\u007|\\[bfr]|\x7f|\xc2[\x80-\x9f]", re.IGNORECASE)
"""In JSON; most answers have none of these, and need no second look."""


def printable(text: str) -> str:
    """The text with its control characters, but tab and line feed, as escapes."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def printable_page(body: bytes) -> dict[str, Any]:
    """A page in JSON, all of its texts printable. Raises msgspec.DecodeError and RecursionError."""
    page = msgspec.json.decode(body, type=dict[str, Any])
    if _MAY_HAVE_CONTROL.search(body) is None:
        return page
    cleaned: dict[str, Any] = _cleaned(page)
    return cleaned


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    if isinstance(value, dict):
        return {printable(key): _cleaned(one) for key, one in value.items()}
    return value
