"""The frame itself: a fault is found, and the input of a failing round is the same again."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st

from tests.fuzz.documents import mutated, with_field
from tests.fuzz.frame import FIRST_SEED, fuzz


def test_a_fault_is_found_and_the_round_that_found_it_is_named() -> None:
    @fuzz(number=st.integers(0, 1_000_000))
    def finds(number: int) -> None:
        assert number < 1_000

    with pytest.raises(AssertionError) as raised:
        finds()
    assert raised.value.__notes__[-1] == f"FUZZ_SEED={FIRST_SEED} repeats this round"


def test_a_round_is_the_same_again() -> None:
    seen: list[list[bytes]] = []
    for _ in range(2):
        seen.append([])

        @fuzz(data=mutated(b'{"a": [1, 2, 3]}'))
        def notes(data: bytes) -> None:
            seen[-1].append(data)

        notes()
    # With FUZZ_SECONDS the number of rounds is a matter of time; the rounds are the same.
    both = min(map(len, seen))
    assert seen[0][:both] == seen[1][:both]
    assert len(set(seen[0][:both])) > 10


@fuzz(data=with_field({"a": {"b": ["c", 1]}}), examples=20)
def test_one_field_is_replaced_and_the_rest_stays(data: bytes) -> None:
    assert data.startswith(b'{"a": ')
    assert len(data) < 10_000 or data.count(b"[") + data.count(b"{") > 4_000 or json.loads(data)
