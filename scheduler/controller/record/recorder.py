"""The tape of a running scheduler: takes entries on the event loop, encodes and writes them in a thread.

On the loop an entry costs an append to a list. The thread compresses without the interpreter's lock. Recording never
harms scheduling: a disk that is full or slow ends a segment, never a decision, and the next one begins with a
checkpoint, so that what is lost is a stretch of time and not the recording.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

import structlog
from msgspec import Struct

from scheduler.controller.record.segments import (
    FOLDER_MODE,
    SUFFIX,
    UNFINISHED,
    About,
    SegmentWriter,
    appears_whole,
    segment_head,
    segments_in,
)
from scheduler.engine.recording.door import Beginning, Entry
from scheduler.engine.recording.entries import encode_entry
from scheduler.errors import ConfigurationError, Fault

DEFAULT_LIMIT_BYTES: Final = 256 * 2**20
MIN_LIMIT_BYTES: Final = 2**20
SEGMENTS_KEPT: Final = 8
"""Segments that a full folder holds, about: with the oldest an eighth of the recording goes."""
FRAME_BYTES: Final = 256 * 1024
FLUSH_SECONDS: Final = 1.0
"""Seconds after which entries are written even if they fill no frame: what a killed process loses."""
MAX_WAITING: Final = 100_000
"""Entries that wait for the thread, some 100 MB; with more of them the disk can't follow and the segment ends."""
MAX_LAG_SECONDS: Final = 10.0
"""Seconds that an entry waits for the thread; after longer the disk can't follow, either. Objects may have a MiB each,
so that their number alone does not bound memory."""
RETRY_SECONDS: Final = 30.0
"""Seconds from an error to the next try of a checkpoint."""
CLOSE_SECONDS: Final = 5.0

log = structlog.get_logger()


class RecordSettings(Struct, frozen=True):
    """Where to record, and the most bytes of all segments in the folder."""

    folder: Path
    limit_bytes: int = DEFAULT_LIMIT_BYTES


class RecorderCounts(Struct):
    """For metrics."""

    entries: int = 0
    bytes: int = 0
    lost: int = 0
    """Entries that no segment has."""
    segments: int = 0


class Recorder:
    """A Tape. ``flush`` after each slice of the loop, ``close`` at the end; the thread is a daemon."""

    def __init__(self, settings: RecordSettings, about: About, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises ConfigurationError if the folder can't be used."""
        self.counts = RecorderCounts()
        self.wants_checkpoint = False
        self._settings = settings
        self._about = about
        self._clock = clock
        self._segment_bytes = settings.limit_bytes // SEGMENTS_KEPT
        self._buffer: list[Entry | Beginning] = []
        self._waiting: SimpleQueue[list[Entry | Beginning] | None] = SimpleQueue()
        self._waiting_entries = 0
        self._awaited = 0
        """How many of the entries handed over the thread must have taken within ``MAX_LAG_SECONDS``."""
        self._awaited_since = clock()
        self._is_gap = False
        self._retry_at = 0.0
        self._segments_begun = 0
        _make_folder(settings.folder)
        self._disk = _Disk(settings, about, self._segment_bytes, self.counts)
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    # --- on the event loop --------------------------------------------------------------------------------------------

    def begin(self, beginning: Beginning) -> None:
        self.wants_checkpoint = False
        self._is_gap = False
        self._segments_begun += 1
        self._buffer.append(beginning)
        self.flush()

    def put(self, entry: Entry) -> None:
        if self._is_gap:
            self.counts.lost += 1
            return
        self._buffer.append(entry)

    def failed(self, problem: str) -> None:
        self.wants_checkpoint = False
        self._retry_at = self._clock() + RETRY_SECONDS
        log.warning("Recording: no checkpoint could be made, the segment goes on", problem=problem)

    def flush(self) -> None:
        """Hands the new entries to the thread, and reacts to errors and delays of the disk."""
        if self._buffer:
            self._waiting_entries += len(self._buffer)
            self._waiting.put(self._buffer)
            self._buffer = []
        if self.wants_checkpoint:
            return
        if not self._is_gap and (self._disk.has_failed or self._backlog > MAX_WAITING or self._lags()):
            self._is_gap = True
            self._retry_at = self._clock() + RETRY_SECONDS
        if self._is_gap:
            if self._clock() >= self._retry_at and self._backlog == 0:
                self._disk.has_failed = False
                self.wants_checkpoint = True
        elif self._is_full and self._clock() >= self._retry_at:
            self.wants_checkpoint = True

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Writes what is left and ends the segment; waits for the disk at most ``seconds``."""
        self.flush()
        self._waiting.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            log.warning("Recording: the disk does not answer, the last entries may be missing")

    @property
    def _is_full(self) -> bool:
        """Whether the newest segment is full, and not the one before it, which the thread still has."""
        return self._disk.segments_taken == self._segments_begun and self._disk.is_full

    @property
    def _backlog(self) -> int:
        return self._waiting_entries - self._disk.taken

    def _lags(self) -> bool:
        now = self._clock()
        if self._disk.taken >= self._awaited:
            self._awaited, self._awaited_since = self._waiting_entries, now
            return False
        return now - self._awaited_since > MAX_LAG_SECONDS

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                batch = self._waiting.get(timeout=FLUSH_SECONDS)
            except Empty:
                self._disk.flush()
                continue
            if batch is None:
                self._disk.close()
                return
            for item in batch:
                self._disk.take(item)
            self._disk.flush_if_due()


class _Disk:
    """The writing side, used by the thread alone but for its public fields, which the loop reads."""

    def __init__(self, settings: RecordSettings, about: About, segment_bytes: int, counts: RecorderCounts) -> None:
        self.has_failed = False
        self.is_full = False
        """Whether the segment has as many bytes as a segment should have."""
        self.taken = 0
        """Entries and beginnings taken so far."""
        self.segments_taken = 0
        """How many of these are beginnings; ``is_full`` is about the segment of the last one."""
        self._settings = settings
        self._about = about
        self._segment_bytes = segment_bytes
        self._counts = counts
        self._segment: SegmentWriter | None = None
        self._path = settings.folder
        """The path of the segment that is written."""
        self._opened_size = 0
        self._others: list[tuple[Path, int]] = []
        self._entries: list[bytes] = []
        self._bytes = 0
        self._flushed_at = 0.0

    def take(self, item: Entry | Beginning) -> None:
        self.taken += 1
        try:
            if isinstance(item, Beginning):
                try:
                    self._end_segment()
                finally:
                    self.is_full = False
                    self.segments_taken += 1
                self._open(item)
            elif self._segment is None:
                self._counts.lost += 1
            else:
                data = encode_entry(item)
                self._entries.append(data)
                self._bytes += len(data)
                if self._bytes >= FRAME_BYTES:
                    self._write()
        except Exception as error:  # noqa: BLE001 - a fault of the recording ends this segment, nothing else
            self._fail(error)

    def flush_if_due(self) -> None:
        if time.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        try:
            if self._entries:
                self._write()
        except Exception as error:  # noqa: BLE001 - see take
            self._fail(error)

    def close(self) -> None:
        try:
            self._end_segment()
        except Exception as error:  # noqa: BLE001 - see take
            self._fail(error)

    def _open(self, beginning: Beginning) -> None:
        name = f"{beginning.at.wall:020}-{self._about.run}-{self._counts.segments:06}{SUFFIX}"
        path = self._settings.folder / name
        others = segments_in(self._settings.folder)
        self._others = [(one, one.stat().st_size) for one in others]
        head = segment_head(self._about, beginning)
        self._make_room(len(head))
        with appears_whole(path) as file:
            segment = SegmentWriter(file, head)
        self._segment = segment
        self._path = path
        self._counts.segments += 1
        self._opened_size = self._segment.size
        self._counts.bytes += self._segment.size
        self._flushed_at = time.monotonic()

    def _write(self) -> None:
        """Writes the entries. They are kept until then: if it fails, ``_fail`` counts them as lost."""
        segment = self._segment
        self._flushed_at = time.monotonic()
        if segment is None:
            return
        before = segment.size
        self._make_room(self._bytes // 2)
        if not self._path.exists():
            # Writing into a deleted file succeeds, and what was written is lost.
            raise FileNotFoundError(f"{self._path} was deleted")
        segment.write(self._entries)
        self._counts.entries += len(self._entries)
        self._counts.bytes += segment.size - before
        self._entries, self._bytes = [], 0
        # A segment holds as much data as its checkpoint at least, so that checkpoints take at most half of a folder.
        self.is_full = segment.size - self._opened_size >= max(self._segment_bytes, self._opened_size)

    def _make_room(self, wanted: int) -> None:
        """Deletes the oldest segments until so much fits. Raises OSError if that can't be."""
        own = self._segment.size if self._segment is not None else 0
        while sum(size for _, size in self._others) + own + wanted > self._settings.limit_bytes:
            if not self._others:
                raise OSError(f"one segment takes more than the {self._settings.limit_bytes} bytes of --record-limit")
            oldest, _ = self._others.pop(0)
            oldest.unlink(missing_ok=True)

    def _end_segment(self) -> None:
        if self._segment is None:
            return
        if self._entries:
            self._write()
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close()

    def _fail(self, error: Exception) -> None:
        log.error("Recording: the segment ends here", error=f"{type(error).__name__}: {error}")
        self._counts.lost += len(self._entries)
        self._entries, self._bytes = [], 0
        self.has_failed = True
        segment, self._segment = self._segment, None
        if segment is not None:
            # A disk that is full may say so once more. An exception here would end the thread.
            with suppress(OSError):
                segment.abandon()


def _make_folder(folder: Path) -> None:
    """Makes the folder, or clears it of what an earlier run left unfinished. Raises ConfigurationError."""
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK) or not folder.is_dir():
            raise PermissionError(f"{folder} can't be written to")
        for begun in folder.glob(f"*{SUFFIX}{UNFINISHED}"):
            begun.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError([Fault("--record", f"{folder}: {error.strerror or error}")]) from error
