"""``tandem replay --anonymise``: other names, the same decisions."""

from __future__ import annotations

import stat
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.cli.anonymise import Names
from scheduler.cli.main import main
from scheduler.cli.recorded import about_of, stated_of
from scheduler.config.loading import load
from scheduler.controller.record.segments import Segment, SegmentWriter, new_file, segment_head, segments_in
from scheduler.engine.recording.door import Checkpoint, History
from scheduler.engine.recording.entries import encode_beginning, encode_recorded
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.pod import EphemeralVolume, Pod, PodSpec, Volume
from scheduler.objects.storage import PersistentVolumeClaim
from scheduler.simulate.changes import carry_out
from scheduler.simulate.world import World
from scheduler.testing.documents import node_json, pod_json
from tests.controller.record.test_recorder import SMALL, RecordedWorld
from tests.simulation.runs import world

SECRETS = ("hush", "murmur", "quiet", "mute", "stealth")
"""Parts of the names, label keys and values, images and annotations of the cluster below."""


def fill(world: World) -> None:
    """Nodes and pods with names to hide, which spread, attract and repel each other, fit and do not."""
    for number in range(3):
        node = node_json(f"hush-node-{number}", cpu="4", zone=f"murmur-{number % 2}")
        node["metadata"]["labels"] |= {"quiet.example.com/rack": f"mute-{number}", "generation": str(number)}
        node["metadata"]["annotations"] = {"stealth.example.com/owner": "mute-team"}
        world.create(Kind.NODE, node)
    labels = {"quiet-app": "mute-shop"}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "quiet.example.com/rack"}
    wish = {"weight": 5, "podAffinityTerm": term}
    newer = {"matchExpressions": [{"key": "generation", "operator": "Gt", "values": ["0"]}]}
    affinity = {
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [newer]}},
    }
    for number in range(8):
        pod = pod_json(f"hush-{number}", cpu="1500m", affinity=affinity)
        pod["metadata"] |= {"labels": labels, "annotations": {"stealth.example.com/why": "murmur"}}
        pod["spec"]["containers"][0]["image"] = "quiet.example.com/stealth/shop:mute"
        world.create(Kind.POD, pod)


def recorded(folder: Path, seed: int, limit_bytes: int = 2**28, decisions: int = 60) -> RecordedWorld:
    """A run without restarts, in which pods preempt others and nodes come and go."""
    made = RecordedWorld(folder, limit_bytes, seed)
    fill(made.world)
    while len(made.world.journal) < decisions or (limit_bytes < 2**28 and has_its_start(folder)):
        for change in made.workload.step():
            if type(change).__name__ != "Restart":
                carry_out(change, made.world)
        made.world.run_for(made.world.random.uniform(0.0, 1.5))
        made.recorders[-1].flush()
    made.world.create(Kind.POD, pod_json("hush-top", cpu="4", priority=10_000))
    made.world.run_for(60)
    made.close()
    return made


def has_its_start(folder: Path) -> bool:
    """Whether the run's first segment is still there."""
    return all(path.stem.endswith("-000000") for path in segments_in(folder)[:1])


def text_of(place: Path) -> bytes:
    """Everything that is in a file, or in all files of a folder, uncompressed."""
    found: list[bytes] = []
    for path in segments_in(place):
        with Segment(path) as segment:
            found += encode_beginning(segment.beginning)
            found += [encode_recorded(each, each.outcome) for each in segment.inputs()]
    return b"\n".join(found)


def said(place: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What ``tandem replay`` says of each part, all of which must replay identically."""
    capsys.readouterr()
    assert main(["replay", str(place), "--json"]) == 0, capsys.readouterr()
    reports: list[dict[str, Any]] = msgspec.json.decode(capsys.readouterr().out)
    return reports


def counts(reports: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(report["inputs"], report["decisions"]) for report in reports]


def check_is_anonymous(place: Path, target: Path) -> None:
    """No word of the cluster is in its bytes, and each was in those of the original."""
    before, after = text_of(place), text_of(target)
    for secret in SECRETS:
        assert secret.encode() in before
        assert secret.encode() not in after


@pytest.mark.parametrize("seed", [1, 4])
def test_a_recording_under_other_names_replays_to_the_same_decisions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    place, target = tmp_path / "recording", tmp_path / "anonymous.tandem"
    made = recorded(place, seed)
    assert len(made.recorders) == 1
    assert main(["replay", str(place), "--anonymise", str(target)]) == 0, capsys.readouterr().err
    check_is_anonymous(place, target)
    (report,) = said(target, capsys)
    assert report["decisions"] == len(made.world.journal)


@pytest.mark.parametrize(("seed", "limit_bytes"), [(2, SMALL), (7, SMALL + 1055)])
def test_a_recording_whose_start_was_rotated_away_is_decided_the_same_from_its_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int, limit_bytes: int
) -> None:
    """With the second seed the checkpoint holds times of conditions that come again later: they are no names."""
    place, target = tmp_path / "recording", tmp_path / "anonymous.tandem"
    recorded(place, seed, limit_bytes=limit_bytes)
    assert not has_its_start(place)
    assert main(["replay", str(place), "--anonymise", str(target)]) == 0, capsys.readouterr().err
    before, after = text_of(place), text_of(target)
    assert b"hush-" in before
    assert b"hush" not in after
    assert counts(said(target, capsys)) == counts(said(place, capsys))
    with Segment(target) as segment:
        assert isinstance(segment.beginning.base, Checkpoint)
        assert segment.about.is_anonymous


def test_several_runs_become_a_folder_in_which_a_name_has_one_other_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, target = tmp_path / "recording", tmp_path / "anonymous"
    made = RecordedWorld(place)
    fill(made.world)
    made.run(10)
    made.world.restart()
    made.run(10)
    made.close()
    assert main(["replay", str(place), "--anonymise", str(target)]) == 0, capsys.readouterr().err
    check_is_anonymous(place, target)
    reports = said(target, capsys)
    assert len(reports) > 1
    assert counts(reports) == counts(said(place, capsys))
    assert stat.S_IMODE(target.stat().st_mode) == 0o700


def snapshot_of(world: World, path: Path) -> None:
    history = History(world.engine, stated_of(load()))
    with new_file(path) as file:
        SegmentWriter(
            file, segment_head(about_of(world.engine.profiles), history.snapshot(world.engine, world.now))
        ).end()


def test_a_snapshot_under_other_names_answers_questions_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, target = tmp_path / "snapshot", tmp_path / "anonymous"
    made = world()
    fill(made)
    made.run_for(30)
    snapshot_of(made, place)
    assert main(["replay", str(place), "--anonymise", str(target)]) == 0, capsys.readouterr().err
    check_is_anonymous(place, target)

    def answer(path: Path, *words: str) -> dict[str, Any]:
        capsys.readouterr()
        assert main([*words, "--from", str(path), "--json"]) == 0
        found: dict[str, Any] = msgspec.json.decode(capsys.readouterr().out)
        return found

    before, after = answer(place, "queue"), answer(target, "queue")
    assert before["counts"] == after["counts"]
    assert before["counts"]["unschedulable"] > 0
    reasons = [[one["message"] for one in page["pods"]] for page in (before, after)]
    assert reasons[0] == reasons[1]
    free = [answer(path, "capacity")["pools"] for path in (place, target)]
    assert [one["resources"] for one in free[0]] == [one["resources"] for one in free[1]]


def test_what_is_there_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = world()
    snapshot_of(made, tmp_path / "snapshot")
    (tmp_path / "target").write_text("mine")
    assert main(["replay", str(tmp_path / "snapshot"), "--anonymise", str(tmp_path / "target")]) == 1
    assert "there is such a file" in capsys.readouterr().err
    assert (tmp_path / "target").read_text() == "mine"


def test_the_claim_of_an_ephemeral_volume_is_still_named_after_its_pod() -> None:
    names = Names([])
    pod = Pod(metadata=ObjectMeta(name="web-0", namespace="a"), spec=PodSpec(volumes=(SCRATCH,)))
    claim = PersistentVolumeClaim(metadata=ObjectMeta(name="web-0-scratch", namespace="a"))
    names.see(pod)
    names.see(claim)
    names.settle()
    renamed = names.rename(pod)
    assert names.rename(claim).metadata.name == f"{renamed.name}-{renamed.spec.volumes[0].name}"


SCRATCH = Volume(name="scratch", ephemeral=EphemeralVolume())


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
