"""Segments: the files of a recording. Each can be replayed by itself.

A segment is a line that names the format and its version, then frames. A frame is its kind (4 bytes), the length and
the CRC-32 of its body (4 bytes each, big-endian), and the body, compressed by zlib on its own. ``HEAD`` and, for a
checkpoint, ``STAT`` come first: what ``entries.encode_beginning`` makes. Each ``DATA`` holds entries, a msgpack list
of byte strings. ``LAST`` ends a segment that was closed; one without it was cut off, or is being written.

zlib is in the standard library; at level 1 it takes 20 µs for the entries of one pod, in a thread and without the
interpreter's lock. A recording holds names, labels and the scheduler's view of pods: files are for their owner alone.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final

import msgspec

from scheduler.engine.recording.codec import UnreadableInput
from scheduler.engine.recording.door import Beginning, Checkpoint
from scheduler.engine.recording.entries import decode_beginning, decode_entry, encode_beginning
from scheduler.engine.recording.replay import RecordedInput
from scheduler.errors import SchedulerError
from scheduler.objects.salvage import DECODER_ERRORS

SUFFIX: Final = ".tandem"
UNFINISHED: Final = ".begun"
"""Added to a segment's name until its head is written."""
VERSION: Final = 2
MAGIC: Final = b"tandem-recording "
HEAD, ABOUT, STATE, DATA, LAST = b"HEAD", b"ABOU", b"STAT", b"DATA", b"LAST"
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
LEVEL: Final = 1
"""Level of compression. Level 6 takes five times as long and makes files a fifth smaller."""
MAX_BODY_BYTES: Final[Mapping[bytes, int]] = {
    ABOUT: 2**20,
    HEAD: 64 * 2**20,
    STATE: 2**30,
    DATA: 256 * 2**20,
    LAST: 0,
}
"""Bytes of a part, uncompressed: what a file makes its reader hold at once. A checkpoint of 5,000 nodes and 50,000
plain pods has 23 MB; entries are written whenever they have 256 KiB, and one holds at most a line of a watch or an
extender's answer, of 64 MiB each."""
_OVERHEAD_BYTES: Final = 1024
"""More than zlib adds to what it can't compress, beside a thousandth."""
_FRAME: Final = Struct(">4sII")
_LINES: Final = msgspec.msgpack.Decoder(list[bytes])


class Damaged(SchedulerError):
    """A file is truncated, corrupt or of another format; the text names it. What was read before it is whole."""


class About(msgspec.Struct, frozen=True):
    """Who recorded. ``code``: digest of the scheduler's own deciding code; ``plugins``: of each module of a user's
    plugins. ``run`` is the same for all segments of one process."""

    run: str
    tandem: str
    code: str
    plugins: dict[str, str] = {}
    is_anonymous: bool = False


def new_file(path: Path) -> BinaryIO:
    """A file that did not exist, readable by its owner alone. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    return os.fdopen(descriptor, "wb", buffering=0)


@contextmanager
def appears_whole(path: Path) -> Iterator[BinaryIO]:
    """A new file that gets its name when the block ends: who reads the folder finds no segment without its head.

    Where the block fails, nothing is left of it. Raises OSError.
    """
    unfinished = path.with_name(f"{path.name}{UNFINISHED}")
    unfinished.unlink(missing_ok=True)
    file = new_file(unfinished)
    try:
        yield file
        unfinished.rename(path)
    except BaseException:
        file.close()
        unfinished.unlink(missing_ok=True)
        raise


def segment_head(about: About, beginning: Beginning) -> bytes:
    """The beginning of a segment, as the bytes of the file. Raises OSError for a part that would be too large."""
    head, state = encode_beginning(beginning)
    parts = [MAGIC + str(VERSION).encode() + b"\n", _frame(ABOUT, msgspec.json.encode(about)), _frame(HEAD, head)]
    if state:
        parts.append(_frame(STATE, state))
    return b"".join(parts)


class SegmentWriter:
    """Writes one segment into a new file. ``size`` is its bytes. Every method may raise OSError."""

    def __init__(self, file: BinaryIO, head: bytes) -> None:
        """``head``: see ``segment_head``."""
        self.size = 0
        self._file = file
        self._put(head)

    def write(self, entries: list[bytes]) -> None:
        self._put(_frame(DATA, msgspec.msgpack.encode(entries)))

    def end(self) -> None:
        """Marks the segment as complete."""
        self._put(_frame(LAST, b""))

    def close(self) -> None:
        with self._file:
            self.end()

    def abandon(self) -> None:
        """Closes the file as it is."""
        self._file.close()

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = self._file.write(view)
            view = view[written:]
        self.size += len(data)


def _frame(kind: bytes, body: bytes) -> bytes:
    if len(body) > MAX_BODY_BYTES[kind]:
        raise OSError(f"the part {kind.decode()} has {len(body)} bytes, of {MAX_BODY_BYTES[kind]} at most")
    packed = zlib.compress(body, LEVEL)
    return _FRAME.pack(kind, len(packed), zlib.crc32(packed)) + packed


class Segment:
    """A segment that is read: ``about`` and ``beginning`` at once, ``inputs`` as they are asked for."""

    def __init__(self, path: Path) -> None:
        """Raises Damaged, and OSError."""
        self.path = path
        self.is_complete = False
        """Whether its end was reached: only after all inputs have been read."""
        self._file: BinaryIO = path.open("rb")
        try:
            self.about, self.beginning = self._head()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Segment:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def inputs(self) -> Iterator[RecordedInput]:
        """The recorded inputs, in order. Raises Damaged at what can't be read, after everything before it."""
        number = self.beginning.number
        while (frame := self._next()) is not None:
            kind, body = frame
            if kind == LAST:
                self.is_complete = True
                return
            if kind != DATA:
                raise self._damaged(f"its part {kind.decode()} is out of place")
            try:
                for line in _LINES.decode(body):
                    number += 1
                    yield decode_entry(line, number)
            except (*DECODER_ERRORS, UnreadableInput) as error:
                raise self._damaged(str(error)) from error

    def _head(self) -> tuple[About, Beginning]:
        line = self._file.readline(64)
        if not line.startswith(MAGIC) or not line.endswith(b"\n"):
            raise self._damaged("it is no recording")
        stated = line[len(MAGIC) : -1].decode("ascii", "replace")
        if stated != str(VERSION):
            raise self._damaged(f"its format has version {stated}, this program reads version {VERSION}")
        try:
            about = msgspec.json.decode(self._expected(ABOUT), type=About)
            head = self._expected(HEAD)
            beginning = decode_beginning(head, b"")
            if isinstance(beginning.base, Checkpoint):
                beginning = decode_beginning(head, self._expected(STATE))
        except (*DECODER_ERRORS, UnreadableInput) as error:
            raise self._damaged(f"its head can't be read: {error}") from error
        return about, beginning

    def _expected(self, wanted: bytes) -> bytes:
        frame = self._next()
        if frame is None or frame[0] != wanted:
            raise self._damaged(f"its part {wanted.decode()} is missing")
        return frame[1]

    def _next(self) -> tuple[bytes, bytes] | None:
        """The next frame; None where the file ends between two frames."""
        place = self._file.tell()
        head = self._file.read(_FRAME.size)
        if not head:
            return None
        if len(head) < _FRAME.size:
            raise self._damaged(f"it is cut off at byte {place}")
        kind, length, checksum = _FRAME.unpack(head)
        limit = MAX_BODY_BYTES.get(kind)
        if limit is None:
            raise self._damaged(f"it has an unknown part {kind!r}")
        if length > limit + limit // 1000 + _OVERHEAD_BYTES:
            raise self._damaged(f"its part {kind.decode()} at byte {place} has more than {limit} bytes")
        packed = self._file.read(length)
        if len(packed) < length:
            raise self._damaged(f"it is cut off at byte {place}")
        if zlib.crc32(packed) != checksum:
            raise self._damaged(f"it is corrupt at byte {place}")
        unpacker = zlib.decompressobj()
        try:
            # One byte more than is allowed shows that there is more. A limit of 0 would mean none.
            body = unpacker.decompress(packed, limit + 1)
        except zlib.error as error:
            raise self._damaged(f"it is corrupt at byte {place}: {error}") from error
        if len(body) > limit:
            raise self._damaged(f"its part {kind.decode()} at byte {place} has more than {limit} bytes unpacked")
        return kind, body

    def _damaged(self, what: str) -> Damaged:
        return Damaged(f"{self.path}: {what}")


def segments_in(place: Path) -> list[Path]:
    """The segments of a recording, oldest first: of a folder, or one file by itself. Raises OSError."""
    if not place.is_dir():
        return [place]
    return sorted(path for path in place.iterdir() if path.suffix == SUFFIX)
