"""Where every pod is after every step of 400 scripted sequences, as kube-scheduler 1.36 has it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from scheduler.framework.plugin import Plugin
from scheduler.plugins.registry import BUILT_IN
from tests.queue.vectors import DIFFERENCES, ScriptedCluster, comparable, differences, scenarios

SCENARIOS = {scenario["id"]: scenario for scenario in scenarios()}


@pytest.fixture(scope="module")
def plugins() -> tuple[Plugin, ...]:
    return tuple(plugin(plugin.Args()) if plugin.Args is not None else plugin() for plugin in BUILT_IN)


@pytest.mark.parametrize("steps_a_slice", [0, 1], ids=["whole", "sliced"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_pod_is_where_kube_scheduler_has_it(name: str, steps_a_slice: int, plugins: tuple[Plugin, ...]) -> None:
    scenario = deepcopy(SCENARIOS[name])  # carrying it out changes it
    cluster = ScriptedCluster(scenario, plugins, steps_a_slice)
    differing_step, _why = DIFFERENCES.get(name, (None, ""))
    for number, (step, expected) in enumerate(zip(scenario["steps"], scenario["expect"], strict=True)):
        popped = cluster.run(step)
        found = differences(comparable(expected), cluster.state())
        if number == differing_step:
            assert found, "a difference that was on purpose is no longer there"
            return
        assert not found, f"after step {number}, {_short(step)}:\n" + "\n".join(found)
        wrong_hints = cluster.wrong_hints(expected.get("events"))
        assert not wrong_hints, f"in step {number}, {_short(step)}:\n" + "\n".join(wrong_hints)
        if step["op"] == "pop":
            assert popped == expected["pop"], f"step {number}"


def test_there_are_as_many_scenarios_as_were_given() -> None:
    assert len(SCENARIOS) == 400


def _short(step: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in step.items() if name not in ("old", "new")}
