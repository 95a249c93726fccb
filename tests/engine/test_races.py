"""Preemption while everything else goes on: what kube-scheduler's own tests set up, and what must come of it.

Unless said otherwise there is one node of 4 CPU; nothing is answered before the test says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.attempt import UNSCHEDULABLE
from scheduler.engine.commands import BindPod, DeletePod, PatchPodStatus, RunPlugin
from scheduler.framework.plugin import PreFlight, State, Wait
from scheduler.framework.status import SKIP, unresolvable, unschedulable
from scheduler.objects.pod import Pod
from tests import builders
from tests.engine.driver import Cluster
from tests.engine.scripted import calls_of, scripted

GATED = "waiting for the preemption for this pod to be finished"


def cluster_of(cpu: str = "4", **fields: Any) -> Cluster:
    cluster = Cluster(**fields)
    cluster.node("n", cpu=cpu)
    return cluster


def running(
    cluster: Cluster, count: int, cpu: str = "1", *, priority: int = 1, name: str = "low", node: str = "n"
) -> None:
    for number in range(count):
        cluster.pod(f"{name}{number}", cpu=cpu, priority=priority, node=node)


def is_gated(cluster: Cluster, name: str) -> bool:
    """Activated, the pod stays where it is."""
    cluster.engine.queue.activate([f"default/{name}"], cluster.now)
    return cluster.place(name) == "gated"


def remove(cluster: Cluster, *names: str) -> None:
    """The writes about these victims arrive."""
    for name in names:
        cluster.succeed(cluster.write(PatchPodStatus, name))
        cluster.succeed(cluster.write(DeletePod, name))


def own_status(cluster: Cluster, *names: str) -> None:
    for name in names:
        for patch in cluster.writes(PatchPodStatus, name):
            cluster.succeed(patch)


def bound(cluster: Cluster, name: str) -> str:
    pod = cluster.pods.get(f"default/{name}")
    return "" if pod is None else pod.node_name


# --- basic ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("victims", [1, 2])
def test_a_preemptor_is_gated_until_its_victims_are_removed(victims: int) -> None:
    """1, 2."""
    cluster = cluster_of()
    running(cluster, victims, str(4 // victims))
    cluster.pod("high", cpu="4", priority=100)
    attempt = cluster.schedule()
    assert attempt is not None and attempt.result == UNSCHEDULABLE
    assert is_gated(cluster, "high")
    remove(cluster, *(f"low{number}" for number in range(victims)))
    assert cluster.schedule() is not None
    assert cluster.node_of("high") == "n"


class _Counting(State):
    """Pods that are on the node of a view."""

    def __init__(self, count: int) -> None:
        self.count = count

    def with_pod(self, view: Any, row: int, other: Any, sign: int) -> State:
        return _Counting(self.count + sign)


@pytest.mark.parametrize("kind", ["plain", "with state"])
def test_any_filter_can_be_satisfied_by_preemption(kind: str) -> None:
    """3."""
    plugin = scripted("OneEach", filter=lambda pod, node: None)
    if kind == "plain":
        plugin.filter_one = lambda self, state, pod, node, there: (  # type: ignore[attr-defined]
            unschedulable("taken") if there.pods else None
        )
    else:
        plugin = scripted("OneEach", pre_filter=lambda pod: None, filter=lambda pod, node: None)
        plugin.pre_filter = lambda self, pod, view: _Counting(int(view.table.pod_count.sum()))  # type: ignore[attr-defined]
        plugin.filter_one = lambda self, state, pod, node, there: (  # type: ignore[attr-defined]
            unschedulable("taken") if state.count else None
        )
    cluster = Cluster(plugin)
    cluster.node("n")
    running(cluster, 1)
    cluster.lingering = {"low0"}
    cluster.pod("high", priority=100)
    cluster.schedule()
    cluster.settle()
    low = cluster.pods["default/low0"]
    assert low.metadata.deletion_timestamp is not None
    assert low.condition("DisruptionTarget") is not None
    assert cluster.pods["default/high"].nominated_node_name == "n"


def test_a_refusal_that_no_eviction_changes_means_no_preemption() -> None:
    """4."""
    cluster = Cluster(scripted("Never", filter=lambda pod, node: unresolvable("never")))
    cluster.node("n")
    running(cluster, 1)
    cluster.pod("high", priority=100)
    cluster.schedule()
    assert cluster.nominated("high") == ""
    cluster.settle()
    assert "default/low0" in cluster.pods


@pytest.mark.parametrize(("priority", "dies"), [(1, True), (100, False), (200, False)])
def test_anti_affinity_removes_just_the_pod_in_conflict_if_it_is_less_important(priority: int, dies: bool) -> None:
    """5."""
    cluster = cluster_of()
    conflict = builders.affinity_json(anti_required=[builders.pod_term({"app": "high"})])
    cluster.pod("bystander", cpu="1", node="n", priority=1)
    cluster.pod("conflicting", cpu="1", node="n", priority=priority, affinity=conflict)
    cluster.pod("high", cpu="1", priority=100, labels={"app": "high"})
    cluster.schedule()
    cluster.settle()
    assert "default/bystander" in cluster.pods
    assert ("default/conflicting" not in cluster.pods) is dies
    assert bound(cluster, "high") == ("n" if dies else "")


@pytest.mark.parametrize("how", ["never", "disabled"])
def test_a_pod_that_must_not_preempt_waits(how: str) -> None:
    """6."""
    disabled = {"plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}}
    cluster = cluster_of(profile=disabled if how == "disabled" else None)
    running(cluster, 4)
    cluster.pod("high", cpu="4", priority=100, preemption_policy="Never" if how == "never" else None)
    cluster.schedule()
    cluster.settle()
    assert cluster.place("high") == "unschedulable"
    assert cluster.pods["default/high"].nominated_node_name == ""
    assert len(cluster.pods) == 5


# --- rivals -----------------------------------------------------------------------------------------------------------


def test_a_less_important_pod_respects_a_running_preemption() -> None:
    """8."""
    cluster = cluster_of()
    running(cluster, 2, "2")
    cluster.pod("high", cpu="4", priority=100)
    cluster.schedule()
    own_status(cluster, "high")
    cluster.pod("mid", cpu="4", priority=50)
    attempt = cluster.schedule()
    assert attempt is not None and attempt.pod == "default/mid"
    assert (attempt.victims, cluster.nominated("mid")) == ((), "")
    own_status(cluster, "mid")
    remove(cluster, "low0", "low1")
    cluster.settle()
    assert (bound(cluster, "high"), bound(cluster, "mid")) == ("n", "")


def test_a_more_important_pod_picks_the_same_victims_and_wins() -> None:
    """9."""
    cluster = cluster_of()
    running(cluster, 4)
    cluster.pod("high", cpu="4", priority=100)
    cluster.schedule()
    high_patches = {patch.pod.name: patch for patch in cluster.writes(PatchPodStatus)}
    cluster.pod("super", cpu="4", priority=200)
    attempt = cluster.schedule()
    assert attempt is not None and len(attempt.victims) == 4
    assert is_gated(cluster, "high") and is_gated(cluster, "super")
    own_status(cluster, "high", "super")
    for victim in ("low0", "low1", "low2"):
        cluster.succeed(next(each for each in cluster.writes(PatchPodStatus, victim) if each != high_patches[victim]))
        cluster.succeed(cluster.write(DeletePod, victim))
    remove(cluster, "low3")
    for victim in ("low0", "low1", "low2"):
        cluster.fail(high_patches[victim], 404, "not found")
    cluster.settle()
    assert (bound(cluster, "super"), bound(cluster, "high")) == ("n", "")
    assert not cluster.engine.removals._running
    assert cluster.ended_removals() == {"success": 2}


def test_two_preemptors_on_one_node_both_get_their_room() -> None:
    """10."""
    cluster = cluster_of()
    running(cluster, 4)
    cluster.pod("high", cpu="2", priority=100)
    cluster.pod("mid", cpu="2", priority=50)
    first, second = cluster.schedule(), cluster.schedule()
    assert first is not None and second is not None
    assert len(first.victims) == 2
    assert set(second.victims) == {f"default/low{number}" for number in range(4)}, (
        "beside the nominated one nobody fits"
    )
    cluster.settle()
    assert (bound(cluster, "high"), bound(cluster, "mid")) == ("n", "n")


def test_a_preemptor_whose_room_was_taken_looks_elsewhere_and_does_not_sleep() -> None:
    """11."""
    cluster = cluster_of()
    running(cluster, 3, name="gone")
    cluster.pod("stuck", cpu="1", priority=1)
    cluster.schedule()
    stuck = cluster.write(BindPod, "stuck")
    cluster.pod("mid", cpu="4", priority=50)
    cluster.schedule()
    own_status(cluster, "mid")
    victims = [patch.pod.name for patch in cluster.writes(PatchPodStatus) if patch.pod.name.startswith("gone")]
    for name in victims:
        remove(cluster, name)
    cluster.node("m", cpu="4")
    running(cluster, 1, "4", name="other", node="m")
    cluster.pod("high", cpu="2", priority=100)
    attempt = cluster.schedule()
    while attempt is not None and attempt.pod != "default/high":
        attempt = cluster.schedule()
    assert attempt is not None
    assert cluster.node_of("high") == "n"
    cluster.succeed(stuck)
    cluster.settle()
    cluster.advance(30)
    cluster.settle()
    assert bound(cluster, "mid") == "m"
    assert cluster.is_quiet()


def test_a_preemptor_goes_before_the_many_small_pods_that_wait() -> None:
    """12."""
    cluster = cluster_of("5")
    for number in range(10):
        cluster.pod(f"low{number}", cpu="1", priority=1)
    cluster.schedule_all()
    while cluster.writes(BindPod):
        cluster.succeed(cluster.writes(BindPod)[0])
    cluster.pod("high", cpu="5", priority=100)
    cluster.settle()
    cluster.advance(30)
    cluster.settle()
    assert bound(cluster, "high") == "n"


@pytest.mark.parametrize("seed", range(5))
def test_pods_made_right_after_a_preemption_never_take_its_room(seed: int) -> None:
    """13 (kubernetes issue 72124)."""
    cluster = cluster_of(seed=seed)
    running(cluster, 2, "2", priority=50, name="mid")
    cluster.pod("high", cpu="3500m", priority=100)
    cluster.schedule()
    for number in range(20):
        cluster.pod(f"new{number}", cpu="1", priority=50)
    cluster.settle()
    cluster.advance(30)
    cluster.settle()
    assert bound(cluster, "high") == "n"
    assert not any(bound(cluster, f"new{number}") for number in range(20))


# --- a victim in flight -----------------------------------------------------------------------------------------------


def test_a_victim_whose_binding_hangs_is_deleted_and_its_room_is_free_at_once() -> None:
    """14."""
    cluster = cluster_of()
    cluster.pod("low", cpu="4", priority=1)
    cluster.schedule()
    bind = cluster.write(BindPod)
    cluster.pod("high", cpu="4", priority=100)
    cluster.schedule()
    remove(cluster, "low")
    cluster.schedule()
    assert cluster.node_of("high") == "n"
    cluster.fail(bind, 404)
    assert cluster.place("low") == ""


def test_a_victim_in_binding_with_a_long_grace_period_makes_room_once_it_terminates() -> None:
    """15."""
    cluster = cluster_of()
    cluster.lingering = {"low"}
    cluster.pod("low", cpu="4", priority=1)
    cluster.schedule()
    cluster.pod("high", cpu="4", priority=100)
    cluster.schedule()
    remove(cluster, "low")
    cluster.schedule()
    assert cluster.node_of("high") == "n"


def test_what_a_victim_in_binding_has_reserved_is_free_only_when_its_bind_has_ended() -> None:
    """16."""
    holder: set[str] = set()
    plugin = scripted(
        "License",
        filter=lambda pod, node: unschedulable("license is taken") if holder - {pod} else None,
        reserve=lambda pod, node: holder.add(pod),
        unreserve=lambda pod, node: holder.discard(pod),
    )
    cluster = Cluster(plugin)
    cluster.node("n", cpu="4")
    cluster.pod("low", cpu="4", priority=1)
    cluster.schedule()
    bind = cluster.write(BindPod)
    holder.clear()
    cluster.pod("high", cpu="4", priority=100)
    cluster.schedule()
    holder.add("low")
    remove(cluster, "low")
    attempt = cluster.schedule()
    assert attempt is not None and "license is taken" in attempt.message
    cluster.fail(bind, 404)
    assert holder == set()
    cluster.advance(15)
    cluster.settle()
    assert bound(cluster, "high") == "n"


@pytest.mark.parametrize("at", ["Permit", "PreBind"])
def test_a_victim_that_is_not_bound_yet_is_not_deleted_but_placed_elsewhere(at: str) -> None:
    """17, 18."""
    held = scripted(
        "Holds",
        permit=lambda pod, node: Wait(60) if at == "Permit" and (pod, node) == ("low", "big") else None,
        pre_flight=lambda pod, node: PreFlight() if at == "PreBind" and (pod, node) == ("low", "big") else SKIP,
    )
    cluster = Cluster(held)
    cluster.node("big", cpu="4")
    cluster.pod("low", cpu="1", priority=1)
    cluster.pod("runs", cpu="1", priority=1, node="big")
    cluster.schedule()
    cluster.node("small", cpu="1")
    cluster.pod("high", cpu="4", priority=100)
    cluster.schedule()
    assert cluster.writes(DeletePod, "low") == []
    cluster.unanswered = [command for command in cluster.unanswered if not isinstance(command, RunPlugin)]
    cluster.settle()
    cluster.advance(15)
    cluster.settle()
    assert (bound(cluster, "high"), bound(cluster, "low")) == ("big", "small")
    assert "default/runs" not in cluster.pods
    assert len(cluster.attempts("low")) == 2


def test_when_a_waiting_pod_is_deleted_the_next_is_tried_at_once() -> None:
    """19."""
    cluster = Cluster(scripted("Holds", permit=lambda pod, node: Wait(60) if pod == "first" else None))
    cluster.node("n", cpu="4")
    cluster.pod("first", cpu="4", priority=7)
    cluster.schedule()
    cluster.pod("second", cpu="4", priority=7)
    cluster.schedule()
    assert cluster.place("second") == "unschedulable"
    cluster.delete("first")
    attempt = cluster.schedule()
    assert attempt is not None and attempt.pod == "default/second"
    assert cluster.node_of("second") == "n"
    assert attempt.victims == ()


# --- nominations ------------------------------------------------------------------------------------------------------


def test_a_more_important_preemptor_clears_the_nomination_of_a_lesser_one() -> None:
    """20."""
    cluster = cluster_of("5")
    cluster.lingering = {f"low{number}" for number in range(4)}
    running(cluster, 4)
    cluster.pod("mid", cpu="3", priority=3)
    cluster.schedule()
    cluster.settle()
    assert cluster.pods["default/mid"].nominated_node_name == "n"
    cluster.pod("high", cpu="4", priority=4)
    cluster.schedule()
    cluster.settle()
    assert cluster.pods["default/mid"].nominated_node_name == ""
    assert cluster.pods["default/high"].nominated_node_name == "n"
    assert (cluster.nominated("mid"), cluster.nominated("high")) == ("", "n")


def test_a_nomination_that_has_not_come_back_yet_is_cleared_too() -> None:
    """20, with the write of the lesser one's nomination still under way."""
    cluster = cluster_of("5")
    cluster.lingering = {f"low{number}" for number in range(4)}
    running(cluster, 4)
    cluster.pod("mid", cpu="3", priority=3)
    cluster.schedule()
    cluster.pod("high", cpu="4", priority=4)
    cluster.schedule()
    cluster.settle()
    assert cluster.pods["default/mid"].nominated_node_name == ""
    assert cluster.nominated("mid") == ""


def test_an_important_pod_ignores_the_nomination_of_a_lesser_one() -> None:
    """21."""
    cluster = cluster_of("2")
    cluster.lingering = {"low"}
    cluster.pod("low", cpu="1", priority=1, node="n")
    cluster.pod("mid", cpu="2", priority=2)
    cluster.schedule()
    cluster.settle()
    assert cluster.nominated("mid") == "n"
    cluster.pod("high", cpu="1", priority=3)
    attempt = cluster.schedule()
    assert attempt is not None and attempt.victims == ()
    assert cluster.node_of("high") == "n"
    cluster.delete("low")
    cluster.settle()
    cluster.advance(15)
    cluster.settle()
    assert cluster.pods["default/mid"].nominated_node_name == ""


@pytest.mark.parametrize("other", ["none", "tainted"])
def test_a_nomination_is_cleared_when_its_node_is_gone(other: str) -> None:
    """22."""
    cluster = cluster_of("2")
    cluster.lingering = {"low"}
    if other == "tainted":
        cluster.node("t", cpu="2", taints=["dedicated=db:NoSchedule"])
    cluster.pod("low", cpu="2", priority=1, node="n")
    cluster.pod("mid", cpu="2", priority=2)
    cluster.schedule()
    cluster.settle()
    assert cluster.pods["default/mid"].nominated_node_name == "n"
    cluster.remove_node("n")
    cluster.engine.queue.activate(["default/mid"], cluster.now)
    cluster.schedule()
    cluster.settle()
    assert cluster.pods["default/mid"].nominated_node_name == ""
    assert cluster.nominated("mid") == ""


def test_a_nomination_is_cleared_when_pre_bind_fails() -> None:
    """23."""
    cluster = Cluster(scripted("Fails", pre_flight=lambda pod, node: PreFlight()))
    cluster.node("n", cpu="2")
    cluster.pod("low", cpu="2", priority=1, node="n")
    cluster.pod("mid", cpu="2", priority=2)
    cluster.schedule()
    own_status(cluster, "mid")
    remove(cluster, "low")
    cluster.schedule()
    assert cluster.pods["default/mid"].nominated_node_name == "n"
    cluster.fail(cluster.write(RunPlugin))
    cluster.succeed(cluster.write(PatchPodStatus, "mid"))
    assert cluster.pods["default/mid"].nominated_node_name == ""
    assert cluster.nominated("mid") == ""


def test_a_preset_nomination_gives_way_to_a_better_node() -> None:
    """24."""
    cluster = Cluster()
    cluster.node("n1", cpu="2")
    cluster.node("n2", cpu="2")
    running(cluster, 2, node="n1", name="one")
    running(cluster, 1, "2", node="n2", name="two")
    cluster.pod("high", cpu="2", priority=100, nominated="n1")
    cluster.schedule()
    assert cluster.nominated("high") == "n2"
    assert cluster.write(PatchPodStatus, "high").nominated_node_name == "n2"


def test_a_preset_nomination_that_can_never_work_is_cleared_and_the_room_is_anybodys() -> None:
    """25."""
    cluster = cluster_of("2")
    cluster.pod("huge", cpu="8", priority=100, nominated="n")
    cluster.pod("small", cpu="2", priority=1)
    cluster.settle()
    assert cluster.pods["default/huge"].nominated_node_name == ""
    assert bound(cluster, "small") == "n"


def test_a_preset_nomination_of_a_lesser_pod_keeps_nobody_off() -> None:
    """26."""
    cluster = cluster_of("2")
    cluster.pod("low", cpu="2", priority=1, nominated="n")
    cluster.pod("high", cpu="2", priority=100)
    cluster.settle()
    assert bound(cluster, "high") == "n"
    assert cluster.pods["default/low"].nominated_node_name == ""


def test_a_preset_nomination_that_fits_is_followed() -> None:
    """27."""
    cluster = Cluster()
    cluster.nodes_like(4, cpu="4")
    cluster.pod("a", cpu="2", nominated="n2")
    cluster.settle()
    assert bound(cluster, "a") == "n2"
    assert cluster.nominated("a") == ""


@pytest.mark.parametrize("is_free", [True, False])
def test_the_nominated_node_costs_one_filter_call_and_others_are_tried_only_if_it_fails(is_free: bool) -> None:
    """28."""
    plugin = scripted("Looks", filter=lambda pod, node: unschedulable("no") if node == "n0" and not is_free else None)
    cluster = Cluster(plugin)
    cluster.nodes_like(3)
    cluster.pod("a", nominated="n0")
    cluster.schedule()
    if is_free:
        assert calls_of(plugin) == ["filter a n0"]
        assert cluster.node_of("a") == "n0"
    else:
        assert cluster.node_of("a") in ("n1", "n2")


@pytest.mark.parametrize(
    ("permits", "works", "written"), [(False, False, False), (True, False, True), (False, True, True)]
)
def test_the_expected_node_is_announced_just_where_there_is_something_to_wait_for(
    permits: bool, works: bool, written: bool
) -> None:
    """29."""
    plugin = scripted(
        "Maybe",
        permit=lambda pod, node: Wait(10) if permits else None,
        pre_flight=lambda pod, node: PreFlight() if works else SKIP,
    )
    cluster = Cluster(plugin)
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    announced = [patch.nominated_node_name for patch in cluster.writes(PatchPodStatus, "a")]
    assert announced == (["n"] if written else [])


@pytest.mark.parametrize("what", ["un-nominated", "deleted"])
def test_pods_kept_off_by_a_nomination_are_woken_when_it_goes(what: str) -> None:
    """30."""
    cluster = cluster_of("2")
    cluster.lingering = {"victim"}
    cluster.pod("victim", cpu="1", priority=1, node="n")
    cluster.pod("mid", cpu="2", priority=10)
    cluster.schedule()
    cluster.settle()
    assert cluster.nominated("mid") == "n"
    cluster.pod("low", cpu="1", priority=5)
    cluster.schedule()
    assert cluster.place("low") == "unschedulable"
    if what == "deleted":
        cluster.delete("mid")
    else:
        cluster.show(_un_nominated(cluster, "mid"))
    assert cluster.place("low") in ("active", "backoff")
    cluster.advance(15)
    cluster.settle()
    if what == "deleted":
        assert bound(cluster, "low") == "n"


def _un_nominated(cluster: Cluster, name: str) -> Pod:
    cluster._store(cluster.pods[f"default/{name}"].nominated_to(""))
    return cluster.pods[f"default/{name}"]


# --- disruption budgets -----------------------------------------------------------------------------------------------


def test_a_pod_without_a_budget_dies_before_those_under_one() -> None:
    """31."""
    cluster = cluster_of("3")
    cluster.show(builders.budget("budget", {"app": "kept"}, allowed=0))
    for name in ("kept0", "kept1"):
        cluster.pod(name, cpu="1", priority=1, node="n", labels={"app": "kept"})
    cluster.pod("mid", cpu="1", priority=50, node="n")
    cluster.pod("high", cpu="1", priority=100)
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.victims == ("default/mid",)


def test_a_node_whose_budget_is_exhausted_is_avoided() -> None:
    """32."""
    cluster = Cluster()
    cluster.node("n1", cpu="1")
    cluster.node("n2", cpu="1")
    cluster.show(builders.budget("budget", {"app": "kept"}, allowed=0))
    cluster.pod("low", cpu="1", priority=1, node="n1", labels={"app": "kept"})
    cluster.pod("mid", cpu="1", priority=50, node="n2")
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule()
    assert cluster.nominated("high") == "n2"


def test_violations_count_first_then_the_most_important_victim_then_the_number() -> None:
    """33."""
    cluster = Cluster()
    for name in ("n1", "n2", "n3"):
        cluster.node(name, cpu="3")
    cluster.show(builders.budget("exhausted", {"app": "one"}, allowed=0))
    cluster.show(builders.budget("left", {"app": "others"}, allowed=3))
    cluster.pod("one", cpu="3", priority=1, node="n1", labels={"app": "one"})
    cluster.pod("mid", cpu="3", priority=50, node="n2", labels={"app": "others"})
    running(cluster, 3, node="n3", name="three")
    cluster.pod("high", cpu="3", priority=100)
    cluster.schedule()
    assert cluster.nominated("high") == "n3"


# --- claims of one pod only -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("owners", "victims"), [((("a",), ()), 1), ((("a",), ("b",)), 2), ((("a", "b"), ()), 1)])
def test_just_the_pods_that_hold_the_claims_die(owners: tuple[tuple[str, ...], ...], victims: int) -> None:
    """34."""
    cluster = cluster_of()
    wanted = sorted({claim for claims in owners for claim in claims})
    for claim in wanted:
        cluster.show(builders.claim(claim, modes=("ReadWriteOncePod",), volume=f"pv-{claim}"))
        cluster.show(builders.volume(f"pv-{claim}", modes=("ReadWriteOncePod",), phase="Bound"))
    for number, claims in enumerate(owners):
        cluster.pod(f"low{number}", cpu="1", priority=1, node="n", claims=claims)
    cluster.pod("high", cpu="1", priority=100, claims=wanted)
    attempt = cluster.schedule()
    assert attempt is not None
    holders = [f"default/low{number}" for number, claims in enumerate(owners) if claims]
    assert sorted(attempt.victims) == holders
    assert len(holders) == victims
    cluster.settle()
    assert bound(cluster, "high") == "n"


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [403, 500])
def test_when_a_removal_fails_the_last_victim_is_spared_and_the_next_attempt_works(status: int) -> None:
    """35."""
    cluster = cluster_of("3")
    running(cluster, 3)
    cluster.pod("high", cpu="3", priority=100)
    cluster.schedule()
    own_status(cluster, "high")
    first, second = cluster.writes(PatchPodStatus)
    cluster.fail(first, status)
    cluster.succeed(second)
    assert len(cluster.pods) == 4
    assert cluster.writes(PatchPodStatus) == cluster.writes(DeletePod) == []
    cluster.settle()
    assert bound(cluster, "high") == "n"


def test_a_lesser_nomination_that_can_not_be_cleared_holds_up_nothing() -> None:
    """36."""
    cluster = cluster_of("2")
    cluster.pod("low", cpu="2", priority=1, node="n")
    cluster.pod("mid", cpu="2", priority=2)
    cluster.schedule()
    own_status(cluster, "mid")
    cluster.pod("high", cpu="2", priority=100)
    cluster.schedule()
    clearing = next(patch for patch in cluster.writes(PatchPodStatus, "mid") if patch.nominated_node_name == "")
    cluster.fail(clearing)
    cluster.settle()
    cluster.advance(15)
    cluster.settle()
    assert bound(cluster, "high") == "n"


def test_when_all_victims_terminate_already_nothing_is_written_and_the_pod_is_not_gated() -> None:
    """38."""
    cluster = cluster_of("2")
    cluster.pod("low", cpu="2", priority=1, node="n", deleted="2027-01-01T00:00:00Z")
    cluster.pod("high", cpu="2", priority=100)
    cluster.schedule()
    assert cluster.nominated("high") == "n"
    assert {patch.pod.name for patch in cluster.writes(PatchPodStatus)} == {"high"}
    assert not is_gated(cluster, "high")


def test_the_gate_gives_its_reason() -> None:
    cluster = cluster_of("1")
    running(cluster, 1)
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule()
    assert is_gated(cluster, "high")
    record = cluster.engine.queue.find("default/high")
    assert record is not None
    assert (record.gating_plugin, record.gating_reasons) == ("DefaultPreemption", (GATED,))


def test_the_priority_that_admission_wrote_counts_whatever_the_class_is_called() -> None:
    """7; that admission resolves the class, and refuses an unknown one, is shown against the embedded server."""
    cluster = cluster_of("1")
    cluster.pod("low", cpu="1", priority=5, node="n", spec={"priorityClassName": "sounds-important"})
    cluster.pod("equal", cpu="1", priority=5, spec={"priorityClassName": "system-node-critical"})
    cluster.pod("nobody", cpu="1", spec={"priorityClassName": "system-node-critical"})
    cluster.schedule_all()
    assert cluster.writes(DeletePod) == []
    assert (cluster.attempt("equal").victims, cluster.attempt("nobody").victims) == ((), ())
    cluster.pod("high", cpu="1", priority=6)
    attempt = cluster.schedule()
    assert attempt is not None and attempt.victims == ("default/low",)


@pytest.mark.parametrize("at", [PatchPodStatus, DeletePod])
def test_a_victim_that_is_not_found_is_as_good_as_removed_and_no_event_is_written(at: type) -> None:
    """37."""
    cluster = cluster_of("2")
    running(cluster, 2)
    cluster.pod("high", cpu="2", priority=100)
    cluster.schedule()
    own_status(cluster, "high")
    (first,) = {patch.pod.name for patch in cluster.writes(PatchPodStatus)}
    if at is DeletePod:
        cluster.succeed(cluster.write(PatchPodStatus, first))
    write = cluster.write(at, first)
    cluster.delete(first)
    cluster.fail(write, 404, "not found")
    assert cluster.said(first, "Preempted") == []
    assert cluster.ended_removals() == {}, "the last victim is still to come"
    (last,) = {"low0", "low1"} - {first}
    remove(cluster, last)
    assert cluster.ended_removals() == {"success": 1}
    cluster.schedule()
    assert cluster.node_of("high") == "n"


def test_a_victim_that_has_the_condition_already_is_just_deleted() -> None:
    """37."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "tandem-scheduler: preempting to accommodate a higher priority pod",
    }
    cluster = cluster_of("1")
    cluster.pod("low", cpu="1", priority=1, node="n", status={"conditions": [condition]})
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule()
    own_status(cluster, "high")
    assert cluster.writes(PatchPodStatus) == []
    cluster.succeed(cluster.write(DeletePod, "low"))
    cluster.schedule()
    assert cluster.node_of("high") == "n"


def test_when_the_only_victim_is_not_bound_yet_nothing_is_written_and_nobody_sleeps() -> None:
    """18, with no other victim: the removal ends within the attempt that began it."""
    held = scripted("Holds", permit=lambda pod, node: Wait(60) if pod == "low" else None)
    cluster = Cluster(held)
    cluster.node("n", cpu="1")
    cluster.pod("low", cpu="1", priority=1)
    cluster.schedule()
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule()
    assert cluster.writes(DeletePod) == []
    assert cluster.said("low", "Preempted") == ["Preempted by pod pod-high on node n (in kube-scheduler memory)."]
    assert cluster.place("high") in ("active", "backoff")
    cluster.advance(1)
    cluster.settle()
    assert bound(cluster, "high") == "n"
    assert "default/low" in cluster.pods


def test_a_preemption_moves_on_only_when_each_deletion_was_asked_for_once() -> None:
    """Of the victims of one preemptor none is deleted twice, however often it is tried meanwhile."""
    cluster = cluster_of("3")
    cluster.lingering = {"low0", "low1", "low2"}
    running(cluster, 3)
    cluster.pod("high", cpu="3", priority=100)
    for _ in range(3):
        cluster.schedule_all()
        cluster.settle()
        cluster.engine.queue.activate(["default/high"], cluster.now)
    deleted = [command.pod.name for command in cluster.sent if isinstance(command, DeletePod)]
    assert sorted(deleted) == ["low0", "low1", "low2"]
