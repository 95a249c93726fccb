"""Log lines are written together once a turn of the loop, and none is lost."""

from __future__ import annotations

import asyncio
import errno
import threading
from io import StringIO

from scheduler.controller.report.log_stream import TurnBuffer


class Counting(StringIO):
    """Remembers each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)


async def test_the_lines_of_one_turn_leave_in_one_write() -> None:
    stream = Counting()
    lines = TurnBuffer(stream)
    lines.write("a\n")
    lines.write("b\n")
    assert stream.writes == []
    await asyncio.sleep(0)
    lines.write("c\n")
    await asyncio.sleep(0)
    assert stream.writes == ["a\nb\n", "c\n"]


def test_without_a_loop_a_line_leaves_at_once() -> None:
    stream = Counting()
    TurnBuffer(stream).write("a\n")
    assert stream.writes == ["a\n"]


def test_a_line_that_a_loop_left_behind_leaves_before_the_next_one() -> None:
    stream = Counting()
    lines = TurnBuffer(stream)

    async def write_last() -> None:
        lines.write("last words\n")

    loop = asyncio.new_event_loop()
    task = loop.create_task(write_last())
    task.add_done_callback(lambda _: loop.stop())
    loop.run_forever()
    loop.close()
    lines.write("after\n")
    assert "".join(stream.writes) == "last words\nafter\n"


async def test_a_loop_that_has_closed_holds_up_no_other() -> None:
    stream = Counting()
    lines = TurnBuffer(stream)

    def elsewhere() -> None:
        loop = asyncio.new_event_loop()
        loop.call_soon(lambda: (loop.call_soon(loop.stop), lines.write("theirs\n")))
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    lines.write("ours\n")
    await asyncio.sleep(0)
    assert stream.getvalue() == "theirs\nours\n"


def test_what_comes_after_the_stream_was_closed_is_dropped() -> None:
    stream = Counting()
    lines = TurnBuffer(stream)
    stream.close()
    lines.write("too late\n")
    assert stream.writes == []


class Full(Counting):
    """A file on a disk that is full until ``has_room``."""

    has_room = False

    def write(self, text: str) -> int:
        if not self.has_room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


async def test_lines_that_a_full_disk_does_not_take_are_no_error_and_later_ones_are_written() -> None:
    stream, errors = Full(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    lines = TurnBuffer(stream)
    lines.write("lost\n")
    await asyncio.sleep(0)
    stream.has_room = True
    lines.write("later\n")
    await asyncio.sleep(0)
    assert (stream.writes, errors) == (["later\n"], [])


def test_without_a_loop_a_full_disk_is_no_error_for_who_logs() -> None:
    TurnBuffer(Full()).write("lost\n")
