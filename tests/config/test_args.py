"""Plugin args."""

from __future__ import annotations

import enum
from typing import Annotated, Literal

import msgspec
import pytest

from scheduler.config.args import args_path, decode_args
from scheduler.config.durations import SECOND, Duration


class Strategy(enum.Enum):
    LEAST = "LeastAllocated"
    MOST = "MostAllocated"


class Weight(msgspec.Struct, frozen=True):
    name: str
    weight: int = 1


class Args(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    bind_timeout: Duration = Duration(7)
    hard_weight: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 1
    defaulting_type: Literal["System", "List"] = "System"
    strategy: Strategy = Strategy.LEAST
    resources: tuple[Weight, ...] = ()
    labels: dict[str, str] = {}
    note: str | None = None


PATH = args_path(0, 2)


@pytest.mark.parametrize("raw", [None, {}, {"kind": "FooArgs"}, {"hardWeight": None}])
def test_absent_args_are_the_defaults(raw: dict[str, object] | None) -> None:
    assert decode_args(Args, raw, PATH, "Foo") == (Args(), ())


def test_args_are_decoded_from_their_camel_case_names() -> None:
    raw = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "FooArgs",
        "bindTimeout": "1m30s",
        "hardWeight": 5,
        "defaultingType": "List",
        "strategy": "MostAllocated",
        "resources": [{"name": "cpu", "weight": 3}, {"name": "memory"}],
        "labels": {"a": "b"},
        "note": "n",
    }
    args, faults = decode_args(Args, raw, PATH, "Foo")
    assert faults == ()
    assert args == Args(
        bind_timeout=Duration(90 * SECOND),
        hard_weight=5,
        defaulting_type="List",
        strategy=Strategy.MOST,
        resources=(Weight("cpu", 3), Weight("memory", 1)),
        labels={"a": "b"},
        note="n",
    )


def test_all_faults_of_args_are_found_at_once() -> None:
    raw = {
        "bindTimeout": 5,
        "hardWeight": 2**40,
        "defaultingType": "list",
        "strategy": "Best",
        "resources": [{"weight": "1"}, {"name": "cpu", "wieght": 1}],
        "labels": {"a": 1},
        "note": 3,
        "other": 1,
    }
    args, faults = decode_args(Args, raw, PATH, "Foo")
    assert args is None
    at = "profiles[0].pluginConfig[2].args"
    assert [str(fault) for fault in faults] == [
        "decoding .profiles[0].pluginConfig[2]: decoding args for plugin Foo: "
        'strict decoding error: unknown field "resources[1].wieght" (did you mean "weight"?), unknown field "other"',
        f'{at}.bindTimeout: Invalid value: 5: expected a duration such as "1m30s", got an integer',
        f"{at}.hardWeight: Invalid value: 1099511627776: must be between -2147483648 and 2147483647",
        f'{at}.defaultingType: Unsupported value: "list": supported values: "List", "System"',
        f'{at}.strategy: Unsupported value: "Best": supported values: "LeastAllocated", "MostAllocated"',
        f'{at}.resources[0].weight: Invalid value: "1": expected an integer, got a string',
        f"{at}.resources[0].name: Required value",
        f"{at}.labels.a: Invalid value: 1: expected a string, got an integer",
        f"{at}.note: Invalid value: 3: expected a string, got an integer",
    ]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (
            {"kind": "BarArgs"},
            "args for plugin Foo were not of type FooArgs.kubescheduler.config.k8s.io, "
            "got BarArgs.kubescheduler.config.k8s.io",
        ),
        (
            {"apiVersion": "example.com/v1", "kind": "FooArgs"},
            "args for plugin Foo were not of type FooArgs.kubescheduler.config.k8s.io, got FooArgs.example.com",
        ),
        (
            {"apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
            'decoding args for plugin Foo: no kind "FooArgs" is registered for version '
            '"kubescheduler.config.k8s.io/v1beta3"',
        ),
    ],
)
def test_args_of_another_type_are_refused(raw: dict[str, object], text: str) -> None:
    args, faults = decode_args(Args, raw, PATH, "Foo")
    assert args is None
    assert [str(fault) for fault in faults] == [f"decoding .profiles[0].pluginConfig[2]: {text}"]


class Pair(msgspec.Struct, frozen=True):
    low: float = 0.0
    high: float | str = 1.0
    on: bool = False
    data: bytes = b""
    tags: frozenset[str] = frozenset()
    counts: list[int] = []

    def __post_init__(self) -> None:
        if isinstance(self.high, float) and self.low > self.high:
            raise ValueError("low must not exceed high")


def test_args_may_check_themselves() -> None:
    args, faults = decode_args(Pair, {"low": 2}, PATH, "Foo")
    assert args is None
    assert [str(fault) for fault in faults] == ["profiles[0].pluginConfig[2].args: low must not exceed high"]


def test_other_types_of_fields_are_decoded_as_strictly() -> None:
    raw = {"low": 1, "high": "top", "on": True, "data": "aGk=", "tags": ["a"], "counts": [1, 2]}
    assert decode_args(Pair, raw, PATH, "Foo") == (Pair(1.0, "top", True, b"hi", frozenset({"a"}), [1, 2]), ())
    wrong = {"low": True, "high": [], "on": 1, "data": 5, "tags": "a", "counts": [1, "2"]}
    args, faults = decode_args(Pair, wrong, PATH, "Foo")
    assert args is None
    at = "profiles[0].pluginConfig[2].args"
    assert [str(fault) for fault in faults] == [
        f"{at}.low: Invalid value: true: expected a number, got a boolean",
        f"{at}.high: Invalid value: []: expected another type, got a list",
        f"{at}.on: Invalid value: 1: expected a boolean, got an integer",
        f"{at}.data: Invalid value: 5: expected base64 text, got an integer",
        f'{at}.tags: Invalid value: "a": expected a list, got a string',
        f'{at}.counts[1]: Invalid value: "2": expected an integer, got a string',
    ]
