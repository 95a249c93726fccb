from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.cluster.groups.facts import Groups
from scheduler.config.args import decode_args
from scheduler.framework.events import Action, ClusterEvent, Hint, Resource
from scheduler.framework.post_filter import PostFilterAnswer, nominate
from scheduler.framework.preemption_policy import PreemptionPolicy
from scheduler.messages.status import unresolvable
from scheduler.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from scheduler.testing.objects import node, pod
from tests.plugins.clusters import info
from tests.preemption.situations import Situation, evidence_of


@dataclass
class Removing:
    uids: frozenset[str]
    groups: Groups = field(default_factory=Groups)

    def is_removing_victims_for(self, uid: str) -> bool:
        return uid in self.uids

    def preemptors_held_back(self) -> frozenset[str]:
        return self.uids

    def lookup(self, kind: Any, key: str) -> Any:
        raise AssertionError("nothing else is asked")


def test_a_pod_is_held_back_while_its_victims_are_being_removed() -> None:
    plugin = DefaultPreemption()
    waiting = info("waiting")
    refusal = unresolvable("waiting for the preemption for this pod to be finished")
    assert plugin.pre_enqueue(waiting, Removing(frozenset({waiting.uid}))) == refusal
    assert plugin.pre_enqueue(waiting, Removing(frozenset({"another"}))) is None


def test_it_hears_of_deleted_pods_and_leaves_it_to_the_other_plugins_whether_they_help() -> None:
    (registration,) = DefaultPreemption().events()
    assert registration.event == ClusterEvent(Resource.POD, Action.DELETE)
    assert registration.hint(info("waiting"), info("gone"), None) is Hint.SKIP


def test_it_nominates_the_node_whose_victims_matter_least() -> None:
    situation = Situation(
        [node("n1"), node("n2")],
        [pod("a", cpu="4", priority=2, node="n1"), pod("b", cpu="4", priority=1, node="n2")],
    )
    plugin = DefaultPreemption(DefaultPreemptionArgs(min_candidate_nodes_percentage=100))
    for _ in range(2):
        answer = plugin.post_filter(situation.attempt(pod(cpu="3", priority=9)))
        assert answer.nomination == nominate("n2")
        assert [victim.name for victim in evidence_of(answer).victims] == ["b"]


def test_between_the_halves_candidates_may_be_dropped() -> None:
    situation = Situation([node("n1")], [pod("a", cpu="4", priority=2, node="n1")])
    plugin = DefaultPreemption()
    context = situation.attempt(pod(cpu="3", priority=9))
    begun = plugin.begin(context)
    assert not isinstance(begun, PostFilterAnswer)
    assert plugin.conclude(context, begun).nomination == nominate("n1")


def test_the_policy_comes_with_the_context() -> None:
    situation = Situation([node("n1")], [pod("a", cpu="4", priority=2, node="n1")])
    context = situation.attempt(pod("mine", cpu="3", priority=9))
    assert DefaultPreemption().post_filter(context).status is None
    policy = PreemptionPolicy(excluded_nodes={"n1": "not here"})
    assert DefaultPreemption().post_filter(replace(context, policy=policy)).status is not None


def test_by_default_ten_percent_but_at_least_a_hundred_candidates_are_enough() -> None:
    args, faults = decode_args(DefaultPreemptionArgs, None, "args", "DefaultPreemption")
    assert (args, faults) == (DefaultPreemptionArgs(10, 100), ())


@pytest.mark.parametrize(
    ("percentage", "absolute", "faults"),
    [
        (0, 1, ()),
        (100, 0, ()),
        (101, 0, (("args.minCandidateNodesPercentage", "Invalid value: 101: not in valid range [0, 100]"),)),
        (-1, 0, (("args.minCandidateNodesPercentage", "Invalid value: -1: not in valid range [0, 100]"),)),
        (10, -1, (("args.minCandidateNodesAbsolute", "Invalid value: -1: not in valid range [0, inf)"),)),
        (
            0,
            0,
            (
                (
                    "args.minCandidateNodesPercentage",
                    "Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute",
                ),
                (
                    "args.minCandidateNodesAbsolute",
                    "Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage",
                ),
            ),
        ),
    ],
)
def test_arguments_out_of_range_are_named(percentage: int, absolute: int, faults: tuple[tuple[str, str], ...]) -> None:
    args = DefaultPreemptionArgs(percentage, absolute)
    assert DefaultPreemption.validate_args(args, "args") == faults
