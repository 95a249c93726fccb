"""``tandem replay --anonymise``: other names, the same decisions."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec
import pytest

from scheduler.cli.anonymise import Names
from scheduler.cli.main import main
from scheduler.cli.recorded import about_of, stated_of
from scheduler.config.loading import load
from scheduler.controller.record.segments import Segment, SegmentWriter, new_file, segment_head
from scheduler.engine.recording.door import History
from scheduler.engine.recording.entries import encode_recorded
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.pod import Pod
from scheduler.simulate.changes import carry_out
from scheduler.testing.documents import node_json, pod_json
from tests.controller.record.test_recorder import RecordedWorld
from tests.simulation.runs import world


def recorded(folder: Path, seed: int) -> RecordedWorld:
    """A run without restarts, in which pods preempt others and nodes come and go."""
    made = RecordedWorld(folder, seed=seed)
    made.world.create(Kind.NODE, node_json("hush-node", cpu="4"))
    for number in range(6):
        made.world.create(Kind.POD, pod_json(f"hush-{number}", cpu="2"))
    while len(made.world.journal) < 60:
        for change in made.workload.step():
            if type(change).__name__ != "Restart":
                carry_out(change, made.world)
        made.world.run_for(made.world.random.uniform(0.0, 1.5))
        made.recorders[-1].flush()
    made.world.create(Kind.POD, pod_json("hush-top", cpu="4", priority=10_000))
    made.world.run_for(60)
    made.close()
    return made


def text_of(path: Path) -> bytes:
    """Everything that is in a file, uncompressed."""
    with Segment(path) as segment:
        return b"\n".join(encode_recorded(each, each.outcome) for each in segment.inputs())


@pytest.mark.parametrize("seed", [1, 4])
def test_a_recording_under_other_names_replays_to_the_same_decisions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    made = recorded(tmp_path / "recording", seed)
    assert len(made.recorders) == 1
    target = tmp_path / "anonymous.tandem"
    assert main(["replay", str(tmp_path / "recording"), "--anonymise", str(target)]) == 0, capsys.readouterr().err
    assert b"hush" in text_of(next((tmp_path / "recording").iterdir()))
    assert b"hush" not in text_of(target)
    capsys.readouterr()
    assert main(["replay", str(target)]) == 0
    assert f"{len(made.world.journal)} decisions" in capsys.readouterr().out


def test_a_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = world()
    history = History(made.engine, stated_of(load()))
    with new_file(tmp_path / "snapshot") as file:
        SegmentWriter(file, segment_head(about_of(made.engine.profiles), history.snapshot(made.engine, made.now))).end()
    assert main(["replay", str(tmp_path / "snapshot"), "--anonymise", str(tmp_path / "target")]) == 1
    assert "a checkpoint can't be given other names" in capsys.readouterr().err
    assert not (tmp_path / "target").exists()


def test_new_words_sort_as_the_old_ones_and_numbers_and_known_keys_stay() -> None:
    names = Names(["cpu", "Exists"])
    labels = {"example.com/tier": "gold", "topology.kubernetes.io/zone": "eu-1", "rank": "17", "kind": "cpu"}
    words = ["alpha", "alpha-2", "beta", "Zeta"]
    pods = [Pod(metadata=ObjectMeta(name=word, namespace="a", labels=labels)) for word in words]
    for pod in pods:
        names.see(pod)
    names.settle()
    renamed = [names.rename(pod) for pod in pods]
    assert sorted(words) == [old for _, old in sorted(zip([pod.name for pod in renamed], words, strict=True))]
    found = renamed[0].labels
    assert set(found) & set(labels) == {"topology.kubernetes.io/zone"}
    assert "17" in found.values() and "cpu" in found.values()
    assert names.rename("pod a/alpha-2 is gold, 17 Exists") == f"pod {renamed[1].key} is {gold(found)}, 17 Exists"
    assert zlib.crc32(msgspec.json.encode(renamed[0])) != zlib.crc32(msgspec.json.encode(pods[0]))


def gold(labels: dict[str, str]) -> str:
    (value,) = [value for key, value in labels.items() if key.startswith("x") and "/" in key]
    return value
