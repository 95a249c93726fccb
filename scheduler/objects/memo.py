"""A memo of a function's results that is bounded in bytes, since it keeps none of long arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Final, ParamSpec, TypeVar

MAX_CHARACTERS: Final = 320
"""The longest qualified name: a subdomain of 253, a slash and a name of 63."""

MAX_PARTS: Final = 64
"""Labels, requirements, terms or resources. What people write has fewer; a thousand of each make some 100 KB, which a
tenant could otherwise leave behind thousands of times."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def memo(
    number: int, is_long: Callable[..., bool]
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorates a pure function of hashable arguments: its ``number`` latest results are kept, but none for arguments
    that ``is_long`` says are; those are computed each time."""

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        known: Any = lru_cache(maxsize=number)(function)

        @wraps(function)
        def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            if is_long(*args, **kwargs):
                return function(*args, **kwargs)
            found: Result = known(*args, **kwargs)
            return found

        return call

    return decorate


def is_long_text(text: str) -> bool:
    return len(text) > MAX_CHARACTERS


def has_many_parts(parts: Any) -> bool:
    """Whether a tuple, a set or anything else with a length has many parts."""
    return len(parts) > MAX_PARTS
