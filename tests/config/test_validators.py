"""Checks that several settings share."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.config import validators


class Weight(msgspec.Struct, frozen=True):
    name: str
    weight: int


class Corner(msgspec.Struct, frozen=True):
    utilization: int
    score: int


@pytest.mark.parametrize("name", ["cpu", "example.com/gpu", "A-b_c.d", "x" * 63, "a.b-c/1"])
def test_qualified_names_are_accepted(name: str) -> None:
    assert validators.qualified_name_errors(name) == ()


NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("", ["name part must be non-empty", f"name part {NAME_RULE}"]),
        ("-a", [f"name part {NAME_RULE}"]),
        ("a\n", [f"name part {NAME_RULE}"]),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        ("/a", ["prefix part must be non-empty"]),
        (
            "a/b/c",
            [f"a qualified name {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
        ),
    ],
)
def test_names_that_are_not_qualified_are_refused(name: str, errors: list[str]) -> None:
    assert list(validators.qualified_name_errors(name)) == errors


def test_an_upper_case_prefix_is_refused() -> None:
    (error,) = validators.qualified_name_errors("Example.com/a")
    assert error.startswith("prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric")


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("example.com/gpu", True),
        ("cpu", False),
        ("kubernetes.io/x", False),
        ("foo.kubernetes.io/x", False),
        ("requests.example.com/x", False),
        (f"example.com/{'x' * 63}", True),
        (f"{'x' * 249}/a", False),
    ],
)
def test_extended_resources_are_distinguished_from_native_ones(name: str, extended: bool) -> None:
    assert validators.is_extended_resource_name(name) is extended


def test_weights_must_lie_above_0_and_up_to_100() -> None:
    resources = [Weight("cpu", 0), Weight("memory", 100), Weight("gpu", 101)]
    assert [str(fault) for fault in validators.resource_weights("r", resources)] == [
        "r[0].weight: Invalid value: 0: resource weight of cpu not in valid range (0, 100]",
        "r[2].weight: Invalid value: 101: resource weight of gpu not in valid range (0, 100]",
    ]


def test_a_shape_rises_and_stays_in_range() -> None:
    assert validators.shape("s", [Corner(0, 10), Corner(100, 0)]) == ()
    assert [str(fault) for fault in validators.shape("s", [])] == [
        "s: Required value: at least one point must be specified"
    ]
    assert [str(fault) for fault in validators.shape("s", [Corner(50, 11), Corner(50, 0), Corner(101, -1)])] == [
        "s[1].utilization: Invalid value: 50: values must be sorted in increasing order",
        "s[0].score: Invalid value: 11: not in valid range [0-10]",
        "s[2].utilization: Invalid value: 101: not in valid range [0-100]",
        "s[2].score: Invalid value: -1: not in valid range [0-10]",
    ]


def test_a_name_that_comes_twice_is_found() -> None:
    assert [str(fault) for fault in validators.distinct("r", ["a", "b", "a"], "name")] == [
        'r[2].name: Duplicate value: "a"'
    ]
