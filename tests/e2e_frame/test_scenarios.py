from __future__ import annotations

import pytest

from e2e.bench.scenarios import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_objects_of_a_scenario_have_distinct_names(name: str) -> None:
    scenario = SCENARIOS[name]
    things = [*scenario.existing(20, 20), *scenario.arriving(20, 20)]
    if scenario.noise:
        things += scenario.noise(20, 20)
    keys = [(thing["kind"], thing["metadata"]["name"]) for thing in things]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_the_same_each_time(name: str) -> None:
    scenario = SCENARIOS[name]
    assert list(scenario.existing(10, 10)) == list(scenario.existing(10, 10))
    assert list(scenario.arriving(10, 10)) == list(scenario.arriving(10, 10))


@pytest.mark.parametrize("name", SCENARIOS)
def test_as_many_pods_arrive_as_were_asked_for_and_none_has_a_node(name: str) -> None:
    pods = list(SCENARIOS[name].arriving(7, 30))
    assert len(pods) == 30
    assert not any("nodeName" in pod["spec"] for pod in pods)


def test_pods_that_are_there_already_stand_on_nodes_that_are_there() -> None:
    for scenario in SCENARIOS.values():
        things = list(scenario.existing(25, 25))
        nodes = {thing["metadata"]["name"] for thing in things if thing["kind"] == "Node"}
        assert {thing["spec"]["nodeName"] for thing in things if thing["kind"] == "Pod"} <= nodes


def test_only_pods_that_are_created_meanwhile_come_at_a_rate() -> None:
    assert all(scenario.meanwhile for scenario in SCENARIOS.values() if scenario.rate is not None)
