from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.config.tandem import PDBPolicy
from scheduler.framework.plugin import FilterPlugin, Rows, State, Verdicts
from scheduler.framework.preemption_policy import UPSTREAM_POLICY, PreemptionPolicy
from scheduler.messages.status import Code, Refusal
from scheduler.objects.budget import PodDisruptionBudget
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.preemption.dry_run import Candidate, dry_run_node, trial_of
from scheduler.testing.fragments import affinity_json, pod_term, spread_json
from scheduler.testing.objects import node, pod
from tests.builders import budget
from tests.preemption.situations import Situation, names

WEB = {"app": "web"}


def running(name: str, cpu: str, priority: int = 0, **fields: Any) -> Pod:
    return pod(name, cpu=cpu, priority=priority, node=fields.pop("node", "n1"), **fields)


def dry_run(
    preemptor: Pod,
    pods: Sequence[Pod],
    *,
    budgets: Sequence[PodDisruptionBudget] = (),
    policy: PreemptionPolicy = UPSTREAM_POLICY,
    nodes: Sequence[Node] = (),
    plugins: Sequence[FilterPlugin] = (),
) -> Candidate | Refusal:
    situation = Situation(nodes or [node("n1", cpu="4")], pods, budgets, plugins)
    context = situation.attempt(preemptor, statuses={})
    row = context.view.table.row("n1")
    assert row is not None
    before = dict(context.view.table.pods[row])
    answer = dry_run_node(trial_of(context, policy), row)
    assert context.view.table.pods[row] == before
    situation.cache.check()
    return answer


def victims(*args: Any, **fields: Any) -> list[str]:
    answer = dry_run(*args, **fields)
    assert isinstance(answer, Candidate), answer
    return names(answer)


def test_as_many_of_the_most_important_pods_as_possible_stay() -> None:
    pods = [running("low", "1"), running("high", "1", 5), running("middle", "1", 3), running("lowest", "1", -5)]
    assert victims(pod(cpu="2", priority=9), pods) == ["low", "lowest"]


def test_a_large_important_pod_may_go_where_smaller_ones_can_stay() -> None:
    assert victims(pod(cpu="2", priority=9), [running("large", "3", 5), running("small", "1")]) == ["large"]


def test_pods_as_important_as_the_preemptor_are_no_victims() -> None:
    answer = dry_run(pod(cpu="2", priority=9), [running("equal", "2", 9), running("higher", "2", 10)])
    assert answer == Refusal(Code.UNRESOLVABLE, ("No preemption victims found for incoming pod",))


def test_where_it_does_not_fit_even_with_all_victims_gone_the_filter_says_why() -> None:
    answer = dry_run(pod(cpu="3", priority=9), [running("low", "2"), running("equal", "2", 9)])
    assert answer == Refusal(Code.UNSCHEDULABLE, ("Insufficient cpu",), "NodeResourcesFit")


def test_terminating_pods_are_potential_victims_like_others() -> None:
    dying = running("dying", "4", deleted="2026-01-01T00:00:00Z")
    assert victims(pod(cpu="2", priority=9), [dying]) == ["dying"]


def test_pods_under_an_exhausted_budget_are_given_back_first() -> None:
    pods = [running("high", "2", 5), running("guarded", "2", 1, labels=WEB)]
    assert victims(pod(cpu="2", priority=9), pods, budgets=[budget("b", WEB, allowed=0)]) == ["high"]
    assert victims(pod(cpu="2", priority=9), pods, budgets=[budget("b", WEB, allowed=1)]) == ["guarded"]


def test_victims_are_in_order_of_importance_whatever_their_budgets() -> None:
    pods = [running("high", "2", 5), running("guarded", "2", 1, labels=WEB)]
    answer = dry_run(pod(cpu="4", priority=9), pods, budgets=[budget("b", WEB, allowed=0)])
    assert isinstance(answer, Candidate)
    assert (names(answer), answer.pdb_violations) == (["high", "guarded"], 1)


def test_only_violations_that_remain_count() -> None:
    pods = [running(f"guarded-{place}", "1", place, labels=WEB) for place in range(4)]
    answer = dry_run(pod(cpu="2", priority=9), pods, budgets=[budget("b", WEB, allowed=1)])
    assert isinstance(answer, Candidate)
    assert (names(answer), answer.pdb_violations) == (["guarded-3", "guarded-0"], 1)


def test_a_strict_policy_drops_nodes_where_a_budget_would_be_violated() -> None:
    strict = PreemptionPolicy(pdb_policy=PDBPolicy.STRICT)
    pods = [running("guarded", "4", labels=WEB)]
    answer = dry_run(pod(cpu="2", priority=9), pods, budgets=[budget("b", WEB, allowed=0)], policy=strict)
    assert isinstance(answer, Refusal) and answer.code is Code.UNSCHEDULABLE
    assert victims(pod(cpu="2", priority=9), pods, budgets=[budget("b", WEB, allowed=1)], policy=strict) == ["guarded"]


def test_only_pods_of_the_schedulers_within_reach_are_removed() -> None:
    ours = PreemptionPolicy(victim_schedulers=frozenset({"tandem-scheduler"}))
    pods = [running("ours", "1"), running("theirs", "3", scheduler="default-scheduler")]
    assert victims(pod(cpu="1", priority=9), pods, policy=ours) == ["ours"]
    assert isinstance(dry_run(pod(cpu="2", priority=9), pods, policy=ours), Refusal)


def test_anti_affinity_takes_the_conflicting_pod_and_no_other() -> None:
    spread_out = affinity_json(anti_required=[pod_term(WEB, "kubernetes.io/hostname")])
    pods = [running("web", "1", 5, labels=WEB), running("other", "1", 1)]
    assert victims(pod(priority=9, affinity=spread_out), pods) == ["web"]
    keeps_away = affinity_json(anti_required=[pod_term({"app": "me"}, "kubernetes.io/hostname")])
    guards = [running("guard", "1", 1, affinity=keeps_away), running("other", "1", 1)]
    assert victims(pod(priority=9, labels={"app": "me"}), guards) == ["guard"]


def test_required_affinity_to_a_victim_keeps_it_or_leaves_no_candidate() -> None:
    together = affinity_json(required=[pod_term(WEB, "kubernetes.io/hostname")])
    answer = dry_run(pod(cpu="2", priority=9, affinity=together), [running("web", "4", labels=WEB)])
    assert isinstance(answer, Refusal) and answer.plugin == "InterPodAffinity"


def test_pods_on_other_nodes_are_never_victims() -> None:
    nodes = [node("n1", zone="z"), node("n2", zone="z")]
    apart = affinity_json(anti_required=[pod_term(WEB, "topology.kubernetes.io/zone")])
    pods = [running("web", "1", labels=WEB, node="n2"), running("bystander", "1")]
    answer = dry_run(pod(priority=9, affinity=apart), pods, nodes=nodes)
    assert isinstance(answer, Refusal) and answer.plugin == "InterPodAffinity"


def test_a_spread_constraint_is_met_by_removing_pods_that_it_counts() -> None:
    nodes = [node("n1", zone="a"), node("n2", zone="b")]
    even = [spread_json("topology.kubernetes.io/zone", WEB)]
    pods = [running("w1", "1", 2, labels=WEB), running("w2", "1", 1, labels=WEB), running("other", "1")]
    assert victims(pod(priority=9, labels=WEB, spread=even), pods, nodes=nodes) == ["w1", "w2"]
    pods.append(running("w3", "1", 20, labels=WEB, node="n2"))
    assert victims(pod(priority=9, labels=WEB, spread=even), pods, nodes=nodes) == ["w2"]


def test_host_ports_are_freed_by_removing_their_user() -> None:
    pods = [running("user", "1", 5, ports=[80]), running("other", "1", 1, ports=[81])]
    assert victims(pod(priority=9, ports=[80]), pods) == ["user"]


def test_room_is_made_beside_pods_that_are_nominated_there() -> None:
    pods = [running("a", "2", 2), running("b", "2", 1)]
    equal = pod("nominated", cpu="2", priority=9, nominated="n1")
    lower = pod("nominated", cpu="2", priority=8, nominated="n1")
    assert victims(pod(cpu="2", priority=9), [*pods, equal]) == ["a", "b"]
    assert victims(pod(cpu="2", priority=9), [*pods, lower]) == ["b"]
    assert victims(equal, [*pods, equal]) == ["b"]


def test_a_node_that_lacks_nothing_is_no_candidate() -> None:
    answer = dry_run(pod(cpu="1", priority=9), [running("low", "1")])
    assert isinstance(answer, Refusal) and answer.code is Code.UNRESOLVABLE


class Failing(FilterPlugin):
    name = "Failing"

    def filter(self, state: State, pod: Any, view: Any, rows: Rows) -> Verdicts | None:
        raise ValueError("broken")


def test_a_plugin_that_raises_is_an_error_of_the_node_and_is_named() -> None:
    situation = Situation([node("n1", cpu="4")], [running("low", "4")])
    context = situation.attempt(pod(cpu="2", priority=9))
    context.profile.filter_plugins.append(Failing())  # type: ignore[attr-defined]
    answer = dry_run_node(trial_of(context, UPSTREAM_POLICY), 0)
    assert answer == Refusal(Code.ERROR, ("plugin Failing failed in Filter: ValueError: broken",))


@pytest.mark.parametrize("priority", [-(2**31), -1, 0, 10**9])
def test_any_priority_can_be_a_victim_of_a_higher_one(priority: int) -> None:
    assert victims(pod(cpu="2", priority=priority + 1), [running("low", "4", priority)]) == ["low"]
    assert isinstance(dry_run(pod(cpu="2", priority=priority), [running("low", "4", priority)]), Refusal)
