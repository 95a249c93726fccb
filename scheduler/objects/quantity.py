"""Exact resource quantities: `500m`, `1Gi`, `1.5e3`, as integers in nano-units.

A parsed quantity is a plain `int` that counts nano-units, so sums, maxima and comparisons are exact and quick; it is
rounded once, on conversion to a whole number (docs/kube-scheduler/plugins.md §2.1).
"""

from __future__ import annotations

import re
from functools import lru_cache

from scheduler.errors import SchedulerError

Quantities = dict[str, str | int | float]
"""Resource name -> quantity as written. JSON may hold plain numbers too."""

NANO = 1_000_000_000
"""Nano-units in one unit."""

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)

_TURN = 2**64
_NANO_IN_MILLI = 1_000_000
_DECIMAL_EXPONENT = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SHIFT = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Beyond this power of ten every result overflows anyway; the bound keeps "1e999999999" from filling the memory.
_LARGEST_EXPONENT = 64
_MAX_DIGITS = 1000
_KEPT_DIGITS = 18
_LARGEST_MILLI = MAX_INT64 * _NANO_IN_MILLI
_UNCHECKED_POWERS = frozenset((0, 1, 2, 3, 6, 9))
_TEXT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?[0-9]+))", re.ASCII)


class Beyond(int):
    """A quantity of more than 64 bits in the units of ``empty``, which reads as 0 there, as in kube-scheduler 1.36.

    That goes by how it is written: kube-scheduler keeps up to 18 digits as they are, with a power of ten, and gives up
    where that does not fit; of other numbers, and of sums, it takes the last 64 bits.
    """

    empty: frozenset[int]

    def __add__(self, other: int, /) -> int:
        return int.__add__(self, other) if other else self

    __radd__ = __add__


class InvalidQuantity(SchedulerError, ValueError):
    """The text is not a quantity."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)

    def __str__(self) -> str:
        return f"{self.text!r} is not a quantity: it must be a number with one of the suffixes of Kubernetes"


@lru_cache(maxsize=16_384)
def parse(text: str | int | float) -> int:
    """The quantity in nano-units; finer fractions are rounded away from zero. Raises `InvalidQuantity`.

    As in kube-scheduler 1.36, digits may be missing (`.5`, `1.`, and even `Ki`, which is 0), and a quantity with a
    binary suffix is capped at 2^63 - 1 units.
    """
    if not isinstance(text, str):
        text = repr(text)
    match = _TEXT.fullmatch(text)
    if match is None or not text or len(text) > _MAX_DIGITS:
        raise InvalidQuantity(text)
    sign, whole, fraction, binary, decimal, written_exponent = match.groups()
    fraction = fraction or ""
    digits = int(whole + fraction or "0")
    if binary:
        amount = _scaled(digits << _BINARY_SHIFT[binary], -len(fraction))
        amount = min(amount, MAX_INT64 * NANO)
    else:
        exponent = int(written_exponent) if written_exponent else _DECIMAL_EXPONENT[decimal or ""]
        scale, is_short = exponent - len(fraction), len((whole.lstrip("0") or "0") + fraction) <= _KEPT_DIGITS
        exponent = max(-_MAX_DIGITS, min(exponent, _LARGEST_EXPONENT + len(fraction)))
        amount = _scaled(digits, exponent - len(fraction))
        if amount > _LARGEST_MILLI and is_short:
            return _beyond(-amount if sign == "-" else amount, scale)
    return -amount if sign == "-" else amount


def _beyond(amount: int, scale: int) -> int:
    """``scale``: the power of ten that the digits as written stand for."""
    units = ((NANO, scale), (_NANO_IN_MILLI, scale + 3))
    # By these powers kube-scheduler multiplies without a look at the result.
    empty = frozenset(unit for unit, exponent in units if exponent not in _UNCHECKED_POWERS)
    if not empty:
        return amount
    found = Beyond(amount)
    found.empty = empty
    return found


def _scaled(digits: int, exponent: int) -> int:
    """digits x 10^exponent in nano-units, rounded up."""
    exponent += 9
    if exponent >= 0:
        return int(digits * 10**exponent)
    return -(-digits // int(10**-exponent))


def value(nanos: int) -> int:
    """Whole units, rounded away from zero; of more than 64 bits what kube-scheduler 1.36 makes of it."""
    units = -(-nanos // NANO) if nanos >= 0 else nanos // NANO
    return units if MIN_INT64 <= units <= MAX_INT64 else _cut(nanos, units, NANO)


def milli_value(nanos: int) -> int:
    """Thousandths, rounded away from zero; of more than 64 bits what kube-scheduler 1.36 makes of it."""
    milli = -(-nanos // _NANO_IN_MILLI) if nanos >= 0 else nanos // _NANO_IN_MILLI
    return milli if MIN_INT64 <= milli <= MAX_INT64 else _cut(nanos, milli, _NANO_IN_MILLI)


def _cut(nanos: int, amount: int, unit: int) -> int:
    return 0 if isinstance(nanos, Beyond) and unit in nanos.empty else in_int64(amount)


def in_int64(number: int) -> int:
    """What 64-bit arithmetic makes of a number: beyond its largest one it begins again at the other end, as in
    kube-scheduler 1.36."""
    if MIN_INT64 <= number <= MAX_INT64:
        return number
    return (number - MIN_INT64) % _TURN + MIN_INT64
