from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects.quantity import NANO, InvalidQuantity, milli_value, parse, value

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("1", NANO),
        ("+1", NANO),
        ("-1", -NANO),
        ("100m", NANO // 10),
        ("1k", 1000 * NANO),
        ("1Ki", 1024 * NANO),
        ("1e3", 1000 * NANO),
        ("1E3", 1000 * NANO),
        ("1e-3", NANO // 1000),
        ("1E", 10**18 * NANO),
        ("1.5Gi", 3 * 2**29 * NANO),
        ("0.5", NANO // 2),
        (".5", NANO // 2),
        ("5.", 5 * NANO),
        ("007", 7 * NANO),
        ("1n", 1),
        ("0.1n", 1),
        ("-0.1n", -1),
        ("1.0000000001", NANO + 1),
        ("Ki", 0),
        (3, 3 * NANO),
        (2.5, 5 * NANO // 2),
    ],
)
def test_a_quantity_is_read_exactly(text: str | float, nanos: int) -> None:
    assert parse(text) == nanos


@pytest.mark.parametrize(
    "text",
    ["", " ", "1 ", " 1", "1.1.1", "1ki", "1KI", "1i", "1mi", "0.1am", "--1", "1e", "1e+", "1Kie3", "abc", "1_0", "١"],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuantity):
        parse(text)


@given(
    st.sampled_from(["", "-", "+"]),
    st.from_regex(r"[0-9]{1,25}", fullmatch=True),
    st.from_regex(r"(\.[0-9]{0,25})?", fullmatch=True),
    st.sampled_from(sorted(DECIMAL)) | st.sampled_from(sorted(BINARY)) | st.integers(-12, 12),
)
def test_a_quantity_equals_its_fraction_rounded_away_from_zero(
    sign: str, whole: str, fraction: str, suffix: str | int
) -> None:
    if isinstance(suffix, int):
        text, factor = f"{whole}{fraction}e{suffix}", Fraction(10) ** suffix
    elif suffix in BINARY:
        text, factor = f"{whole}{fraction}{suffix}", Fraction(2) ** BINARY[suffix]
    else:
        text, factor = f"{whole}{fraction}{suffix}", Fraction(10) ** DECIMAL[suffix]
    exact = ceil(Fraction(Decimal(whole + fraction)) * factor * NANO)
    if suffix in BINARY:
        exact = min(exact, (2**63 - 1) * NANO)
    assert parse(sign + text) == (-exact if sign == "-" else exact)


@given(st.integers(-(10**30), 10**30))
def test_whole_numbers_are_rounded_away_from_zero_and_of_a_sum_the_last_64_bits_count(nanos: int) -> None:
    for read, unit in ((value, NANO), (milli_value, NANO // 1000)):
        rounded = ceil(Fraction(abs(nanos), unit)) * (-1 if nanos < 0 else 1)
        found = read(nanos)
        assert -(2**63) <= found < 2**63 and (found - rounded) % 2**64 == 0


@pytest.mark.parametrize(
    ("texts", "units", "milli"),
    [
        ("1e30", 0, 0),
        ("10E", 0, 0),
        ("9E", 9 * 10**18, 0),
        ("1E", 10**18, 0),
        ("10000000000T", 0, 0),
        ("99999999999999G", 200376419520689664, 0),
        ("999999999999999G", 2003764204206896640, 0),
        ("9223372036854775807", 2**63 - 1, -1000),
        ("9223372036854775808", -(2**63), 0),
        ("18446744073709551617", 1, 1000),
        ("26447447375973529", 26447447375973529, 8000703302263977384),
        ("12917366625729731698G", -1468430036355386368, 7309489541377761280),
        ("9223372036854775.807", 9223372036854776, 2**63 - 1),
        ("9223372036854775.8071", 9223372036854776, -(2**63)),
        ("8Ei", 2**63 - 1, -1000),
        ("16Ei", 2**63 - 1, -1000),
        ("1e30 1", 5076944270305263617, 4089650035136922600),
        ("16Ei 1", -(2**63), 0),
        ("0 10E", 0, 0),
        ("10E 0", 0, 0),
    ],
)
def test_of_more_than_64_bits_the_same_is_left_as_in_kube_scheduler(texts: str, units: int, milli: int) -> None:
    """``Value`` and ``MilliValue`` of k8s.io/apimachinery v0.36.3 for these quantities, or for their sum."""
    total = sum(map(parse, texts.split()))
    assert (value(total), milli_value(total)) == (units, milli)


def test_half_a_milli_of_a_cpu_counts_as_one_and_a_tenth_of_a_byte_as_a_byte() -> None:
    assert milli_value(parse("0.5m")) == 1
    assert value(parse("100m")) == 1
    assert milli_value(parse("1500u")) == 2


def test_an_absurd_exponent_is_read_at_once() -> None:
    assert value(parse("1e999999999")) == 0
    assert parse("1e-999999999") == 1
    assert parse("0e999999999") == 0


def test_a_binary_quantity_stops_at_the_largest_64_bit_number() -> None:
    assert value(parse("16Ei")) == 2**63 - 1
    assert value(parse("10E")) == 0
