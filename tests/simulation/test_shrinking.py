"""A failing run of the simulated world becomes a short script that fails in the same way."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from scheduler.config.loading import load
from scheduler.errors import InvariantViolation
from scheduler.objects.kinds import Kind
from scheduler.simulate.changes import BreakWatch, Create, Delete, Merge, Reload, Restart, Step, read, written
from scheduler.simulate.world import World
from scheduler.simulate.world_trouble import Trouble
from scheduler.testing.documents import pod_json
from tests.simulation.__main__ import main
from tests.simulation.runs import CASES, Case, Configurations, Run
from tests.simulation.shrinking import FailureKind, kind_of, shrink


class BrokenWorld(World):
    def check(self) -> None:
        nodes, pods = (list(self.facts.of(kind)) for kind in (Kind.NODE, Kind.POD))
        if nodes and pods:
            raise InvariantViolation(f"pod {pods[0][0]} is there, and so is node {nodes[0][0]}")
        if pods:
            raise InvariantViolation(f"{len(pods)} pods and no node")


class BrokenCase(Case):
    def world(self, seed: int, trouble: Trouble) -> World:
        return BrokenWorld(seed, Configurations([load()]).engine, trouble)


EVERY_CHANGE = [
    Step(Create(Kind.POD, pod_json("web-1", cpu="500m", memory="256Mi", labels={"app": "web"})), 0.5),
    Step(Merge(Kind.POD, "default/web-1", {"status": {"phase": "Succeeded"}}), 0.0),
    Step(Delete(Kind.POD, "default/web-1"), 1.0),
    Step(BreakWatch(Kind.NODE), 0.0),
    Step(Restart(), 0.0),
    Step(Reload(1), 0.25),
]


def test_a_script_is_the_same_after_it_was_written_and_read() -> None:
    assert read(written(EVERY_CHANGE)) == EVERY_CHANGE


def test_only_the_steps_that_a_failure_needs_are_left() -> None:
    script = [Step(Delete(Kind.POD, str(number)), 0.0) for number in range(200)]
    needed = {script[17], script[18], script[150]}
    runs = []

    def fails(part: Sequence[Step]) -> bool:
        runs.append(len(part))
        return needed <= set(part)

    assert shrink(script, fails) == [script[17], script[18], script[150]]
    assert len(runs) < 200


def test_with_few_runs_left_the_shortest_so_far_is_the_answer() -> None:
    script = [Step(Delete(Kind.POD, str(number)), 0.0) for number in range(64)]
    found = shrink(script, lambda part: script[5] in part, max_runs=3)
    assert script[5] in found
    assert 1 < len(found) < len(script)


@pytest.mark.parametrize("text", ["pods that fit wait in the end: ['default/a-1', 'default/b']", "node n-7 has 3 cpu"])
def test_a_failure_is_the_same_about_other_objects_and_another_one_elsewhere(text: str) -> None:
    def failure(message: str) -> FailureKind:
        try:
            raise InvariantViolation(message)
        except InvariantViolation as error:
            return kind_of(error)

    found = failure(text)
    assert found == failure(text.replace("a-1", "c-17").replace("n-7", "n-8").replace("3", "4000"))
    assert found != failure("a group is being tried although nothing happens")
    with pytest.raises(ValueError, match="invalid literal") as other:
        int("x")
    assert kind_of(other.value) != found


def test_a_script_is_not_shrunk_to_another_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The failure needs a node and a pod; a pod alone fails in another way."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(CASES, "broken", BrokenCase())
    assert main(["3", "--until", "4", "--steps", "40", "--case", "broken"]) == 1
    assert "2 changes" in capsys.readouterr().err
    [path] = tmp_path.glob("*.jsonl")
    assert [step.change.kind for step in read(path.read_bytes()) if isinstance(step.change, Create)] == [
        Kind.NODE,
        Kind.POD,
    ]


@pytest.mark.parametrize("name", ["plain", "all of them"])
def test_a_run_and_its_script_come_to_the_same_end(name: str) -> None:
    drawn, followed = Run(5, CASES[name]), Run(5, CASES[name])
    drawn.draw(60)
    followed.follow(read(written(drawn.script)))
    assert followed.script == drawn.script
    assert followed.world.journal == drawn.world.journal


@pytest.mark.parametrize("script", [EVERY_CHANGE[1:], list(reversed(EVERY_CHANGE))])
def test_steps_that_no_longer_apply_do_nothing(script: list[Step]) -> None:
    Run(1, CASES["reloads"]).follow(script)


def test_a_run_over_many_seeds_goes_on_where_it_was_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state.json"
    few = ["--steps", "5", "--state", str(state)]
    assert main(["--until", "2", *few]) == 0
    assert main(["--until", "3", *few]) == 0
    assert json.loads(state.read_text())["runs"] == 3
    assert "3 runs" in capsys.readouterr().out
