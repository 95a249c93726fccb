"""Lines of a watch: how chunks of a body become lines, and how many of them are read in one step."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.controller.watch.lines import PART_BYTES, Lines, parts_of
from scheduler.controller.watch.reflector import Reflector
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.http_exchange import Answer
from scheduler.errors import ApiError
from scheduler.messages.stimuli import ObjectObserved, Stimulus
from scheduler.objects.kinds import Kind
from scheduler.testing.documents import pod_json
from tests.limits import WAIT_SECONDS


@given(st.lists(st.binary(max_size=40).map(lambda text: text.replace(b"\n", b"") + b"\n")), st.integers(1, 60))
def test_parts_are_whole_lines_in_order_of_limited_length(lines: list[bytes], part_bytes: int) -> None:
    data = b"".join(lines)
    parts = list(parts_of(data, part_bytes))
    assert b"".join(parts) == data
    for part in parts:
        assert part.endswith(b"\n")
        assert len(part) <= part_bytes or part.count(b"\n") == 1


def test_a_compressed_watch_is_an_error_that_says_so_at_once() -> None:
    chunk = gzip.compress(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}\n')
    with pytest.raises(ApiError, match="it is compressed, though it was asked for uncompressed"):
        Lines().whole(chunk[:12])


class Burst(ApiClient):
    """A list without objects, and a watch that sends everything at once."""

    def __init__(self, chunk: bytes) -> None:
        self._chunk = chunk

    async def request(self, method: str, path: str, **options: Any) -> Answer:
        return Answer(200, msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": []}))

    @asynccontextmanager
    async def stream(self, path: str, *, query: Mapping[str, str], idle_seconds: float) -> AsyncIterator[Any]:
        yield Body(self._chunk)


class Body:
    """One chunk, and then nothing more."""

    def __init__(self, chunk: bytes) -> None:
        self._chunks = [chunk]

    async def read(self) -> bytes:
        if not self._chunks:
            await asyncio.Event().wait()
        return self._chunks.pop()


class Intake:
    def __init__(self) -> None:
        self.names: list[str] = []

    def put_all(self, stimuli: Sequence[Stimulus], /) -> None:
        self.names += [one.object.name for one in stimuli if isinstance(one, ObjectObserved)]

    async def room(self) -> None: ...


async def test_a_burst_of_a_watch_is_read_in_steps_between_which_others_have_their_turn() -> None:
    names = [f"p{number}" for number in range(400)]
    documents = [pod_json(name, labels={"text": "x" * 1000}) for name in names]
    chunk = b"".join(msgspec.json.encode({"type": "ADDED", "object": one}) + b"\n" for one in documents)
    assert len(chunk) > 3 * PART_BYTES
    intake, steps, seen = Intake(), 0, set[int]()

    def step(_name: str) -> AbstractContextManager[None]:
        nonlocal steps
        steps += 1
        return nullcontext()

    reflector = Reflector(Kind.POD, Burst(chunk), intake, step=step)
    task = asyncio.create_task(reflector.run())
    async with asyncio.timeout(WAIT_SECONDS):
        while len(intake.names) < len(names):
            seen.add(len(intake.names))
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert intake.names == names
    assert len(seen) > len(chunk) // PART_BYTES, "between any two parts, and before the first one"
    assert steps > len(chunk) // PART_BYTES
