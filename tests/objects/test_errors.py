from __future__ import annotations

import pickle

import pytest

from scheduler.errors import (
    ApiError,
    ConfigurationError,
    Fault,
    InvalidObject,
    InvariantViolation,
    PluginError,
    SchedulerError,
)


def test_all_faults_of_a_configuration_are_shown_at_once() -> None:
    two = ConfigurationError([Fault("profiles[0].schedulerName", "Required value"), Fault("", "no profiles")])
    assert str(two) == "[profiles[0].schedulerName: Required value, no profiles]"
    assert str(ConfigurationError([Fault("a", "b")])) == "a: b"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, {"transient"}),
        (401, {"forbidden"}),
        (403, {"forbidden"}),
        (404, {"not_found"}),
        (409, {"conflict"}),
        (410, {"gone"}),
        (422, set()),
        (429, {"too_many_requests", "transient"}),
        (500, {"transient"}),
        (504, {"transient"}),
    ],
)
def test_an_answer_of_the_api_server_is_known_by_its_status(status: int, words: set[str]) -> None:
    error = ApiError(status, "Reason", "text")
    known = {"conflict", "not_found", "forbidden", "gone", "too_many_requests", "transient"}
    assert {word for word in known if getattr(error, f"is_{word}")} == words


def test_an_error_always_says_something() -> None:
    assert str(ApiError(500, "", "")) == "HTTP status 500"
    assert str(ApiError(500, "InternalError", "")) == "InternalError"
    assert str(InvalidObject("Pod", "", "no name")) == "Pod (without a name) can't be read: no name"
    assert str(PluginError("Mine", "Filter", KeyError("x"))) == "plugin Mine failed in Filter: KeyError: 'x'"


def test_every_error_is_a_scheduler_error_and_can_be_copied() -> None:
    errors = [
        ConfigurationError([Fault("a", "b")]),
        InvalidObject("Pod", "a/b", "c"),
        ApiError(409, "Conflict", "taken"),
        PluginError("Mine", "Filter", ValueError("x")),
        InvariantViolation("x"),
    ]
    for error in errors:
        assert isinstance(error, SchedulerError)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
