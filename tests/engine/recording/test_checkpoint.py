"""Checkpoints: what they refuse to write and to read."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.engine.recording.checkpoint import CheckpointError, Generation, pack, unpack
from tests.simulation.runs import world


def zero() -> float:
    return 0.0


class Runs:
    """Pickle calls what this names."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self._reduced = (call, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced


@pytest.mark.parametrize(
    "evil",
    [Runs(os.system, "true"), Runs(eval, "1"), Runs(getattr, "a", "join"), Runs(__import__, "os"), Runs(open, "/x")],
    ids=["os.system", "eval", "getattr", "import", "open"],
)
def test_nothing_outside_of_the_core_is_called_by_reading_one(evil: Runs) -> None:
    with pytest.raises(CheckpointError, match="has no place in a checkpoint"):
        unpack(pickle.dumps(evil), [], zero)


@pytest.mark.parametrize("name", ["os.system", "pickle.loads", "sys.modules"])
def test_nor_what_a_module_of_the_core_imports(name: str) -> None:
    """A dotted name could reach through a module of the core into one outside."""
    data = (
        pickle.PROTO
        + b"\x04"
        + _text("scheduler.engine.recording.checkpoint")
        + _text(name)
        + pickle.STACK_GLOBAL
        + b"."
    )
    with pytest.raises(CheckpointError):
        unpack(data, [], zero)


def _text(text: str) -> bytes:
    return pickle.SHORT_BINUNICODE + bytes([len(text)]) + text.encode()


@pytest.mark.parametrize("data", [b"", b"anything", pickle.dumps({"an": "engine"})])
def test_what_is_no_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        unpack(data, [], zero)


def test_profiles_that_are_not_stated_are_an_error_and_not_a_copy() -> None:
    engine = world().engine
    with pytest.raises(CheckpointError, match="belongs to no configuration"):
        pack(engine, [])
    state = pack(engine, [Generation(0, engine.profiles)])
    with pytest.raises(CheckpointError, match="the configuration has no"):
        unpack(state, [Generation(1, build_profiles(load()))], zero)
