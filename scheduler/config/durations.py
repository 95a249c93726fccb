"""Durations as Kubernetes writes them: Go's duration strings, such as ``1m30s`` or ``15m0s``."""

from __future__ import annotations

import re
from typing import Final

NANOSECOND: Final = 1
MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

_UNITS: Final = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "µs": MICROSECOND,  # micro sign
    "μs": MICROSECOND,  # Greek mu
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_LARGEST: Final = 2**63 - 1
_TERM: Final = re.compile(r"([0-9]*)(\.?)([0-9]*)([^0-9.]*)")


class Duration(int):
    """A length of time in nanoseconds, exact; within Go's int64. ``str`` gives Go's form."""

    __slots__ = ()

    @property
    def seconds(self) -> float:
        """The same in seconds, for clocks and timers."""
        return self / SECOND

    def __str__(self) -> str:
        return format_duration(self)

    def __repr__(self) -> str:
        return f"Duration({format_duration(self)!r})"


def parse_duration(text: str) -> Duration:
    """The duration that Go's ``time.ParseDuration`` reads from ``text``.

    Raises ValueError with Go's text: ``time: invalid duration "x"``, ``time: missing unit in duration "5"`` or
    ``time: unknown unit "d" in duration "5d"``.
    """
    rest = text
    negative = rest.startswith("-")
    if rest[:1] in ("-", "+"):
        rest = rest[1:]
    if rest == "0":
        return Duration(0)
    if not rest:
        raise ValueError(f'time: invalid duration "{text}"')
    total = 0
    while rest:
        term = _TERM.match(rest)
        if term is None or not (term[1] or term[3]):
            raise ValueError(f'time: invalid duration "{text}"')
        whole, fraction, unit_name = term[1], term[3], term[4]
        if not unit_name:
            raise ValueError(f'time: missing unit in duration "{text}"')
        unit = _UNITS.get(unit_name)
        if unit is None:
            raise ValueError(f'time: unknown unit "{unit_name}" in duration "{text}"')
        total += int(whole or "0") * unit
        if fraction:
            total += int(fraction) * unit // 10 ** len(fraction)
        rest = rest[term.end() :]
    # Go's int64 reaches one further down than up.
    if total > _LARGEST + negative:
        raise ValueError(f'time: invalid duration "{text}"')
    return Duration(-total if negative else total)


def format_duration(nanoseconds: int) -> str:
    """Go's form of a duration: ``0s``, ``1.5ms``, ``15m0s``, ``1h0m0.25s``."""
    if nanoseconds == 0:
        return "0s"
    sign = "-" if nanoseconds < 0 else ""
    size = abs(nanoseconds)
    if size < SECOND:
        if size < MICROSECOND:
            return f"{sign}{size}ns"
        unit, name = (MICROSECOND, "µs") if size < MILLISECOND else (MILLISECOND, "ms")
        return f"{sign}{_decimal(size, unit)}{name}"
    hours, below_hour = divmod(size, HOUR)
    minutes, below_minute = divmod(below_hour, MINUTE)
    seconds = f"{_decimal(below_minute, SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(amount: int, unit: int) -> str:
    whole, below = divmod(amount, unit)
    digits = str(below).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
