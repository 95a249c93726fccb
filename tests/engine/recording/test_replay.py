"""Simulated clusters, recorded and replayed from the start and from every checkpoint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.cli.recorded import Maker, stated_of
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.compose import build_profiles, engine_settings
from scheduler.config.loading import load
from scheduler.engine.commands import Command
from scheduler.engine.recording.door import RecordedEngine, StatedConfiguration
from scheduler.engine.recording.replay import Made
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ExtenderAnswered, Stimulus
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.registry import registry
from scheduler.simulate.workload import RandomWorkload, node_document, pod_document
from scheduler.simulate.world import World
from scheduler.simulate.world_trouble import CALM, ROUGH
from scheduler.user_plugins.loading import PluginClasses
from tests.builders import build
from tests.engine.recording.tapes import Tapes, replay_of
from tests.simulation.runs import engines
from tests.simulation.test_random_runs import CONFIGURATIONS


def recorded(seed: int, text: str = "", steps: int = 80, entries_a_part: int = 10**9) -> tuple[World, Tapes]:
    tapes = Tapes(text, entries_a_part)
    made = World(seed, engines(load(text or None)), ROUGH, tapes.door_of)
    workload = RandomWorkload(made)
    for _ in range(steps):
        workload.step()
        made.run_for(made.random.uniform(0.0, 1.5))
    made.trouble = CALM
    workload.settle()
    made.run_for(60.0)
    return made, tapes


@pytest.mark.parametrize("seed", range(6))
def test_a_run_replays_identically_from_its_start_and_from_each_checkpoint(seed: int) -> None:
    _, tapes = recorded(seed, entries_a_part=97)
    decisions = 0
    for life in tapes.lives:
        assert life.problems == []
        for place in range(len(life.parts)):
            replay, difference = replay_of(life.parts[place:])
            assert difference is None, difference
            decisions += replay.decisions
    assert decisions > 50


@pytest.mark.parametrize("text", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_so_it_does_however_the_scheduler_is_configured(text: str) -> None:
    _, tapes = recorded(101, text, entries_a_part=150)
    for life in tapes.lives:
        for place in range(len(life.parts)):
            assert replay_of(life.parts[place:])[1] is None


class Stubborn(ImageLocality):
    """ImageLocality, changed by hand: it likes node n2 best."""

    def score(self, state: Any, pod: PodInfo, view: View, rows: Any) -> Any:
        return np.array([self.score_row(state, pod, view, row) for row in np.arange(view.table.size)[rows]], np.int64)

    def score_row(self, state: Any, pod: PodInfo, view: View, row: int) -> int:
        return 100 * (view.table.names[row] == "n2")


def with_stubborn(stated: StatedConfiguration) -> Made:
    configuration = load(stated.text)
    plugins = dict(registry(gates=configuration.gates)) | {ImageLocality.name: Stubborn}
    return Made(build_profiles(configuration, plugins), (), engine_settings(configuration))


def test_replay_is_no_echo_with_one_plugin_changed_it_names_the_first_pod_that_is_decided_otherwise() -> None:
    tapes = Tapes()
    made = World(1, engines(), CALM, tapes.door_of)
    for number in range(3):
        made.create(Kind.NODE, node_document(f"n{number}"))
    # n0 alone has the selector's label: no score matters for the first pod.
    made.change(Kind.NODE, "n0", lambda node: node["metadata"]["labels"].update(only="here"))
    made.create(Kind.POD, pod_document("first", nodeSelector={"only": "here"}))
    made.run_for(1)
    made.create(Kind.POD, pod_document("second", cpu="1"))
    made.run_for(5)
    assert made.bound()["default/second"] != "n2"
    (life,) = tapes.lives
    assert replay_of(life.parts)[1] is None
    _, difference = replay_of(life.parts, with_stubborn)
    assert difference is not None
    assert difference.pod == "default/second"
    assert made.bound()["default/second"] in str(difference.expected)
    assert "n2" in str(difference.got)


def test_questions_asked_meanwhile_change_nothing_of_what_is_recorded() -> None:
    tapes = Tapes(entries_a_part=61)
    made = World(7, engines(), ROUGH, tapes.door_of)
    workload = RandomWorkload(made)
    for _ in range(60):
        workload.step()
        made.run_for(made.random.uniform(0.0, 1.5))
        for key in made.pending():
            made.engine.preview(build(Pod, made.facts.get(Kind.POD, key) or {}), made.now)
            made.engine.cache.fork()
    for life in tapes.lives:
        for place in range(len(life.parts)):
            assert replay_of(life.parts[place:])[1] is None


def test_a_new_configuration_is_an_input_and_bindings_of_the_old_one_end_by_it() -> None:
    tapes = Tapes(entries_a_part=23)
    made = World(2, engines(), CALM, tapes.door_of)
    maker = Maker(PluginClasses())
    for number in range(3):
        made.create(Kind.NODE, node_document(f"n{number}"))
    for number in range(12):
        made.create(Kind.POD, pod_document(f"p{number}", cpu="250m"))
        made.run_for(0.02)
        if number % 3 == 2:
            strategy = ("MostAllocated", "LeastAllocated")[number // 3 % 2]
            stated = stated_of(load(FIT.format(strategy)))
            made_of = maker(stated)
            assert tapes.doors[-1].replace_profiles(stated, made_of.profiles, made_of.settings, made.now)
    made.run_for(5)
    (life,) = tapes.lives
    assert len(life.parts) > 3
    assert life.problems == []
    for place in range(len(life.parts)):
        replay, difference = replay_of(life.parts[place:])
        assert difference is None
    assert len(replay.made) == 5


FIT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: tandem-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: {}, resources: [{{name: cpu, weight: 1}}]}}}}
"""


def test_answers_of_extenders_are_inputs_and_no_checkpoint_is_made_while_one_is_awaited() -> None:
    text = CONFIGURATIONS["an extender that is down"].replace("ignorable: true", "ignorable: false")
    tapes = Tapes(text, entries_a_part=5)
    made = World(3, engines(load(text)), CALM, lambda engine: Answering(tapes.door_of(engine)))
    for number in range(3):
        made.create(Kind.NODE, node_document(f"n{number}"))
    for number in range(9):
        made.create(Kind.POD, pod_document(f"p{number}"))
    made.run_for(20)
    assert set(made.bound().values()) == {"n1"}, "the extender allows no other"
    (life,) = tapes.lives
    assert len(life.parts) > 4
    for place in range(len(life.parts)):
        assert replay_of(life.parts[place:])[1] is None


class Answering:
    """A door whose world says that every extender is down: here it is up, and allows n1 alone."""

    def __init__(self, door: RecordedEngine) -> None:
        self._door = door

    def handle(self, stimulus: Stimulus, now: Now) -> list[Command]:
        if isinstance(stimulus, ExtenderAnswered):
            stimulus = ExtenderAnswered(stimulus.ticket, b'{"NodeNames": ["n1"], "Nodes": {"items": [%s]}}' % N1)
        return self._door.handle(stimulus, now)

    def schedule_one(self, now: Now) -> list[Command] | None:
        return self._door.schedule_one(now)


N1 = b'{"metadata": {"name": "n1"}}'
