"""Regular expressions in selectors: RE2, which is inside the engine, with a limit on what one evaluation may spend.

The engine compiles a pattern each time that it is used, and a short pattern can stand for a long program, as
``(a|b){1,60}`` does.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from cel_expr_python import cel

MAX_REGEX_COST = 100_000
"""Maximum cost of all regular expressions of one evaluation: bytes of patterns, with repetitions written out, and of
texts. A microsecond of CPU each, measured with ``(a|aa){1,60}c``."""
UNICODE_CLASS_COST = 1_000
"""The cost of ``\\pL`` and its like, which stand for hundreds of ranges: 0.7 ms of CPU each, measured as above."""
OVER_LIMIT = "operation cancelled: actual cost limit exceeded"

MATCH = "text.matches(pattern)"
EXTRACT = 'regex.extract(text, pattern).orValue("")'
EXTRACT_ALL = "regex.extractAll(text, pattern)"

_EXTENSIONS = """
name: regular-expressions
extensions:
- name: optional
- name: regex
"""


class _Meter:
    """What the evaluation in hand has spent: it runs from start to end before another begins."""

    spent = 0


_meter = _Meter()


def start() -> None:
    """Reset what is spent, before each evaluation."""
    _meter.spent = 0


def find(text: str, pattern: str) -> str:
    return str(_run(EXTRACT, text, f"({_without_groups(pattern)})"))


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found: list[str] = _run(EXTRACT_ALL, text, f"({_without_groups(pattern)})")
    return found if limit < 0 else found[:limit]


def is_match(text: str, pattern: str) -> bool:
    return bool(_run(MATCH, text, pattern))


def _run(expression: str, text: str, pattern: str) -> Any:
    """Raises ValueError."""
    _meter.spent += len(text) + weight(pattern)
    if _meter.spent > MAX_REGEX_COST:
        raise ValueError(OVER_LIMIT)
    value = _program(expression).eval(data={"text": text, "pattern": pattern})
    if value.type() == cel.Type.ERROR:
        raise ValueError(str(value.value()))
    return value.plain_value()


_UNICODE_CLASS = re.compile(r"\\[pP]")
_REPEATED = re.compile(r"\{(\d{1,4})(?:,(\d{0,4}))?\}")


@lru_cache(maxsize=1024)
def weight(pattern: str) -> int:
    """An upper bound of the length of the pattern with its repetitions and Unicode classes written out."""
    longest = len(pattern) + UNICODE_CLASS_COST * len(_UNICODE_CLASS.findall(pattern))
    for least, most in _REPEATED.findall(pattern):
        longest *= max(int(least), int(most or 0), 1)
        if longest > MAX_REGEX_COST:
            return longest
    return longest


@lru_cache(maxsize=4)
def _program(expression: str) -> Any:
    types = cel.Type
    environment = cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_EXTENSIONS), variables={"text": types.STRING, "pattern": types.STRING}
    )
    return environment.compile(expression)


_GROUP = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[(?:\^?\]?(?:\\.|\[:[a-z^]+:\]|[^\]\\])*)\]|\((?:\?P?<[A-Za-z0-9_]+>|(?!\?))|.", re.DOTALL
)


def _without_groups(pattern: str) -> str:
    """The pattern with groups that capture nothing: the engine extracts by a group."""
    return _GROUP.sub(
        lambda match: "(?:" if match.group().startswith("(") and match.group() != "(?" else match.group(), pattern
    )
