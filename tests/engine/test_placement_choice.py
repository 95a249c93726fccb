"""Which of several domains a group gets, by the scores of plugins (docs/kube-scheduler/podgroups.md §7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from scheduler.engine.group_attempt import GroupResult
from scheduler.framework.placements import Placed, PlacementScorePlugin
from tests.engine.gangs import TOPOLOGY, Gangs, topology, zones

ONLY_THIS: dict[str, Any] = {
    "plugins": {"placementScore": {"disabled": [{"name": "*"}], "enabled": [{"name": "Taste"}]}}
}


class Taste(PlacementScorePlugin):
    """Scores domains by their names."""

    name = "Taste"
    likes: ClassVar[dict[str, int]] = {}
    looked_at: ClassVar[list[str]] = []

    def score_placement(self, placed: Placed) -> int:
        self.looked_at.append(placed.placement.name)
        return self.likes[placed.placement.name]


class ChangingTaste(Taste):
    """Of two domains the second is better, of three the first."""

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int]:
        return [100, 0, 0] if len(scores) > 2 else [0, 100][: len(scores)]


class ForgetfulTaste(Taste):
    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int]:
        return scores[1:]


class BrokenTaste(Taste):
    def score_placement(self, placed: Placed) -> int:
        raise ValueError("no taste")


def three_zones(plugin: type[Taste], likes: dict[str, int], seed: int = 1, rooms: str = "abc") -> Gangs:
    plugin.likes = likes
    Taste.looked_at.clear()
    cluster = Gangs(TOPOLOGY, plugins=[plugin], profile=ONLY_THIS, seed=seed)
    zones(cluster, **dict.fromkeys(rooms, "2"))
    cluster.group(min_count=3, **topology())
    cluster.members(3, cpu="1")
    return cluster


def zone_of(cluster: Gangs) -> str:
    (zone,) = {node[0] for node in cluster.bound().values()}
    return zone


@pytest.mark.parametrize("best", "abc")
def test_the_domain_with_the_best_score_is_taken_whichever_comes_first(best: str) -> None:
    cluster = three_zones(Taste, {"a": 1, "b": 1, "c": 1} | {best: 2})
    cluster.schedule_all()
    assert zone_of(cluster) == best
    assert len(cluster.bound()) == 3


def test_a_domain_that_is_best_only_beside_a_later_one_is_taken_all_the_same() -> None:
    cluster = three_zones(ChangingTaste, {"a": 0, "b": 0, "c": 0})
    cluster.schedule_all()
    assert zone_of(cluster) == "a"
    assert len(cluster.bound()) == 3


def test_each_of_equally_good_domains_is_taken_by_chance() -> None:
    taken = set()
    for seed in range(40):
        cluster = three_zones(Taste, {"a": 1, "b": 1, "c": 1}, seed=seed)
        cluster.schedule_all()
        taken.add(zone_of(cluster))
    assert taken == {"a", "b", "c"}


def test_one_step_scores_one_domain_so_that_other_pods_wait_for_no_more() -> None:
    cluster = three_zones(Taste, {"a": 1, "b": 2, "c": 3})
    most = before = 0
    while cluster.engine.schedule_one(cluster.now) is not None:
        most, before = max(most, len(Taste.looked_at) - before), len(Taste.looked_at)
    assert sorted(Taste.looked_at) == ["a", "b", "c"]
    assert most == 1


@pytest.mark.parametrize(
    ("plugin", "cause"), [(BrokenTaste, "no taste"), (ForgetfulTaste, "zip() argument 2 is shorter than argument 1")]
)
def test_a_plugin_that_cannot_choose_between_domains_is_named(plugin: type[Taste], cause: str) -> None:
    cluster = three_zones(plugin, {"a": 1, "b": 1, "c": 1})
    cluster.schedule_all()
    assert cluster.bound() == {}
    remembered = cluster.engine.group_reports.of("default/g")
    assert remembered is not None
    assert remembered.attempt.result is GroupResult.ERROR
    assert remembered.attempt.message.startswith('running PlacementScore plugin "Taste": ')
    assert cause in remembered.attempt.message


def test_a_plugin_is_not_asked_where_there_is_nothing_to_choose() -> None:
    cluster = three_zones(BrokenTaste, {}, rooms="a")
    cluster.schedule_all()
    assert zone_of(cluster) == "a"


def steps_of_a_gang_of_six(rooms: str) -> int:
    cluster = Gangs(TOPOLOGY)
    zones(cluster, **dict.fromkeys(rooms, "1"))
    cluster.group(min_count=6, **topology())
    cluster.members(6, cpu="1")
    steps = 0
    while cluster.engine.schedule_one(cluster.now) is not None:
        steps += 1
    return steps


def test_a_further_domain_is_given_up_with_the_member_that_puts_the_quorum_out_of_reach() -> None:
    """Two of six members find room in each domain: the first says why each of the others does not, the second and the
    third are left after the third member."""
    assert steps_of_a_gang_of_six("abc") - steps_of_a_gang_of_six("a") == 2 * 3
