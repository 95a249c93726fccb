from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects.timestamps import NANOS_IN_SECOND, format_micros, format_seconds, parse_time


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.000000002Z", NANOS_IN_SECOND + 2),
        ("1970-01-01T00:00:00.5Z", NANOS_IN_SECOND // 2),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T23:30:00-00:30", 0),
        ("1970-01-01T00:00:00.1234567899Z", 123_456_789),
        ("1972-06-30T23:59:60Z", 78_796_800 * NANOS_IN_SECOND),
    ],
)
def test_a_time_is_read_to_the_nanosecond(text: str, nanos: int) -> None:
    assert parse_time(text) == nanos


@pytest.mark.parametrize("text", ["", "now", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)


@given(st.integers(0, 4_000_000_000_000_000))
def test_a_time_survives_being_written_and_read(micros: int) -> None:
    nanos = micros * 1000
    assert parse_time(format_micros(nanos)) == nanos
    assert parse_time(format_seconds(nanos)) == nanos // NANOS_IN_SECOND * NANOS_IN_SECOND
    assert parse_time(format_seconds(nanos)) // NANOS_IN_SECOND == int(
        datetime.fromtimestamp(micros // 1_000_000, UTC).timestamp()
    )


def test_times_are_written_as_the_api_does() -> None:
    nanos = parse_time("2026-01-02T03:04:05.000006789Z")
    assert format_seconds(nanos) == "2026-01-02T03:04:05Z"
    assert format_micros(nanos) == "2026-01-02T03:04:05.000006Z"
