"""Simulated clusters, recorded and replayed from the start and from every checkpoint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.compose import build_profiles, engine_settings
from scheduler.config.loading import load
from scheduler.engine.recording.door import StatedConfiguration
from scheduler.engine.recording.replay import Made
from scheduler.objects.kinds import Kind
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.registry import registry
from scheduler.simulate.world_trouble import CALM, ROUGH
from scheduler.testing.documents import node_json, pod_json
from tests.engine.gangs import GANGS
from tests.engine.recording.asking import Asking
from tests.engine.recording.tapes import Tapes, replay_of
from tests.simulation.runs import CASES, EXTENDER, Case, Run, keeps_batch_from_odd_nodes
from tests.simulation.test_devices import claiming, with_gpus
from tests.simulation.test_random_runs import CONFIGURATIONS


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_run_replays_identically_from_its_start_and_from_each_checkpoint(case: Case) -> None:
    """With preemption and restarts in each, and volumes, an extender that fails at times, reloads in some."""
    tapes = Tapes(*case.configurations, entries_a_part=197)
    run = Run(5, case)
    run.world = tapes.world(5, ROUGH, case.extender)
    run.draw(60)
    assert tapes.check_parts() > 50


@pytest.mark.parametrize("text", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_so_it_does_however_the_scheduler_is_configured(text: str) -> None:
    tapes = Tapes(text, entries_a_part=250)
    run = Run(101, Case((text,)))
    run.world = tapes.world(101, ROUGH)
    run.draw(30)
    assert tapes.check_parts() > 10


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
    made = tapes.world(1)
    for number in range(3):
        made.create(Kind.NODE, node_json(f"n{number}"))
    # n0 alone has the selector's label: no score matters for the first pod.
    made.change(Kind.NODE, "n0", lambda node: node["metadata"]["labels"].update(only="here"))
    made.create(Kind.POD, pod_json("first", cpu="500m", node_selector={"only": "here"}))
    made.run_for(1)
    made.create(Kind.POD, pod_json("second", cpu="1"))
    made.run_for(5)
    assert made.bound()["default/second"] != "n2"
    (life,) = tapes.lives
    assert replay_of(life.parts)[1] is None
    _, difference = replay_of(life.parts, with_stubborn)
    assert difference is not None
    assert difference.pod == "default/second"
    assert made.bound()["default/second"] in str(difference.expected)
    assert "n2" in str(difference.got)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_questions_asked_meanwhile_change_nothing_of_what_is_recorded(case: Case) -> None:
    """Replayed without the questions, each decision is the same; some are given up on the way."""
    tapes = Tapes(*case.configurations, entries_a_part=197)
    asking = Asking(7)
    run = Run(7, case, between=asking.ask)
    run.world = tapes.world(7, ROUGH, case.extender)
    run.draw(40)
    assert asking.answered > 100
    assert tapes.check_parts() > 10


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_so_it_is_with_pod_groups_devices_and_preemption(seed: int) -> None:
    tapes = Tapes(entries_a_part=83, gates=GANGS)
    asking = Asking(seed)
    made = with_gpus(tapes.world(seed, ROUGH), nodes=3, gpus=2)
    for number in range(8):
        gang = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        made.create(Kind.POD_GROUP, {"metadata": {"name": f"g{number}", "namespace": "default"}, "spec": gang})
        claiming(made, f"c{number}")
        for member in range(2):
            group = {"podGroupName": f"g{number}"}
            made.create(Kind.POD, pod_json(f"g{number}-{member}", cpu="12", spec={"schedulingGroup": group}))
        made.create(Kind.POD, pod_json(f"low-{number}", cpu="20"))
        made.create(Kind.POD, pod_json(f"high-{number}", cpu="20", priority=100 * number))
        made.run_for(made.random.uniform(0.0, 1.5))
        asking.ask(made)
        for key in sorted(made.bound())[::5]:
            if made.facts.get(Kind.POD, key) is not None and made.random.random() < 0.5:
                made.delete(Kind.POD, key)
    made.trouble = CALM
    made.run_for(400)
    asking.ask(made)
    attempts = "\n".join(made.journal)
    assert len(made.bound()) > 5
    assert "default/g0-0" in attempts and "default/high-7" in attempts
    assert tapes.check_parts() > 30


def test_a_new_configuration_is_an_input_and_bindings_of_the_old_one_end_by_it() -> None:
    tapes = Tapes(FIT.format("LeastAllocated"), FIT.format("MostAllocated"), entries_a_part=23)
    made = tapes.world(2)
    for number in range(3):
        made.create(Kind.NODE, node_json(f"n{number}"))
    for number in range(12):
        made.create(Kind.POD, pod_json(f"p{number}", cpu="250m"))
        made.run_for(0.02)
        if number % 3 == 2:
            assert tapes.reload(made.engine, (number // 3 + 1) % 2, made.now)
    made.run_for(5)
    tapes.check_parts()
    (life,) = tapes.lives
    assert len(life.parts) > 3
    assert len(replay_of(life.parts)[0].made) == 5


FIT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: tandem-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: {}, resources: [{{name: cpu, weight: 1}}]}}}}
"""


def test_no_checkpoint_is_made_while_an_extender_is_awaited() -> None:
    tapes = Tapes(EXTENDER, entries_a_part=1)
    made = tapes.world(3, extender=keeps_batch_from_odd_nodes)
    for number in range(3):
        made.create(Kind.NODE, node_json(f"node-{number}"))
    for number in range(9):
        made.create(Kind.POD, pod_json(f"batch-{number}", cpu="500m", labels={"app": "batch"}))
    made.run_for(20)
    assert len(made.bound()) == 9
    tapes.check_parts()
    (life,) = tapes.lives
    assert len(life.parts) > 20
    assert max(len(part.entries) for part in life.parts) > 1, "a part goes on while the answer is awaited"
