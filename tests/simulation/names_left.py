"""Where an engine still names what is gone: every object that it holds, walked from part to part."""

from __future__ import annotations

import gc
import re
from collections import Counter, deque
from collections.abc import Iterator
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final

import msgspec
import numpy as np

_NO_PARTS: Final = (type, ModuleType, CodeType, FunctionType, BuiltinFunctionType, Enum, int, float, type(None))


def names_left(root: object, pattern: str, depth: int = 3) -> Counter[str]:
    """Place, such as ``cache.volumes._index`` with a ``depth`` of three attributes → how many strings there match."""
    wanted, found = re.compile(pattern), Counter[str]()
    seen: dict[int, object] = {}
    left: deque[tuple[tuple[str, ...], object]] = deque([((), root)])
    while left:
        place, one = left.popleft()
        if isinstance(one, str | bytes):
            text = one if isinstance(one, str) else one.decode(errors="replace")
            found[".".join(place[:depth])] += wanted.search(text) is not None
        elif not isinstance(one, _NO_PARTS) and id(one) not in seen:
            seen[id(one)] = one
            left.extend(((*place, name) if name else place, part) for name, part in _parts(one))
    return +found


def _parts(one: Any) -> Iterator[tuple[str, object]]:
    """With its attribute's name, "" for what is found by another way."""
    names = dict.fromkeys(getattr(one, "__dict__", ()))
    for each in type(one).__mro__:
        slots = each.__dict__.get("__slots__", ())
        names.update(dict.fromkeys((slots,) if isinstance(slots, str) else slots))
    if isinstance(one, msgspec.Struct):
        names.update(dict.fromkeys(one.__struct_fields__))
    for name in names:
        if name != "__weakref__" and (part := getattr(one, name, None)) is not None:
            yield name, part
    if isinstance(one, np.ndarray):
        yield "", one.tolist() if one.dtype.hasobject else None
    elif isinstance(one, dict):
        yield from (("", part) for pair in dict.items(one) for part in pair)
    elif isinstance(one, tuple | list | set | frozenset | deque):
        yield from (("", part) for part in one)
    else:
        yield from (("", part) for part in gc.get_referents(one))
