"""Converts between the API's RFC 3339 times and nanoseconds since 1970 in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

NANOS_IN_SECOND = 1_000_000_000

_TEXT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def parse_time(text: str) -> int:
    """Nanoseconds since the epoch; further digits are truncated. Raises `ValueError`."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time in RFC 3339 form")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, hours, minutes = match.groups()[6:]
    # datetime has no leap seconds: one is counted as the following second.
    moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC) - _EPOCH
    seconds = moment.days * 86_400 + moment.seconds + (1 if second == 60 else 0)
    if sign:
        offset = int(hours) * 3600 + int(minutes) * 60
        seconds += offset if sign == "-" else -offset
    return seconds * NANOS_IN_SECOND + int((fraction or "0")[:9].ljust(9, "0"))


def format_seconds(nanos: int) -> str:
    """The format of `creationTimestamp`, `2026-01-02T03:04:05Z`; fractions of a second are truncated."""
    return f"{_second(nanos // NANOS_IN_SECOND)}Z"


def format_micros(nanos: int) -> str:
    """The format of a Lease's `renewTime`: `2026-01-02T03:04:05.000006Z`."""
    micros = nanos % NANOS_IN_SECOND // 1000
    return f"{_second(nanos // NANOS_IN_SECOND)}.{micros:06d}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    """Present times are asked for thousands of times a second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
