"""Nominated nodes: which pods they keep off, and when they are cleared or given up."""

from __future__ import annotations

import pytest

from scheduler.engine.attempt import UNSCHEDULABLE
from scheduler.framework.plugin import PreFlight, Wait
from scheduler.messages.claim_commands import CreateClaim
from scheduler.messages.commands import CallExtender, PatchPodStatus, RunPlugin
from scheduler.messages.status import SKIP, unschedulable
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.pod import Pod
from scheduler.testing.objects import build
from tests.device_documents import device_class, gpu, resource_slice
from tests.engine.driver import Cluster
from tests.engine.preempting import bound, cluster_of, own_status, remove, running
from tests.engine.scripted import calls_of, scripted


def test_a_pod_that_is_kept_off_a_nominated_node_remembers_the_scores_of_its_choice_alone() -> None:
    cluster = cluster_of("3")
    cluster.nodes_like(3, cpu="1")
    cluster.lingering = {"low"}
    cluster.pod("low", cpu="2", priority=1, node="n")
    cluster.pod("high", cpu="3", priority=2)
    cluster.schedule()
    cluster.settle()
    assert cluster.nominated("high") == "n"
    cluster.pod("small", cpu="1", priority=1)
    attempt = cluster.schedule()
    assert attempt is not None and attempt.pod == "default/small"
    assert attempt.node in ("n0", "n1", "n2")
    assert attempt.shares and attempt.scores == {}
    assert attempt.total == {attempt.node: sum(attempt.shares.values())}


def test_a_pod_placed_on_another_node_than_its_nominated_one_leaves_that_room_to_those_who_wait() -> None:
    """Nothing else wakes the lesser pod: by its hints the new node does not help it."""
    gpu_of_its_own = {"example.com/gpu": "1"}
    cluster = Cluster()
    cluster.node("n", cpu="4", allocatable=gpu_of_its_own)
    cluster.pod("high", cpu="4", priority=10, nominated="n", preemption_policy="Never")
    cluster.pod("there", cpu="1", priority=100, node="n")
    cluster.pod("low", cpu="1", requests=gpu_of_its_own)
    cluster.schedule_all()
    assert [cluster.place(name) for name in ("high", "low")] == ["unschedulable"] * 2
    cluster.node("m", cpu="4")
    cluster.schedule_all()
    assert [cluster.node_of(name) for name in ("high", "low")] == ["m", "n"]


def test_a_deleted_pod_that_finalizers_keep_holds_its_nominated_room_no_more_once_it_is_passed_over() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="1")
    cluster.pod("deleted", cpu="1", nominated="n", priority=2)
    cluster.terminate("deleted")
    cluster.pod("after", cpu="1", priority=1)
    cluster.schedule_all()
    assert cluster.said("deleted") == ["skip schedule deleting pod: default/deleted"]
    assert cluster.node_of("after") == "n"


def test_a_more_important_preemptor_clears_the_nomination_of_a_lesser_one() -> None:
    """Race 20 of preemption with everything else."""
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


@pytest.mark.parametrize(("mode", "kept"), [("async", "n"), ("sync", "")])
def test_a_preemptor_whose_victims_all_terminate_already_clears_lesser_nominations_only_within_its_cycle(
    mode: str, kept: str
) -> None:
    cluster = cluster_of("4", tandem={"preemption": {"mode": mode}})
    cluster.lingering = {f"low{number}" for number in range(4)}
    running(cluster, 4)
    cluster.pod("mid", cpu="4", priority=3)
    cluster.settle()
    cluster.pod("high", cpu="4", priority=4)
    cluster.settle()
    assert cluster.pods["default/high"].nominated_node_name == "n"
    assert cluster.pods["default/mid"].nominated_node_name == kept
    for number in range(4):
        cluster.delete(f"low{number}")
    cluster.settle()
    assert cluster.node_of("high") == "n"
    assert cluster.pods["default/mid"].nominated_node_name == ""


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
    """Race 21 of preemption with everything else."""
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
    """Race 22 of preemption with everything else."""
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
    """Race 23 of preemption with everything else."""
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
    """Race 24 of preemption with everything else."""
    cluster = Cluster()
    cluster.node("n1", cpu="2")
    cluster.node("n2", cpu="2")
    running(cluster, 2, node="n1", name="one")
    running(cluster, 1, "2", node="n2", name="two")
    cluster.pod("high", cpu="2", priority=100, nominated="n1")
    cluster.schedule()
    assert cluster.nominated("high") == "n2"
    assert cluster.write(PatchPodStatus, "high").nominated_node_name == "n2"


def test_a_preset_nomination_that_can_never_work_is_cleared_and_the_room_is_free() -> None:
    """Race 25 of preemption with everything else."""
    cluster = cluster_of("2")
    cluster.pod("huge", cpu="8", priority=100, nominated="n")
    cluster.pod("small", cpu="2", priority=1)
    cluster.settle()
    assert cluster.pods["default/huge"].nominated_node_name == ""
    assert bound(cluster, "small") == "n"


def test_a_preset_nomination_of_a_lower_priority_pod_reserves_nothing() -> None:
    """Race 26 of preemption with everything else."""
    cluster = cluster_of("2")
    cluster.pod("low", cpu="2", priority=1, nominated="n")
    cluster.pod("high", cpu="2", priority=100)
    cluster.settle()
    assert bound(cluster, "high") == "n"
    assert cluster.pods["default/low"].nominated_node_name == ""


def test_a_preset_nomination_that_fits_is_followed() -> None:
    """Race 27 of preemption with everything else."""
    cluster = Cluster()
    cluster.nodes_like(4, cpu="4")
    cluster.pod("a", cpu="2", nominated="n2")
    cluster.settle()
    assert bound(cluster, "a") == "n2"
    assert cluster.nominated("a") == ""


@pytest.mark.parametrize("is_free", [True, False])
def test_the_nominated_node_costs_one_filter_call_and_others_are_tried_only_if_it_fails(is_free: bool) -> None:
    """Race 28 of preemption with everything else."""
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
    """Race 29 of preemption with everything else."""
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


@pytest.mark.parametrize("permits", [False, True])
def test_the_expected_node_of_a_pod_that_gets_a_claim_is_written_with_the_claims_name(permits: bool) -> None:
    """Unless it has to wait before the claim is made."""
    plugin = scripted("Maybe", permit=lambda pod, node: Wait(10) if permits else None)
    cluster = Cluster(plugin)
    cluster.node("n")
    cluster.show(build(DeviceClass, device_class("gpus", "true")))
    cluster.show(build(ResourceSlice, resource_slice("n", gpu("gpu-0"))))
    cluster.pod("a", requests={"deviceclass.resource.kubernetes.io/gpus": "1"})
    cluster.schedule()
    announced = [patch.nominated_node_name for patch in cluster.writes(PatchPodStatus, "a")]
    made = [(one.nominated_node, len(one.mappings)) for one in cluster.sent if isinstance(one, CreateClaim)]
    assert (announced, made) == ((["n"], []) if permits else ([], [("n", 1)]))


def test_with_the_gate_off_no_write_names_the_expected_node_before_the_bind() -> None:
    cluster = Cluster(
        scripted("Waits", permit=lambda pod, node: Wait(10)), gates="NominatedNodeNameForExpectation=false"
    )
    cluster.node("n")
    cluster.show(build(DeviceClass, device_class("gpus", "true")))
    cluster.show(build(ResourceSlice, resource_slice("n", gpu("gpu-0"))))
    cluster.pod("a", requests={"deviceclass.resource.kubernetes.io/gpus": "1"})
    cluster.schedule()
    assert cluster.writes(PatchPodStatus, "a") == []
    cluster.allow("a", "Waits")
    assert [one.nominated_node for one in cluster.sent if isinstance(one, CreateClaim)] == [""]


@pytest.mark.parametrize("what", ["un-nominated", "deleted"])
def test_pods_kept_off_by_a_nomination_are_woken_when_it_goes(what: str) -> None:
    """Race 30 of preemption with everything else."""
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


def test_pods_kept_off_by_a_nomination_that_the_watch_never_showed_are_woken_when_its_pod_is_deleted() -> None:
    """The victims live then, so that no other event would tell of the room."""
    cluster = cluster_of("4")
    cluster.pod("victim", cpu="2", priority=1, node="n")
    cluster.pod("mid", cpu="3", priority=10)
    cluster.schedule()
    assert cluster.nominated("mid") == "n"
    cluster.pod("low", cpu="2", priority=5)
    cluster.schedule()
    assert cluster.place("low") == "unschedulable"
    cluster.delete("mid")
    assert cluster.place("low") in ("active", "backoff")
    cluster.advance(15)
    cluster.settle()
    assert bound(cluster, "low") == "n"
    assert "default/victim" in cluster.pods


def _kept_off_by_an_unseen_nomination() -> Cluster:
    """``mid`` is nominated to n, ``low`` waits because of that, and the watch has shown nothing of the nomination: its
    write is folded into the next one, as by the writer where that follows before it has left."""
    cluster = cluster_of("4")
    cluster.lingering = {"victim"}
    cluster.pod("victim", cpu="2", priority=1, node="n")
    cluster.pod("mid", cpu="3", priority=10)
    cluster.schedule()
    assert cluster.nominated("mid") == "n"
    cluster.pod("low", cpu="2", priority=5, preemption_policy="Never", tolerations=[{"operator": "Exists"}])
    cluster.schedule()
    assert cluster.place("low") == "unschedulable"
    cluster.unanswered.remove(cluster.write(PatchPodStatus, "mid"))
    return cluster


def test_pods_kept_off_by_a_nomination_that_was_never_written_are_woken_when_its_pod_gives_it_up() -> None:
    cluster = _kept_off_by_an_unseen_nomination()
    cluster.node("n", cpu="4", taints=["dedicated=db:NoSchedule"])
    cluster.advance(5)
    cluster.schedule_all()
    assert cluster.place("low") == "unschedulable"
    cluster.fail(cluster.write(PatchPodStatus, "victim"))
    cluster.schedule()
    assert cluster.nominated("mid") == ""
    assert cluster.place("low") in ("active", "backoff")
    cluster.advance(15)
    cluster.schedule_all()
    assert cluster.node_of("low") == "n"


def test_a_nomination_that_was_never_written_ends_at_once_when_a_more_important_pod_takes_the_node() -> None:
    """Else nothing would end it before the pod's next attempt, which would keep it."""
    cluster = _kept_off_by_an_unseen_nomination()
    cluster.pod("high", cpu="4", priority=20)
    cluster.schedule()
    assert (cluster.nominated("high"), cluster.nominated("mid")) == ("n", "")
    assert cluster.write(PatchPodStatus, "mid").nominated_node_name == ""
    own_status(cluster, "mid")
    assert cluster.nominated("mid") == ""


def test_a_nomination_that_the_watch_takes_away_during_an_attempt_is_not_kept_by_it() -> None:
    """As when a more important pod takes the node while an extender is asked."""
    extender = {"urlPrefix": "http://e.test", "nodeCacheCapable": True, "filterVerb": "filter"}
    cluster = cluster_of("4", configuration={"extenders": [extender]})
    cluster.pod("mid", cpu="3", priority=10, nominated="n", preemption_policy="Never")
    cluster.schedule()
    cluster.show(_un_nominated(cluster, "mid"))
    cluster.answer(cluster.write(CallExtender), {"FailedNodes": {"n": "no"}})
    if cluster.writes(CallExtender):
        cluster.answer(cluster.write(CallExtender), {"FailedNodes": {"n": "no"}})
    assert cluster.attempt("mid").result == UNSCHEDULABLE
    assert cluster.nominated("mid") == ""


def _un_nominated(cluster: Cluster, name: str) -> Pod:
    cluster._store(cluster.pods[f"default/{name}"].nominated_to(""))
    return cluster.pods[f"default/{name}"]


def test_for_a_pod_that_only_a_pre_filter_refuses_no_victims_are_found_and_its_nomination_is_cleared() -> None:
    cluster = Cluster(scripted("Picky", pre_filter=lambda pod: unschedulable("not today")))
    cluster.node("n", cpu="4")
    cluster.pod("there", cpu="1", node="n", priority=1)
    cluster.pod("a", cpu="1", priority=10, nominated="n")
    attempt = cluster.schedule()
    assert attempt is not None
    assert attempt.message.startswith("0/1 nodes are available: not today.")
    assert attempt.message.endswith("1 No preemption victims found for incoming pod.")
    assert cluster.write(PatchPodStatus, "a").nominated_node_name == ""
