"""What recording costs: a pod from its creation to its binding, with a tape and without; and a checkpoint."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from scheduler.cli.recorded import about_of, stated_of
from scheduler.config.loading import load
from scheduler.controller.record.recorder import Recorder, RecordSettings
from scheduler.controller.record.segments import segments_in
from scheduler.engine.engine import Engine
from scheduler.engine.recording.checkpoint import Generation, pack
from scheduler.engine.recording.door import History, RecordedEngine
from scheduler.messages.commands import BindPod
from scheduler.messages.stimuli import ObjectObserved, WriteFinished
from scheduler.objects.kinds import Kind, decode
from tests.benchmarks.clusters import engine_with, now, pending, show

NODES = 5_000
PODS = 2_000
ROUNDS = 15


def pods() -> dict[str, float]:
    """CPU of the scheduling thread and of the whole process (with the recorder's thread), microseconds a pod.

    A cost is the median of the differences between neighbouring rounds: the machine's pace changes within a run."""
    loop: dict[bool, list[float]] = {True: [], False: []}
    process: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        plain, recorded = engine_with(NODES), engine_with(NODES)
        recorder = Recorder(RecordSettings(Path(folder)), about_of(recorded.profiles))
        door = RecordedEngine(recorded, History(recorded, stated_of(load())), recorder)
        for number in range(ROUNDS):
            for is_recorded in (False, True):
                began, all_began = time.thread_time(), time.process_time()
                _place(door if is_recorded else plain, number, recorder if is_recorded else None)
                loop[is_recorded].append((time.thread_time() - began) / PODS * 1e6)
                if is_recorded:
                    while recorder._backlog:
                        time.sleep(0.01)
                process[is_recorded].append((time.process_time() - all_began) / PODS * 1e6)
        recorder.close()
        size = sum(path.stat().st_size for path in segments_in(Path(folder)))
    found = {
        "scheduling thread, without": statistics.median(loop[False]),
        "scheduling thread, recorded": statistics.median(loop[True]),
        "whole process, without": statistics.median(process[False]),
        "whole process, recorded": statistics.median(process[True]),
    }
    for name, seconds in (("on the scheduling thread", loop), ("in the process", process)):
        pairs = zip(seconds[False], seconds[True], strict=True)
        found[f"cost {name}"] = statistics.median([recorded - plain for plain, recorded in pairs])
    return found | {"bytes on disk (not µs)": size / PODS / ROUNDS}


def _place(door: Engine | RecordedEngine, number: int, recorder: Recorder | None) -> None:
    """Each pod is seen, decided, bound, and seen on its node; entries are handed over after every ten."""
    for place in range(PODS):
        document = pending(f"pod-{number}-{place}", labels={"app": f"app-{place % 20}"})
        door.handle(ObjectObserved(Kind.POD, decode(Kind.POD, msgspec.json.encode(document))), now())
        (bind,) = [each for each in door.schedule_one(now()) or () if isinstance(each, BindPod)]
        door.handle(WriteFinished(bind.ticket, True, 201), now())
        document["spec"]["nodeName"] = bind.node
        door.handle(ObjectObserved(Kind.POD, decode(Kind.POD, msgspec.json.encode(document))), now())
        if recorder is not None and place % 10 == 9:
            recorder.flush()


def checkpoints() -> dict[str, float]:
    """Milliseconds of one checkpoint on the scheduling thread, and its size, uncompressed."""
    found: dict[str, float] = {}
    for count in (5_000, 50_000):
        engine = engine_with(NODES)
        for number in range(count):
            document: dict[str, Any] = pending(f"there-{number}", labels={"app": f"app-{number % 300}"})
            document["spec"]["nodeName"] = f"node-{number % NODES:05}"
            show(engine, Kind.POD, document)
        began = time.thread_time()
        state = pack(engine, [Generation(0, engine.profiles)])
        found[f"ms, {count:,} pods"] = (time.thread_time() - began) * 1e3
        began = time.thread_time()
        size = len(bytes(state))
        found[f"ms afterwards, in a thread, {count:,} pods"] = (time.thread_time() - began) * 1e3
        found[f"MB, {count:,} pods"] = size / 1e6
    return found
