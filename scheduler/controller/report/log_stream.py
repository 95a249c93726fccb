"""A log stream that batches the lines of one iteration of the event loop into one write.

With a line for each pod and thousands of pods a second, a system call per line would be a noticeable part of a pod's
cost. No line waits longer than the iteration that it was logged in; without a loop each line is written at once.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
from typing import TextIO


class TurnBuffer:
    """A buffered text stream for loggers in front of ``stream``. Any thread may write to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._due_in: asyncio.AbstractEventLoop | None = None
        """The loop that will write the buffered lines."""
        atexit.register(self.drain)

    def write(self, text: str) -> int:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        with self._lock:
            self._waiting.append(text)
            # Another thread's loop may be closed before it runs the callback: only the own loop is reliable.
            is_due = loop is not None and self._due_in is loop
            self._due_in = loop
        if loop is None:
            self.drain()
        elif not is_due:
            loop.call_soon(self.drain)
        return len(text)

    def flush(self) -> None:
        """Does nothing: loggers flush after each line, which the buffer avoids."""

    def drain(self) -> None:
        """Writes the buffered lines, unless the stream has been closed.

        Those that it does not take, since its reader is gone or its disk is full, are lost without a word: an exception
        would be logged, and so be the next line that it does not take, without an end.
        """
        with self._lock:
            waiting, self._waiting, self._due_in = self._waiting, [], None
            if waiting and not self._stream.closed:
                with contextlib.suppress(OSError):
                    self._stream.write("".join(waiting))
                    self._stream.flush()
