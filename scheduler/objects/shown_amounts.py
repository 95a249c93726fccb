"""Amounts of resources as people write them."""

from __future__ import annotations

from typing import Final

CPU: Final = "cpu"
_BYTES: Final = ("memory", "ephemeral-storage")


def shown_amount(resource: str, amount: int) -> str:
    """An amount in the units of ``ResourceVector`` as a quantity: ``500m``, ``2``, ``3Gi``, ``1536Mi``."""
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource in _BYTES or resource.startswith("hugepages-"):
        for suffix, shift in (("Gi", 30), ("Mi", 20), ("Ki", 10)):
            if amount and amount % (1 << shift) == 0:
                return f"{amount >> shift}{suffix}"
        if amount >= 1 << 20:
            return f"{amount / (1 << 20):.1f}Mi"
    return str(amount)
