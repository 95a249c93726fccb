"""Checkpoints: what they refuse to write and to read."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.engine.recording.checkpoint import CheckpointError, Generation, pack, unpack
from scheduler.engine.recording.packed import encoded
from tests.engine.driver import Cluster
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
        unpack(encoded(pickle.dumps(evil), [], []), [], zero)


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
        unpack(encoded(data, [], []), [], zero)


def _text(text: str) -> bytes:
    return pickle.SHORT_BINUNICODE + bytes([len(text)]) + text.encode()


@pytest.mark.parametrize(
    "data", [b"", b"anything", encoded(b"", [], []), encoded(pickle.dumps({"an": "engine"}), [], [])]
)
def test_what_is_no_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        unpack(data, [], zero)


def test_profiles_that_are_not_stated_are_an_error_and_not_a_copy() -> None:
    engine = world().engine
    with pytest.raises(CheckpointError, match="belongs to no configuration"):
        pack(engine, [])
    state = pack(engine, [Generation(0, engine.profiles)])
    with pytest.raises(CheckpointError, match="the configuration has no"):
        unpack(bytes(state), [Generation(1, build_profiles(load()))], zero)


def test_bytes_that_are_made_later_are_of_the_engine_as_it_was() -> None:
    made = Cluster()
    made.nodes_like(3)
    for number in range(4):
        made.pod(f"p{number}")
    made.schedule()
    generations = [Generation(0, made.engine.profiles)]
    packed = pack(made.engine, generations)
    at_once = bytes(packed)
    made.settle()
    made.pod("later")
    made.remove_node("n0")
    assert bytes(packed) == at_once
    before = unpack(at_once, generations, zero)
    assert before.known_pods.get("default/p3") is not None
    assert before.known_pods.get("default/later") is None
    assert before.cache.table.node_count == 3
    assert len(before.queue.active_pods()) == 3


def test_what_is_one_object_in_the_engine_is_one_again() -> None:
    made = Cluster()
    made.nodes_like(1)
    made.pod("p", node="n0")
    generations = [Generation(0, made.engine.profiles)]
    copy = unpack(bytes(pack(made.engine, generations)), generations, zero)
    (placed,) = copy.cache.table.pods[0].values()
    assert placed is copy.known_pods.get("default/p")


@pytest.mark.parametrize(
    "parts",
    [
        ([("pods", b"")], []),
        ([("no kind", msgspec.msgpack.encode({}))], []),
        ([], []),
        ([("nodes", msgspec.msgpack.encode({}))], [(0, "n0")]),
    ],
    ids=["cut off", "unknown kind", "missing", "no pod"],
)
def test_objects_that_cannot_be_read_are_an_error(parts: tuple[list[Any], list[Any]]) -> None:
    call = "_info_at" if parts[1] else "_object_at"
    graph = pickle.PROTO + b"\x04" + _text("scheduler.engine.recording.checkpoint") + _text(call) + pickle.STACK_GLOBAL
    graph += pickle.BININT1 + b"\x00" + pickle.TUPLE1 + pickle.REDUCE + b"."
    with pytest.raises(CheckpointError, match="can't be read: "):
        unpack(msgspec.msgpack.encode([graph, *parts]), [], zero)
