"""Splits the chunks of a watch's body into complete lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.errors import ApiError
from scheduler.objects.wire import COMPRESSED, is_compressed

MAX_LINE_BYTES: Final = 64 * 2**20
"""Objects in etcd have at most 1.5 MB, a few times that as JSON: an API server sends no longer line."""


PART_BYTES: Final = 128 * 2**10
"""Of lines that are read in one step: some 40 pods of a real API server. A chunk of a burst has four times that, which
took 10 ms and more."""


def parts_of(lines: bytes, part_bytes: int = PART_BYTES) -> Iterator[bytes]:
    """Complete lines in parts of at most ``part_bytes``, but for a line that is longer by itself."""
    start = 0
    while len(lines) - start > part_bytes:
        end = lines.rfind(b"\n", start, start + part_bytes) + 1
        if not end:
            end = lines.find(b"\n", start) + 1 or len(lines)
        yield lines[start:end]
        start = end
    if start < len(lines):
        yield lines[start:]


class Lines:
    """Buffers an incomplete last line of one body until the rest of it arrives."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._size = 0
        self._is_begun = False

    def whole(self, chunk: bytes) -> bytes:
        """All lines that end in this chunk, b"" if none does. Raises ApiError for a line that is too long, and for a
        body that is compressed: its chunks have line breaks where chance has it."""
        if not self._is_begun:
            self._is_begun = True
            if is_compressed(chunk):
                raise ApiError(0, "Compressed", f"the watch can't be read: {COMPRESSED}")
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._begun.append(chunk)
            self._size += len(chunk)
            if self._size > MAX_LINE_BYTES:
                raise ApiError(0, "LineTooLong", f"a line of the watch has more than {MAX_LINE_BYTES} bytes")
            return b""
        lines = b"".join((*self._begun, chunk[:end])) if self._begun else chunk[:end]
        self._begun = [chunk[end:]] if end < len(chunk) else []
        self._size = len(chunk) - end
        return lines
