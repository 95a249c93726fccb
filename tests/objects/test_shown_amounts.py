"""Amounts of resources as people read them."""

from __future__ import annotations

import pytest

from scheduler.objects.shown_amounts import shown_amount


@pytest.mark.parametrize(
    ("resource", "amount", "shown"),
    [
        ("cpu", 0, "0"),
        ("cpu", 500, "500m"),
        ("cpu", 2000, "2"),
        ("memory", 0, "0"),
        ("memory", 3 * 2**30, "3Gi"),
        ("memory", 3 * 2**29, "1536Mi"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("ephemeral-storage", 5 * 2**10, "5Ki"),
        ("memory", 10**9, "953.7Mi"),
        ("memory", 1_000_001, "1000001"),
        ("memory", 7, "7"),
        ("example.com/gpu", 2**30, str(2**30)),
    ],
)
def test_an_amount_has_the_largest_unit_in_which_it_is_whole_and_else_mebibytes_if_it_has_one(
    resource: str, amount: int, shown: str
) -> None:
    assert shown_amount(resource, amount) == shown
