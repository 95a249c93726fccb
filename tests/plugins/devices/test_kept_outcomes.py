"""What is kept of what nodes have said is bounded, however many have come and gone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.devices.answers import MAX_KEPT, NodeAnswers
from scheduler.cluster.devices.looks import Looks
from scheduler.objects.kinds import Kind
from scheduler.objects.steps import Pace, Steps, run_to_end
from scheduler.plugins.devices.dynamic_resources import DynamicResources
from scheduler.plugins.devices.one_node import Outcome
from scheduler.plugins.devices.outcomes import outcomes
from scheduler.plugins.devices.situation import Situation, situation_of
from tests.device_documents import DRIVER, claim, device_class, gpu, resource_slice
from tests.plugins.clusters import refusals
from tests.plugins.devices.test_dynamic_resources import claiming, devices, parsed


def asked(count: int = 2) -> tuple[ClusterCache, NodeAnswers]:
    """A cluster of which a pod with a claim has been asked about."""
    cache = devices(count, claim("one", "gpus"))
    assert not refusals(DynamicResources(), claiming("one"), cache.view)
    (answers,) = cache.devices.answers
    return cache, answers


def test_of_a_class_that_has_changed_no_device_that_it_selected_before_will_do() -> None:
    cache, _ = asked()
    cache.observe_object(Kind.DEVICE_CLASS, parsed(device_class("gpus", "false")))
    assert refusals(DynamicResources(), claiming("one"), cache.view).keys() == {"n0", "n1"}


def test_outcomes_of_nodes_that_are_gone_give_way() -> None:
    cache, answers = asked()
    for number in range(MAX_KEPT + 10):
        answers.number(Outcome(points=1 + number))
    assert not refusals(DynamicResources(), claiming("one"), cache.view)
    assert len(answers.outcomes) == 1


def test_looks_of_nodes_that_are_gone_give_way() -> None:
    cache, answers = asked()
    for number in range(MAX_KEPT + 10):
        answers.of_signature[number + 10, ()] = 0
    assert not refusals(DynamicResources(), claiming("one"), cache.view)
    assert len(answers.of_signature) == 1


def different_nodes(count: int, max_looks: int = 2, earlier: int = 0) -> ClusterCache:
    """Nodes whose devices differ; the claim ``one`` wants a device of the last one. They had other devices ``earlier``,
    that many times."""
    is_last = device_class("last", f'device.attributes["{DRIVER}"].place == {count - 1}')
    cache = devices(count, is_last, claim("one", "last"))
    cache.devices.looks = Looks(max_looks)
    for version in range(-earlier, 1):
        for number in range(count):
            found = [gpu(f"gpu-{place}{version}", attributes={"place": number}) for place in range(30)]
            cache.observe_object(Kind.RESOURCE_SLICE, parsed(resource_slice(f"n{number}", *found)))
        if version < 0:
            run_to_end(question(cache, range(count), Pace()))
    return cache


def question(cache: ClusterCache, order: Sequence[int], pace: Pace) -> Steps[list[bool]]:
    """Whether each node of these rows fits."""
    pod, view = claiming("one"), cache.view
    situation = situation_of(pod, view)
    assert isinstance(situation, Situation)
    numbers, found = yield from outcomes(situation, pod, view, np.array(order), 200_000, pace)
    return [found[number].refusal is None for number in numbers.tolist()]


def test_more_looks_than_are_kept_are_numbered_once() -> None:
    cache = different_nodes(5)
    for _ in range(3):
        assert run_to_end(question(cache, range(5), Pace())) == [False] * 4 + [True]
    assert cache.devices.looks.version == 0


def test_looks_that_no_node_has_any_more_are_forgotten() -> None:
    cache = different_nodes(3)
    for place in range(20):
        cache.observe_object(Kind.RESOURCE_SLICE, parsed(resource_slice("n0", gpu(f"another-{place}"))))
        assert run_to_end(question(cache, range(3), Pace())) == [False, False, True]
    # Three are in use: at most six more are kept, and the next three.
    assert 3 <= cache.devices.looks.version <= 6


@pytest.mark.parametrize("crowds", ["answers", "looks"])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_a_question_in_the_pause_of_another_drops_nothing_that_this_has_in_hand(crowds: str, order: list[int]) -> None:
    pauses = 0
    while True:
        cache = different_nodes(3, max_looks=6, earlier=2 if crowds == "looks" else 0)
        wanted = [row == 2 for row in order]
        first = question(cache, order, Pace(1))
        try:
            for _ in range(pauses + 1):
                next(first)
        except StopIteration:
            break
        pauses += 1
        if crowds == "answers":
            (answers,) = cache.devices.answers
            answers.of_signature |= {(-number, ()): 0 for number in range(1, MAX_KEPT + 10)}
        meanwhile = run_to_end(question(cache, order[::-1], Pace()))
        assert (meanwhile[::-1], run_to_end(first)) == (wanted, wanted)
        assert run_to_end(question(cache, order, Pace())) == wanted
    assert pauses > 5
