"""Go's duration strings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config.durations import SECOND, Duration, format_duration, parse_duration

FORMS = [
    ("0s", 0),
    ("15s", 15_000_000_000),
    ("1m30s", 90_000_000_000),
    ("15m0s", 900_000_000_000),
    ("1h0m0s", 3_600_000_000_000),
    ("1h0m0.25s", 3_600_250_000_000),
    ("1.5ms", 1_500_000),
    ("1.001µs", 1_001),
    ("7ns", 7),
    ("-2m0s", -120_000_000_000),
    ("2562047h47m16.854775807s", 2**63 - 1),
]


@pytest.mark.parametrize(("text", "nanoseconds"), FORMS)
def test_the_form_that_go_writes_is_read_and_written(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds
    assert format_duration(nanoseconds) == text


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("0", 0), ("-0", 0), ("90s", 90_000_000_000), (".5s", 500_000_000), ("1.s", 1_000_000_000), ("+1us", 1_000),
     ("1s1s", 2_000_000_000), ("3μs", 3_000)],
)  # fmt: skip
def test_other_forms_that_go_reads_are_read(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("soon", 'time: invalid duration "soon"'),
        (".s", 'time: invalid duration ".s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("1m5", 'time: missing unit in duration "1m5"'),
        ("5d", 'time: unknown unit "d" in duration "5d"'),
        ("1 s", 'time: unknown unit " s" in duration "1 s"'),
        ("2562048h", 'time: invalid duration "2562048h"'),
    ],
)
def test_what_go_does_not_read_is_refused_in_its_words(text: str, error: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert str(caught.value) == error


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_every_duration_reads_back_as_itself(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


def test_a_duration_tells_its_seconds() -> None:
    assert Duration(1_500_000_000).seconds == 1.5
    assert str(Duration(90 * SECOND)) == "1m30s"
