"""What is kept of what nodes have said is bounded, however many have come and gone."""

from __future__ import annotations

import pytest

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.devices.answers import MAX_CODES, MAX_KEPT, NodeAnswers
from scheduler.plugins.devices.dynamic_resources import DynamicResources
from scheduler.plugins.devices.one_node import Outcome
from tests.device_documents import claim
from tests.plugins.clusters import refusals
from tests.plugins.devices.test_dynamic_resources import claiming, devices


def asked(count: int = 2) -> tuple[ClusterCache, NodeAnswers]:
    """A cluster of which a pod with a claim has been asked about."""
    cache = devices(count, claim("one", "gpus"))
    assert not refusals(DynamicResources(), claiming("one"), cache.view)
    (answers,) = cache.devices.answers
    return cache, answers


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


@pytest.mark.parametrize("rows", [1, 5_000, 15_000])
def test_a_question_has_a_code_for_each_of_its_rows(rows: int) -> None:
    answers = NodeAnswers()
    while not answers.is_crowded(rows):
        answers.number(Outcome(points=1 + len(answers.outcomes)))
    assert len(answers.outcomes) - 1 + rows <= MAX_CODES
