"""Amounts of resources as people write them: ``2.5`` CPU, ``1.5Gi`` of memory."""

from __future__ import annotations

from typing import Final

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def amount_text(resource: str, amount: int) -> str:
    """``amount`` in the unit in which the scheduler counts the resource: millicores of cpu, bytes of memory, ephemeral
    storage and huge pages, pieces of everything else. At most three digits after the point."""
    if resource == "cpu":
        return _decimal(amount / 1000)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return _bytes(amount)
    return str(amount)


def _bytes(amount: int) -> str:
    value, unit = float(amount), 0
    while abs(value) >= 1024 and unit < len(_BINARY) - 1:
        value /= 1024
        unit += 1
    return f"{_decimal(value)}{_BINARY[unit]}"


def _decimal(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
