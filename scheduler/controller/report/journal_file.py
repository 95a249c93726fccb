"""The journal's file, written by a thread of its own, so that a slow disk never blocks the event loop.

Lines wait in memory up to a limit; beyond it they are dropped and counted.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Final

import structlog

from scheduler.errors import ConfigurationError, Fault

MAX_WAITING_BYTES: Final = 16 * 2**20
CLOSE_SECONDS: Final = 5.0
"""How long the process waits for the disk at its end."""

log = structlog.get_logger()


def open_private(path: Path) -> int:
    """Opens a regular file for appending, and creates it, readable by its owner only, if it is missing.

    Raises OSError if it can't be opened or is no regular file. Symbolic links are not followed, and pipes and devices
    do not block.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        # The system's words for a symbolic link, "Too many levels", and for a pipe without a reader lead astray.
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise OSError(error.errno, "is not a regular file") from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(None, "is not a regular file")
        os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class JournalFile:
    """``append`` takes complete lines from one thread; ``close`` ends it. A write error ends the journal."""

    def __init__(self, path: Path, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        """Raises ConfigurationError if the file can't be written."""
        self.dropped_lines = 0
        self._max_waiting_bytes = max_waiting_bytes
        self._changed = threading.Condition()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._is_closing = False
        self._has_failed = False
        try:
            self._descriptor = open_private(path)
        except OSError as error:
            text = f"{path} can't be written: {error.strerror or error}"
            raise ConfigurationError((Fault("journal", text),)) from error
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
        self._thread.start()

    def append(self, lines: bytes, count: int) -> None:
        """Adds ``count`` lines without blocking; drops them if too much waits already."""
        with self._changed:
            is_too_much = self._waiting_bytes + len(lines) > self._max_waiting_bytes
            if self._is_closing or self._has_failed or is_too_much:
                self.dropped_lines += count
                return
            self._waiting.append(lines)
            self._waiting_bytes += len(lines)
            self._changed.notify()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Waits at most ``seconds`` until everything is written."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(seconds)

    def _write(self) -> None:
        rest = memoryview(b"")
        try:
            while rest := memoryview(self._next()):
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            log.error("Journal can no longer be written", error=str(error))
            with self._changed:
                self._has_failed = True
                # A line that was written in part counts as dropped: its end is in the rest.
                self._waiting.append(bytes(rest))
                self.dropped_lines += sum(lines.count(b"\n") for lines in self._waiting)
                self._waiting.clear()
                self._waiting_bytes = 0
        finally:
            os.close(self._descriptor)

    def _next(self) -> bytes:
        """Blocks until lines wait and returns them; empty at the end."""
        with self._changed:
            while not self._waiting and not self._is_closing:
                self._changed.wait()
            lines = b"".join(self._waiting)
            self._waiting.clear()
            self._waiting_bytes = 0
            return lines
