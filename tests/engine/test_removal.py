from __future__ import annotations

import msgspec
import pytest

from scheduler.messages.commands import DeletePod, EvictPod, PatchPodStatus, WriteEvent
from scheduler.messages.stimuli import Reconciled, ReconciliationStarted, WriteFinished
from tests.engine.driver import Answerable, Cluster
from tests.engine.preempting import cluster_of, running

EVENT_NOTE = "Preempted by pod pod-high on node n"


def preempting(*victims: str, strict: bool = False) -> Cluster:
    """``high`` needs the whole node, which the victims fill; it has been tried once."""
    cluster = Cluster(tandem={"preemption": {"pdbPolicy": "strict"}} if strict else None)
    cluster.node("n", cpu=str(len(victims)))
    for number, name in enumerate(victims):
        cluster.pod(name, cpu="1", node="n", priority=10 - number)
    cluster.pod("high", cpu=str(len(victims)), priority=100)
    cluster.schedule()
    return cluster


def own_status(cluster: Cluster) -> None:
    """The preemptor's own condition and nomination arrive."""
    for patch in cluster.writes(PatchPodStatus, "high"):
        cluster.succeed(patch)


def test_a_victim_gets_its_condition_before_it_is_deleted() -> None:
    cluster = preempting("low")
    patch = cluster.write(PatchPodStatus, "low")
    assert patch.condition is not None
    assert (patch.condition.type, patch.condition.status) == ("DisruptionTarget", "True")
    assert patch.condition.reason == "PreemptionByScheduler"
    assert patch.condition.message == "tandem-scheduler: preempting to accommodate a higher priority pod"
    assert patch.nominated_node_name is None
    assert cluster.writes(DeletePod) == []
    cluster.succeed(patch)
    delete = cluster.write(DeletePod, "low")
    assert delete.pod.uid == "pod-low"
    assert cluster.said("low", "Preempted") == []
    cluster.succeed(delete)
    assert cluster.said("low", "Preempted") == [EVENT_NOTE]


def test_a_victim_s_event_names_the_preemptor() -> None:
    cluster = preempting("low")
    cluster.succeed(cluster.write(PatchPodStatus, "low"))
    cluster.succeed(cluster.write(DeletePod, "low"))
    (event,) = [one for one in cluster.sent if isinstance(one, WriteEvent) and one.reason == "Preempted"]
    assert event.related is not None
    assert event.related.name == "high"


def test_the_least_important_victim_goes_last_and_alone() -> None:
    cluster = preempting("first", "second", "last")
    assert {patch.pod.name for patch in cluster.writes(PatchPodStatus)} == {"high", "first", "second"}
    for name in ("first", "second"):
        cluster.succeed(cluster.write(PatchPodStatus, name))
    cluster.succeed(cluster.write(DeletePod, "first"))
    assert cluster.writes(PatchPodStatus, "last") == []
    cluster.succeed(cluster.write(DeletePod, "second"))
    cluster.succeed(cluster.write(PatchPodStatus, "last"))
    cluster.succeed(cluster.write(DeletePod, "last"))
    cluster.settle()
    assert cluster.pods["default/high"].node_name == "n"


def test_a_victim_whose_condition_says_so_already_is_deleted_without_another_patch() -> None:
    cluster = preempting("low")
    cluster.succeed(cluster.write(PatchPodStatus, "low"))
    cluster.fail(cluster.write(DeletePod, "low"))
    own_status(cluster)
    cluster.schedule()
    assert cluster.writes(PatchPodStatus, "low") == []
    assert cluster.write(DeletePod, "low")


def test_a_victim_that_terminates_already_is_left_alone_and_nothing_is_waited_for() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="1")
    cluster.pod("low", cpu="1", node="n", priority=1, deleted="2027-01-01T00:00:00Z")
    cluster.pod("high", cpu="1", priority=100)
    cluster.schedule()
    assert [patch.pod.name for patch in cluster.writes(PatchPodStatus)] == ["high"]
    assert cluster.nominated("high") == "n"
    assert len(cluster.engine.room) == 0
    cluster.delete("low")
    cluster.settle()
    assert cluster.pods["default/high"].node_name == "n"


def test_while_victims_are_removed_the_preemptor_is_held_back() -> None:
    cluster = preempting("low")
    cluster.engine.queue.activate(["default/high"], cluster.now)
    assert cluster.place("high") == "gated"
    assert cluster.schedule() is None
    cluster.succeed(cluster.write(PatchPodStatus, "low"))
    delete = cluster.write(DeletePod, "low")
    cluster.take_effect(delete)
    cluster._watch_if_there(delete)
    assert cluster.place("high") in ("active", "backoff"), "the deletion was seen before its answer"
    cluster.schedule()
    assert cluster.node_of("high") == "n"


@pytest.mark.parametrize("status", [404, 409, 422])
@pytest.mark.parametrize("at", ["condition", "deletion"])
def test_a_victim_that_is_gone_or_replaced_is_as_good_as_removed(status: int, at: str) -> None:
    cluster = preempting("low")
    own_status(cluster)
    if at == "deletion":
        cluster.succeed(cluster.write(PatchPodStatus, "low"))
    kind: type[Answerable] = PatchPodStatus if at == "condition" else DeletePod
    write = cluster.write(kind, "low")
    cluster.delete("low")
    if status != 404:
        cluster.pod("low", cpu="1", node="elsewhere", uid="pod-low2")
    cluster.fail(write, status, "refused")
    assert cluster.writes(DeletePod) == []
    assert cluster.said("low", "Preempted") == []
    assert cluster.ended_removals() == {"success": 1}
    cluster.schedule()
    assert cluster.node_of("high") == "n"


@pytest.mark.parametrize(
    ("at", "status", "message"),
    [
        ("deletion", 409, "Precondition failed: UID in precondition: pod-low, UID in object meta: pod-low2"),
        ("condition", 422, 'Pod "low" is invalid: metadata.uid: Invalid value: "pod-low": field is immutable'),
    ],
)
def test_a_foreign_uid_tells_that_the_victim_is_gone_before_the_watch_does(at: str, status: int, message: str) -> None:
    cluster = preempting("low")
    own_status(cluster)
    if at == "deletion":
        cluster.succeed(cluster.write(PatchPodStatus, "low"))
    kind: type[Answerable] = PatchPodStatus if at == "condition" else DeletePod
    cluster.fail(cluster.write(kind, "low"), status, message)
    assert cluster.ended_removals() == {"success": 1}
    assert cluster.writes(DeletePod) == []


@pytest.mark.parametrize("status", [403, 409, 422, 500, 0])
def test_after_a_failure_the_last_victim_is_spared_and_the_preemptor_tried_again(status: int) -> None:
    cluster = preempting("first", "last")
    own_status(cluster)
    cluster.fail(cluster.write(PatchPodStatus, "first"), status, "refused")
    assert cluster.writes(PatchPodStatus, "last") == []
    assert cluster.ended_removals() == {"error": 1}
    assert cluster.place("high") == "active"
    cluster.settle()
    assert cluster.pods["default/high"].node_name == "n"


def test_after_one_failure_no_other_victim_is_deleted_any_more() -> None:
    cluster = preempting("first", "second", "last")
    cluster.fail(cluster.write(PatchPodStatus, "first"))
    cluster.succeed(cluster.write(PatchPodStatus, "second"))
    assert cluster.writes(DeletePod) == []
    assert len(cluster.engine.room) == 0


def test_when_the_preemptor_is_gone_the_victims_that_are_left_live() -> None:
    cluster = preempting("first", "last")
    cluster.succeed(cluster.write(PatchPodStatus, "first"))
    cluster.delete("high")
    cluster.succeed(cluster.write(DeletePod, "first"))
    assert cluster.writes(PatchPodStatus, "last") == []
    assert len(cluster.engine.room) == 0
    assert cluster.nominated("high") == ""


def test_a_victim_that_went_by_itself_meanwhile_needs_no_writes() -> None:
    cluster = preempting("first", "last")
    own_status(cluster)
    cluster.succeed(cluster.write(PatchPodStatus, "first"))
    cluster.delete("last")
    cluster.succeed(cluster.write(DeletePod, "first"))
    assert cluster.unanswered == []
    assert cluster.schedule() is not None
    assert cluster.node_of("high") == "n"


def test_a_victim_whose_deletion_was_granted_counts_as_terminating_before_the_watch_says_so() -> None:
    cluster = preempting("low")
    cluster.lingering = {"low"}
    own_status(cluster)
    cluster.succeed(cluster.write(PatchPodStatus, "low"))
    delete = cluster.write(DeletePod, "low")
    cluster.unanswered.remove(delete)
    cluster.feed(WriteFinished(delete.ticket, True, 200))
    cluster.engine.queue.activate(["default/high"], cluster.now)
    attempt = cluster.schedule()
    assert attempt is not None
    assert "not eligible due to a terminating pod" in attempt.message
    cluster.watch("low")
    known = cluster.engine.known_pods.get("default/low")
    assert known is not None and known.is_terminating, "an older event must not bring it back"
    cluster.delete("low")
    cluster.advance(5)
    cluster.settle()
    assert cluster.pods["default/high"].node_name == "n"
    assert cluster.engine.room.leaving == 0


def test_a_preemptor_is_tried_once_when_the_last_of_its_victims_has_ended_without_backing_off() -> None:
    cluster = preempting("first", "second", "last")
    cluster.lingering = {"first", "second", "last"}
    cluster.settle()
    assert cluster.ended_removals() == {"success": 1}
    assert cluster.place("high") == "unschedulable"
    for name in ("last", "first", "second"):
        assert len(cluster.attempts("high")) == 1
        cluster.delete(name)
    assert cluster.place("high") == "active"
    cluster.settle()
    assert cluster.pods["default/high"].node_name == "n"
    assert len(cluster.attempts("high")) == 2


def test_a_victim_that_runs_to_its_end_after_its_deletion_counts_as_ended() -> None:
    cluster = preempting("low")
    cluster.lingering = {"low"}
    cluster.settle()
    assert cluster.place("high") == "unschedulable"
    low = cluster.pods["default/low"]
    cluster.show(msgspec.structs.replace(low, status=msgspec.structs.replace(low.status, phase="Succeeded")))
    assert cluster.place("high") == "active"


def test_a_preemptor_that_waits_for_its_victims_is_tried_when_the_api_server_s_list_knows_better() -> None:
    cluster = preempting("low")
    cluster.lingering = {"low"}
    cluster.settle()
    assert cluster.place("high") == "unschedulable"
    cluster.feed(ReconciliationStarted())
    cluster.feed(Reconciled({}, {"pod-high": cluster.pods["default/high"]}, absent_pods=["pod-low"]))
    assert cluster.place("high") == "active"


def test_a_more_important_preemptor_leaves_the_nomination_of_another_scheduler_s_pod_to_that_scheduler() -> None:
    cluster = cluster_of("4", tandem={"nominations": "all"})
    running(cluster, 4)
    cluster.pod("other", cpu="1", priority=3, scheduler="default-scheduler", nominated="n")
    cluster.pod("high", cpu="4", priority=4)
    cluster.schedule()
    assert cluster.nominated("high") == "n"
    assert cluster.writes(PatchPodStatus, "other") == []


def two_that_wait_for_their_victims() -> Cluster:
    """``high-n`` waits for low-n to end and ``high-m`` for low-m; ``small`` goes on running on each node."""
    cluster = Cluster()
    cluster.lingering = {"low-n", "low-m"}
    for name in ("n", "m"):
        cluster.node(name, cpu="3")
        cluster.pod(f"low-{name}", cpu="2", node=name, priority=1)
        cluster.pod(f"small-{name}", cpu="1", node=name, priority=100)
    for name in ("n", "m"):
        cluster.pod(f"high-{name}", cpu="2", priority=100, node_selector={"kubernetes.io/hostname": name})
    cluster.settle()
    assert [cluster.nominated(f"high-{name}") for name in ("n", "m")] == ["n", "m"]
    cluster.advance(60)
    return cluster


def test_a_pod_that_waits_for_its_victims_does_not_hear_of_the_end_of_those_of_another() -> None:
    cluster = two_that_wait_for_their_victims()
    cluster.delete("low-m")
    assert [cluster.place(name) for name in ("high-n", "high-m")] == ["unschedulable", "active"]
    cluster.settle()
    assert cluster.node_of("high-m") == "m"
    cluster.delete("low-n")
    cluster.settle()
    assert cluster.node_of("high-n") == "n"
    assert [len(cluster.attempts(name)) for name in ("high-n", "high-m")] == [2, 2]


def test_a_pod_that_waits_for_its_victims_hears_of_the_end_of_any_other_pod() -> None:
    cluster = two_that_wait_for_their_victims()
    cluster.delete("small-n")
    assert cluster.place("high-n") == "active"


def test_a_pod_that_has_lost_its_nomination_hears_of_the_end_of_any_victim_again() -> None:
    cluster = two_that_wait_for_their_victims()
    cluster.pod("higher", cpu="3", priority=1000, node_selector={"kubernetes.io/hostname": "n"})
    cluster.settle()
    assert cluster.nominated("higher") == "n"
    assert cluster.nominated("high-n") == ""
    cluster.advance(60)
    cluster.delete("low-m")
    assert cluster.place("high-n") != "unschedulable"


def two_for_one_node() -> Cluster:
    """``second`` has its room on n, but ``third`` is nominated there too, and its victim is still there."""
    cluster = Cluster()
    cluster.node("n", cpu="2")
    for name, priority in (("low-1", 1), ("low-2", 2)):
        cluster.pod(name, cpu="1", node="n", priority=priority)
    cluster.pod("second", cpu="1", priority=100)
    cluster.schedule()
    cluster.pod("third", cpu="1", priority=100)
    cluster.schedule()
    cluster.node("m", cpu="1")
    cluster.pod("spared", cpu="1", node="m", priority=1)
    for name in ("second", "third"):
        assert cluster.nominated(name) == "n"
    cluster.succeed(cluster.write(PatchPodStatus, "low-1"))
    cluster.succeed(cluster.write(DeletePod, "low-1"))
    return cluster


def test_a_pod_waits_where_the_room_is_made_for_another_one_whose_victim_is_yet_to_be_deleted() -> None:
    cluster = two_for_one_node()
    assert cluster.place("second") == "active"
    attempt = cluster.schedule()
    assert attempt is not None
    assert "not eligible due to a terminating pod" in attempt.message
    cluster.settle()
    cluster.advance(5)
    cluster.settle()
    assert {cluster.node_of(name) for name in ("second", "third")} == {"n"}
    assert cluster.node_of("spared") == "m"


def test_where_the_room_is_not_made_after_all_the_pods_waiting_for_it_are_tried_again() -> None:
    cluster = two_for_one_node()
    cluster.schedule()
    cluster.fail(cluster.write(PatchPodStatus, "low-2"))
    assert [cluster.place(name) for name in ("second", "third")] == ["active", "active"]


def test_where_the_victim_was_gone_before_its_removal_the_pods_waiting_for_it_are_tried_again() -> None:
    cluster = two_for_one_node()
    patch = cluster.write(PatchPodStatus, "low-2")
    cluster.node("n", cpu="1")
    cluster.delete("low-2")
    cluster.schedule()
    assert cluster.place("second") == "unschedulable"
    assert cluster.writes(PatchPodStatus, "spared") == []
    cluster.fail(patch, 404, 'pods "low-2" not found', "NotFound")
    assert [cluster.place(name) for name in ("second", "third")] == ["active", "active"]


def test_strictly_victims_leave_by_eviction_and_a_refusal_is_a_failure() -> None:
    cluster = preempting("low", strict=True)
    assert cluster.writes(PatchPodStatus, "low") == [], "the eviction writes the condition itself"
    eviction = cluster.write(EvictPod, "low")
    assert eviction.pod.uid == "pod-low"
    cluster.fail(eviction, 429, "Cannot evict pod as it would violate the pod's disruption budget.", "TooManyRequests")
    assert cluster.ended_removals() == {"error": 1}
    assert cluster.place("high") == "active"
    assert cluster.said("low", "Preempted") == []


def test_answers_to_removals_that_have_ended_are_dropped() -> None:
    cluster = preempting("first", "last")
    patch = cluster.write(PatchPodStatus, "first")
    cluster.fail(patch)
    cluster.unanswered.append(patch)
    cluster.succeed(patch)
    assert cluster.writes(DeletePod) == []


def test_the_end_of_a_victim_that_stayed_since_its_preemptor_was_deleted_is_awaited_for_it_no_more() -> None:
    """Else it is remembered for as long as the victim runs."""
    cluster = preempting("low")
    cluster.delete("high")
    cluster.succeed(cluster.write(PatchPodStatus, "low"))
    assert cluster.writes(DeletePod) == []
    assert not cluster.engine.room._awaited._left
