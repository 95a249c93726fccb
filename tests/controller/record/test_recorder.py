"""Recordings on disk: written by a running recorder, bounded, private, and whole as far as they are."""

from __future__ import annotations

import random
import re
import shutil
import stat
import struct
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.cli.recorded import Maker, Stretch, about_of, stated_of, stretches
from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.loading import load
from scheduler.controller.record.recorder import (
    MAX_LAG_SECONDS,
    RETRY_SECONDS,
    Recorder,
    RecorderCounts,
    RecordSettings,
    _Disk,
)
from scheduler.controller.record.segments import (
    MAX_BODY_BYTES,
    SUFFIX,
    UNFINISHED,
    VERSION,
    About,
    Damaged,
    Segment,
    SegmentWriter,
    appears_whole,
    segment_head,
    segments_in,
)
from scheduler.engine.engine import Engine
from scheduler.engine.recording.door import Beginning, Checkpoint, Entry, FreshStart, History, NextPod, RecordedEngine
from scheduler.errors import ConfigurationError
from scheduler.messages.now import Now
from scheduler.simulate.changes import carry_out
from scheduler.simulate.world import World
from scheduler.simulate.world_trouble import ROUGH
from scheduler.user_plugins.loading import PluginClasses
from tests.limits import WAIT_SECONDS
from tests.simulation.runs import engines
from tests.simulation.workload import RandomWorkload

SMALL = 192 * 1024
"""Bytes: some eight segments of a simulated cluster."""


class RecordedWorld:
    """A simulated cluster whose scheduler is recorded into a folder, each life as a run of its own."""

    def __init__(self, folder: Path, limit_bytes: int = 2**28, seed: int = 1, gates: str = "") -> None:
        self.seconds = 0.0
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.recorders: list[Recorder] = []
        self.configuration = load(gates=parse_feature_gates(gates))
        self.world = World(seed, engines(self.configuration), ROUGH, door_of=self._door_of)
        self.workload = RandomWorkload(self.world)
        for change in self.workload.begin():
            carry_out(change, self.world)

    def _door_of(self, engine: Engine) -> RecordedEngine:
        for recorder in self.recorders[-1:]:
            recorder.close()
        about = about_of(engine.profiles)
        self.recorders.append(Recorder(RecordSettings(self.folder, self.limit_bytes), about, lambda: self.seconds))
        return RecordedEngine(engine, History(engine, stated_of(self.configuration)), self.recorders[-1])

    def run(self, steps: int) -> None:
        for _ in range(steps):
            for change in self.workload.step():
                carry_out(change, self.world)
            self.world.run_for(self.world.random.uniform(0.0, 1.5))
            self.recorders[-1].flush()

    def close(self) -> None:
        self.recorders[-1].close()


def replayed(folder: Path) -> list[Stretch]:
    return list(stretches(folder, Maker(PluginClasses())))


def test_a_folder_replays_identically_over_restarts_of_the_scheduler(tmp_path: Path) -> None:
    recorded = RecordedWorld(tmp_path)
    recorded.run(60)
    recorded.world.restart()
    recorded.run(30)
    recorded.close()
    found = replayed(tmp_path)
    assert len(found) >= 2
    assert all(stretch.difference is None and not stretch.problem for stretch in found)
    assert sum(stretch.replay.decisions for stretch in found) == len(recorded.world.journal) > 30
    assert sum(one.counts.lost for one in recorded.recorders) == 0


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    recorded = RecordedWorld(tmp_path / "new")
    recorded.close()
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in segments_in(tmp_path / "new")] == [0o600]


def test_a_folder_that_can_not_be_made_is_a_fault_of_the_flag(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="--record"):
        Recorder(RecordSettings(tmp_path / "file"), About("", "", ""))


def size_of(path: Path) -> int:
    """0 for a segment that the recorder's thread has just deleted."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_a_segment_has_its_name_once_its_head_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.tandem"
    with appears_whole(path) as file:
        file.write(b"half a head")
        assert segments_in(tmp_path) == []
    file.close()
    assert segments_in(tmp_path) == [path]


def test_a_head_that_fails_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="full"), appears_whole(tmp_path / "x.tandem"):
        raise OSError("full")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_unfinished_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / f"0-0-0{SUFFIX}{UNFINISHED}").write_bytes(b"half a head")
    recorded = RecordedWorld(tmp_path)
    recorded.close()
    assert [path.suffix for path in tmp_path.iterdir()] == [SUFFIX]


def test_a_folder_is_bounded_in_bytes_and_what_is_left_replays_from_its_checkpoint(tmp_path: Path) -> None:
    recorded = RecordedWorld(tmp_path, SMALL)
    sizes = []
    while all(path.stem.endswith("-000000") for path in segments_in(tmp_path)[:1]):
        # The oldest is still the first of its run.
        recorded.run(20)
        sizes.append(sum(map(size_of, segments_in(tmp_path))))
    recorded.close()
    assert max(sizes) <= SMALL
    found = replayed(tmp_path)
    assert found[0].replay.number > found[0].replay.applied, "the oldest part is gone"
    assert all(stretch.difference is None and not stretch.problem for stretch in found)


def test_after_a_full_segment_one_checkpoint_is_made_however_long_its_writing_takes(tmp_path: Path) -> None:
    recorder = Recorder(RecordSettings(tmp_path, 2**28), About("run", "", ""))
    start = FreshStart(Now(0.0, 1), (3, (), None))
    recorder.begin(Beginning(Now(0.0, 1), 0, (), start))
    incompressible = Entry(NextPod(), Now(0.0, 1), random.Random(1).randbytes(2**20).hex())
    while not recorder.wants_checkpoint:
        if not recorder._backlog:
            recorder.put(incompressible)
        recorder.flush()
    recorder.put(Entry(NextPod(), Now(0.0, 1), None))
    recorder.begin(Beginning(Now(0.0, 2), 0, (), Checkpoint(random.Random(2).randbytes(2**24))))
    while recorder._backlog:
        recorder.flush()
        assert not recorder.wants_checkpoint
    recorder.close()
    assert len(segments_in(tmp_path)) == 2


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) * 2 // 3] ^= 0xFF
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [cut, flip], ids=["truncated", "corrupt"])
def test_a_damaged_file_is_named_and_what_is_whole_before_and_after_it_replays(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    recorded = RecordedWorld(tmp_path, 8 * SMALL)
    while len(segments_in(tmp_path)) < 4:
        recorded.run(20)
    recorded.close()
    victim = segments_in(tmp_path)[1]
    damage(victim)
    found = replayed(tmp_path)
    (broken,) = [stretch for stretch in found if stretch.problem]
    assert str(victim) in broken.problem
    assert all(stretch.difference is None for stretch in found)
    assert found[-1] is not broken
    assert found[-1].replay.decisions > 0


@pytest.mark.parametrize("text", [b"", b"anything", b"tandem-recording 99\n"])
def test_what_is_no_recording_is_named(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "x.tandem").write_bytes(text)
    with pytest.raises(Damaged, match=r"x\.tandem: "):
        Segment(tmp_path / "x.tandem")


def frame(kind: bytes, packed: bytes, length: int | None = None) -> bytes:
    return struct.pack(">4sII", kind, len(packed) if length is None else length, zlib.crc32(packed)) + packed


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (frame(b"ABOU", zlib.compress(bytes(MAX_BODY_BYTES[b"ABOU"] + 1))), "part ABOU at byte 19 .* unpacked"),
        (frame(b"ABOU", b"", 2**32 - 1), "part ABOU at byte 19 has more than"),
        (frame(b"NONE", b"", 2**32 - 1), "unknown part b'NONE'"),
        (frame(b"ABOU", zlib.compress(b'{"run": "\xff"}')), "its head can't be read"),
    ],
    ids=["unpacked", "stated", "unknown", "no Unicode"],
)
def test_no_part_of_a_file_takes_more_memory_than_its_kind_may_have(tmp_path: Path, part: bytes, expected: str) -> None:
    (tmp_path / "x.tandem").write_bytes(b"tandem-recording %d\n" % VERSION + part)
    with pytest.raises(Damaged, match=expected):
        Segment(tmp_path / "x.tandem")


def test_entries_are_bounded_in_bytes_unpacked(tmp_path: Path) -> None:
    recorded = RecordedWorld(tmp_path)
    recorded.close()
    [path] = segments_in(tmp_path)
    packer = zlib.compressobj(1)
    megabyte = bytes(2**20)
    parts = [packer.compress(megabyte) for _ in range(MAX_BODY_BYTES[b"DATA"] // len(megabyte) + 1)]
    path.write_bytes(path.read_bytes()[:-20] + frame(b"DATA", b"".join(parts) + packer.flush()))
    (stretch,) = replayed(tmp_path)
    assert re.search("part DATA at byte .* unpacked", stretch.problem)


def test_a_checkpoint_that_no_reader_would_take_is_not_written() -> None:
    beginning = Beginning(Now(0.0, 0), 0, (), Checkpoint(bytes(8)))
    with pytest.raises(OSError, match="the part ABOU has"):
        segment_head(About("run", "version", "x" * 2**20), beginning)


def test_a_disk_that_does_not_answer_ends_the_segment_after_some_seconds_and_entries_are_not_kept(
    tmp_path: Path,
) -> None:
    """A few entries, each perhaps of a MiB: their number says nothing."""
    answers = threading.Event()

    class Stuck:
        @property
        def input(self) -> object:
            assert answers.wait(WAIT_SECONDS)
            raise OSError("too late")

    recorded = RecordedWorld(tmp_path)
    recorded.run(2)
    [recorder] = recorded.recorders
    for _ in range(2):
        recorder.put(Stuck())  # type: ignore[arg-type]  # an entry that takes long
        recorder.flush()
    recorded.seconds += MAX_LAG_SECONDS + 1
    recorder.flush()
    recorder.put(Stuck())  # type: ignore[arg-type]
    assert recorder.counts.lost == 1
    answers.set()
    recorded.close()


def test_a_disk_that_fails_to_close_a_file_does_not_end_the_recording(tmp_path: Path) -> None:
    class Full(SegmentWriter):
        def abandon(self) -> None:
            raise OSError("no space left on device")

    about = About("run", "version", "code", {})
    counts = RecorderCounts()
    disk = _Disk(RecordSettings(tmp_path), about, 2**20, counts)
    with (tmp_path / "segment").open("wb", buffering=0) as file:
        disk._segment = Full(file, b"")
        disk.take(object())  # type: ignore[arg-type]  # nothing that can be encoded
    assert disk.has_failed
    assert disk._segment is None


def test_entries_of_a_write_that_fails_are_counted_as_lost(tmp_path: Path) -> None:
    counts = RecorderCounts()
    disk = _Disk(RecordSettings(tmp_path), About("run", "version", "code", {}), 2**20, counts)
    with (tmp_path / "segment").open("wb", buffering=0) as file:
        disk._segment = SegmentWriter(file, b"")
        disk._path = tmp_path / "deleted meanwhile"
        for _ in range(3):
            disk.take(Entry(NextPod(), Now(1.0, 1), ()))
        disk.flush()
    assert disk.has_failed
    assert (counts.entries, counts.lost) == (0, 3)


def test_a_disk_that_fails_loses_a_stretch_of_time_and_neither_decisions_nor_what_comes_later(tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    recorded = RecordedWorld(folder)
    while not sum(one.counts.lost for one in recorded.recorders):
        # A start of the scheduler makes the folder again; its thread may be writing a segment just then.
        shutil.rmtree(folder, ignore_errors=True)
        recorded.run(20)
    decided = len(recorded.world.journal)
    recorded.run(20)
    assert len(recorded.world.journal) > decided
    folder.mkdir(exist_ok=True)
    recorded.seconds += RETRY_SECONDS + 1
    recorded.run(40)
    recorded.close()
    found = replayed(folder)
    assert sum(stretch.replay.decisions for stretch in found) > 10
    assert all(stretch.difference is None and not stretch.problem for stretch in found)
