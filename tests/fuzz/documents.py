"""Strategies of input for the doors: JSON of wrong types and depths, and good bytes with something done to them."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import strategies as st

SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["", "1", "-1", "1e99999", "9" * 5000, "\x00", "\ud7ff", "0x1", "NaN", "../..", "100m"]),
)

VALUES: Final[st.SearchStrategy[Any]] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=12), inner, max_size=4)),
    max_leaves=12,
)
"""Any JSON value."""

DEPTHS: Final = st.sampled_from([2, 100, 900, 1_100, 5_000, 30_000])


@st.composite
def deep(draw: st.DrawFn) -> bytes:
    """JSON text nested up to 30,000 deep: arrays or objects."""
    depth = draw(DEPTHS)
    opening, closing = draw(st.sampled_from([(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")]))
    return opening * depth + draw(st.sampled_from([b"1", b'"x"', b"null"])) + closing * depth


@st.composite
def with_field(draw: st.DrawFn, document: dict[str, Any]) -> bytes:
    """The document's JSON with one of its values, at any depth, replaced by any other or by one that is nested deep."""
    places = list(_places(document, ()))
    place = draw(st.sampled_from(places))
    mark = "@replaced@"
    text = json.dumps(_replaced(document, place, mark)).encode()
    value = draw(st.one_of(VALUES.map(lambda one: json.dumps(one).encode()), deep()))
    return text.replace(json.dumps(mark).encode(), value)


@st.composite
def mutated(draw: st.DrawFn, good: bytes) -> bytes:
    """The bytes with up to three pieces cut out, doubled, overwritten at random, or the end cut off."""
    data = good
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(data)))
        end = draw(st.integers(begin, min(len(data), begin + 40)))
        match draw(st.sampled_from(["cut", "double", "overwrite", "insert", "end"])):
            case "cut":
                data = data[:begin] + data[end:]
            case "double":
                data = data[:end] + data[begin:]
            case "overwrite":
                data = data[:begin] + draw(st.binary(min_size=end - begin, max_size=end - begin)) + data[end:]
            case "insert":
                data = data[:begin] + draw(st.binary(max_size=12)) + data[begin:]
            case _:
                data = data[:begin]
    return data


def _places(value: Any, path: tuple[str | int, ...]) -> Any:
    """The paths of all values inside this one, its own left out."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _replaced(value: Any, path: tuple[str | int, ...], by: Any) -> Any:
    if not path:
        return by
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _replaced(value[path[0]], path[1:], by)
    return copy
