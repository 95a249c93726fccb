"""Where log lines go: those of one turn of the event loop leave in one write.

With a line for each pod and thousands of pods a second, a system call a line would be a noticeable part of what a pod
costs. Nothing waits for longer than the turn that it was written in; without a loop each line leaves at once.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from typing import TextIO


class TurnBuffer:
    """A text stream for loggers in front of ``stream``. May be written to by any thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._due_in: asyncio.AbstractEventLoop | None = None
        """The loop that will write what waits."""
        atexit.register(self.drain)

    def write(self, text: str) -> int:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        with self._lock:
            self._waiting.append(text)
            # Another thread's loop may be closed before it comes to it: only one's own can be relied on.
            is_due = loop is not None and self._due_in is loop
            self._due_in = loop
        if loop is None:
            self.drain()
        elif not is_due:
            loop.call_soon(self.drain)
        return len(text)

    def flush(self) -> None:
        """Loggers flush after each line, which is what this is here to spare."""

    def drain(self) -> None:
        """Write what waits, unless the stream has been closed."""
        with self._lock:
            waiting, self._waiting, self._due_in = self._waiting, [], None
            if waiting and not self._stream.closed:
                self._stream.write("".join(waiting))
                self._stream.flush()
