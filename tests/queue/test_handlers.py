from __future__ import annotations

from typing import Any

import pytest

from scheduler.cluster.cache import ClusterCache, Confirmation
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Action, ClusterEvent, Hint, Resource
from scheduler.framework.post_filter import CLEAR_NOMINATION, KEEP_NOMINATION, nominate
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.queue.aftermath import NOTHING, Aftermath, Fate
from scheduler.queue.handlers import EventHandlers
from scheduler.queue.our_pods import OurPods
from scheduler.queue.queued_pod import QueuedPod
from scheduler.testing.objects import node, pod
from tests.builders import claim, service, storage_class
from tests.queue.fakes import NODE_ADD, POD_DELETE, PROFILE, Bench, on
from tests.queue.outside import Outside

EVERYTHING = (
    ClusterEvent(Resource.POD, Action.ALL),
    ClusterEvent(Resource.NODE, Action.ALL),
    ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ALL),
)


class Cluster:
    """Handlers over a bench; every event that the queue hears of is written down by label, with its object."""

    def __init__(self, counts_foreign_nominations: bool = False) -> None:
        self.heard: list[tuple[Any, Any]] = []
        self.outside = Outside()
        self.waiting = self.outside.waiting
        self.bench = Bench({"Ear": tuple(on(event, self._hear) for event in EVERYTHING)})
        self.queue = self.bench.queue
        self.cache = ClusterCache()
        self.ours = OurPods(frozenset({PROFILE}), counts_foreign_nominations)
        self.listen_with(self.bench)
        self._version = 0

    def listen_with(self, bench: Bench) -> None:
        """From now on this bench's queue hears of the events."""
        self.bench, self.queue = bench, bench.queue
        self.handlers = EventHandlers(self.cache, bench.queue, bench.known, self.outside, self.outside, self.ours)

    def see(self, kind: Kind, obj: ApiObject) -> Aftermath:
        return self.handlers.on_observed(kind, obj, self.bench.now)

    def pod(self, name: str, **fields: Any) -> Aftermath:
        self._version += 1
        return self.see(Kind.POD, pod(name, resource_version=str(self._version), **fields))

    def gone(self, kind: Kind, obj: ApiObject, is_stale: bool = False) -> Aftermath:
        return self.handlers.on_deleted(kind, obj, is_stale, self.bench.now)

    def listen(self) -> None:
        """Let a pod of the lowest priority wait in the pool and hear every event that is not restricted to less."""
        self.pod("listener", priority=-1000)
        record = self.bench.pop()
        record.rejected_by(["Ear"])
        self.handlers.requeue_failed(record, KEEP_NOMINATION, self.bench.now)
        self.heard.clear()

    def popped(self, name: str, **fields: Any) -> QueuedPod:
        self.pod(name, **fields)
        record = self.bench.pop()
        assert record.info.name == name
        return record

    def assume(self, record: QueuedPod, node_name: str) -> PodInfo:
        assumed = record.info.on_node(node_name)
        self.cache.assume(assumed)
        self.queue.nominator.delete(record.uid)
        return assumed

    def _hear(self, _pod: Any, old: Any, new: Any) -> Hint:
        self.heard.append((_name(old), _name(new)))
        return Hint.SKIP


def _name(value: Any) -> str:
    return "" if value is None else str(value.name)


# --- nodes and other kinds --------------------------------------------------------------------------------------------


def test_the_cache_knows_a_node_before_the_queue_hears_of_it_and_loses_it_after() -> None:
    known: list[bool] = []
    cluster = Cluster()

    def look(_pod: Any, _old: Any, _new: Any) -> Hint:
        known.append(cluster.cache.table.existing_row("n") is not None)
        return Hint.SKIP

    cluster.listen_with(Bench({"Ear": (on(ClusterEvent(Resource.NODE, Action.ALL), look),)}))
    cluster.bench.rejected("a", "Ear")
    cluster.see(Kind.NODE, node("n"))
    cluster.gone(Kind.NODE, node("n"))
    assert known == [True, True]
    assert cluster.cache.table.existing_row("n") is None


def test_a_heartbeat_or_a_repeated_node_is_no_event() -> None:
    cluster = Cluster()
    cluster.listen()
    cluster.see(Kind.NODE, node("n", resource_version="1"))
    cluster.see(Kind.NODE, node("n", resource_version="1", labels={"not": "looked at"}))
    cluster.see(Kind.NODE, node("n", resource_version="2", allocatable={"cpu": "4000m"}))
    assert cluster.heard == [("", "n")]


def test_a_node_recreated_under_its_name_is_a_deletion_and_an_addition() -> None:
    cluster = Cluster()
    cluster.see(Kind.NODE, node("n"))
    cluster.listen()
    cluster.see(Kind.NODE, node("n", metadata={"uid": "another"}))
    assert cluster.heard == [("n", ""), ("", "n")]


def test_other_kinds_are_kept_and_announced_if_they_have_events() -> None:
    cluster = Cluster()
    cluster.listen()
    cluster.see(Kind.PERSISTENT_VOLUME_CLAIM, claim("c", resource_version="1"))
    cluster.see(Kind.PERSISTENT_VOLUME_CLAIM, claim("c", resource_version="1"))
    cluster.see(Kind.PERSISTENT_VOLUME_CLAIM, claim("c", resource_version="2"))
    cluster.see(Kind.SERVICE, service("s", {"a": "b"}))
    cluster.see(Kind.STORAGE_CLASS, storage_class("unregistered"))
    cluster.gone(Kind.PERSISTENT_VOLUME_CLAIM, claim("c"))
    assert cluster.heard == [("", "c"), ("c", "c"), ("c", "")]
    assert cluster.cache.objects.get(Kind.SERVICE, "default/s") is not None
    assert cluster.cache.objects.get(Kind.PERSISTENT_VOLUME_CLAIM, "default/c") is None


# --- pods -------------------------------------------------------------------------------------------------------------


def test_pending_pods_of_other_schedulers_never_enter_the_queue_but_count_once_assigned() -> None:
    cluster = Cluster()
    cluster.listen()
    cluster.pod("f", scheduler="other")
    assert "active" not in cluster.bench.names()
    assert cluster.pod("f", scheduler="other", node="n").confirmation is Confirmation.NEW
    assert cluster.heard == [("", "f")]
    assert cluster.cache.placed("pod-f") is not None


def test_a_resync_does_not_queue_an_assumed_pod_again() -> None:
    cluster = Cluster()
    record = cluster.popped("a")
    cluster.assume(record, "n")
    cluster.queue.done(record.uid)
    cluster.see(Kind.POD, record.info.pod)
    cluster.pod("a", labels={"changed": "meanwhile"})
    assert cluster.bench.names() == {}


def test_the_watch_confirms_our_own_bind() -> None:
    cluster = Cluster()
    cluster.listen()
    record = cluster.popped("a")
    cluster.assume(record, "n")
    assert cluster.pod("a", node="n").confirmation is Confirmation.CONFIRMED
    assert cluster.heard == [("", "a")]


def test_a_pod_bound_elsewhere_than_assumed_frees_the_assumed_room() -> None:
    cluster = Cluster()
    cluster.listen()
    record = cluster.popped("a")
    cluster.assume(record, "n1")
    assert cluster.pod("a", node="n2").confirmation is Confirmation.MOVED
    assert cluster.heard == [("", "a"), ("a", "")]


def test_a_nominated_pod_bound_elsewhere_wakes_pods_of_at_most_its_priority() -> None:
    cluster = Cluster()
    cluster.listen()
    cluster.pod("a", nominated="n1")
    cluster.pod("a", node="n2", nominated="n1")
    assert cluster.heard == [("", "a"), ("a", "")]
    assert cluster.bench.names() == {"pool": ["listener"]}
    assert len(cluster.queue.nominator) == 0


def test_a_nominated_pod_bound_where_it_was_nominated_frees_nothing() -> None:
    cluster = Cluster()
    cluster.listen()
    cluster.pod("a", nominated="n1")
    cluster.pod("a", node="n1", nominated="n1")
    assert cluster.heard == [("", "a")]


def test_losing_a_nomination_is_a_deletion_for_pods_of_at_most_that_priority() -> None:
    cluster = Cluster()
    cluster.listen()
    cluster.pod("low", priority=-2000, nominated="n1")
    cluster.pod("low", priority=-2000)
    assert cluster.heard == []
    cluster.pod("high", priority=5, nominated="n1")
    cluster.pod("high", priority=5, nominated="n2")
    cluster.gone(Kind.POD, pod("high", priority=5, nominated="n2"))
    assert [old for old, _new in cluster.heard] == ["high", "high"]


def test_a_finished_pod_is_a_deleted_one() -> None:
    cluster = Cluster()
    cluster.listen()
    cluster.pod("a", node="n")
    cluster.pod("a", node="n", phase="Succeeded")
    cluster.pod("never seen", node="n", phase="Failed")
    assert cluster.heard == [("", "a"), ("a", "")]
    assert cluster.cache.placed("pod-a") is None


def test_a_missed_deletion_is_noticed_when_the_name_comes_back() -> None:
    cluster = Cluster()
    cluster.pod("a", uid="old", node="n")
    cluster.listen()
    cluster.pod("a", uid="new")
    assert cluster.heard == [("a", "")]
    assert cluster.cache.placed("old") is None
    assert cluster.bench.names() == {"active": ["a"], "pool": ["listener"]}


def test_a_stale_deletion_removes_the_pod_from_cache_and_queue_alike() -> None:
    cluster = Cluster()
    cluster.pod("pending")
    cluster.pod("bound", node="n")
    cluster.gone(Kind.POD, pod("pending"), is_stale=True)
    cluster.gone(Kind.POD, pod("bound"), is_stale=True)
    assert cluster.bench.names() == {}
    assert cluster.cache.placed("pod-bound") is None
    assert len(cluster.bench.known) == 0


def test_an_assumed_pod_that_is_being_deleted_frees_its_room_at_once() -> None:
    cluster = Cluster()
    cluster.listen()
    record = cluster.popped("a")
    cluster.assume(record, "n")
    assert cluster.pod("a", deleted="2030-01-01T00:00:00Z") is NOTHING
    assert cluster.cache.placed(record.uid) is None
    assert cluster.heard == [("a", "")]


def test_an_assumed_pod_that_waits_in_permit_is_to_be_rejected() -> None:
    cluster = Cluster()
    record = cluster.popped("a")
    cluster.assume(record, "n")
    cluster.waiting.add(record.uid)
    aftermath = cluster.gone(Kind.POD, record.info.pod)
    assert aftermath == Aftermath(reject_waiting=record.uid)
    assert cluster.cache.is_assumed(record.uid)


def test_foreign_nominations_count_only_when_asked_for() -> None:
    for is_counted in (False, True):
        cluster = Cluster(counts_foreign_nominations=is_counted)
        cluster.listen()
        cluster.pod("f", scheduler="other", nominated="n1")
        assert len(cluster.queue.nominator) == is_counted
        cluster.pod("f", scheduler="other")
        assert cluster.heard == ([("f", "")] if is_counted else [])
        cluster.pod("f", scheduler="other", nominated="n2")
        cluster.pod("f", scheduler="other", nominated="n2", node="n2")
        assert len(cluster.queue.nominator) == 0


@pytest.mark.parametrize("is_counted", [True, False])
def test_what_a_reload_says_of_foreign_nominations_holds_for_pods_that_are_nominated_already(is_counted: bool) -> None:
    cluster = Cluster(counts_foreign_nominations=not is_counted)
    cluster.pod("f", scheduler="other", nominated="n1")
    assert len(cluster.queue.nominator) == (not is_counted)
    cluster.handlers.reconfigure(OurPods(frozenset({PROFILE}), is_counted), cluster.bench.now)
    assert len(cluster.queue.nominator) == is_counted


# --- failed attempts --------------------------------------------------------------------------------------------------


def test_a_failed_pod_comes_back_in_its_latest_version_and_is_nominated() -> None:
    cluster = Cluster()
    record = cluster.popped("a")
    cluster.pod("a", labels={"new": "label"})
    record.rejected_by(["Fit"])
    assert cluster.handlers.requeue_failed(record, nominate("n1"), cluster.bench.now) is Fate.REQUEUED
    (nominated,) = cluster.queue.nominator.pods_for_node("n1")
    assert nominated is record.info and record.info.labels == {"new": "label"}


def test_a_pod_deleted_bound_or_recreated_during_its_attempt_does_not_come_back() -> None:
    fates = []
    for happening in ("gone", "bound", "recreated"):
        cluster = Cluster()
        record = cluster.popped("a")
        if happening == "gone":
            cluster.gone(Kind.POD, record.info.pod)
        elif happening == "bound":
            cluster.pod("a", node="elsewhere")
        else:
            cluster.pod("a", uid="another")
        fates.append(cluster.handlers.requeue_failed(record, nominate("n1"), cluster.bench.now))
        waiting = ["a"] if happening == "recreated" else []
        assert cluster.bench.names().get("active", []) == waiting
        assert len(cluster.queue.nominator) == 0 and len(cluster.queue.in_flight) == 0
    assert fates == [Fate.GONE, Fate.BOUND, Fate.RECREATED]


def test_after_a_binding_error_waiting_pods_get_the_event_before_the_pod_is_queued_again() -> None:
    cluster = Cluster()
    cluster.listen()
    record = cluster.popped("a")
    assumed = cluster.assume(record, "n")
    record.rejected_by(())
    assert cluster.handlers.requeue_unbound(record, assumed, False, cluster.bench.now) is Fate.REQUEUED
    assert cluster.heard == [("a", "")]
    assert cluster.bench.names() == {"errors": ["a"], "pool": ["listener"]}
    assert cluster.cache.placed(record.uid) is None


def test_a_pod_rejected_in_permit_is_not_woken_by_its_own_failure() -> None:
    cluster = Cluster()
    cluster.listen_with(Bench({"Fit": (on(NODE_ADD), on(POD_DELETE))}))
    record = cluster.popped("a")
    assumed = cluster.assume(record, "n")
    record.rejected_by(["Fit"])
    cluster.handlers.requeue_unbound(record, assumed, True, cluster.bench.now)
    assert cluster.bench.names() == {"pool": ["a"]}


def test_a_bind_that_succeeded_after_all_frees_nothing() -> None:
    cluster = Cluster()
    cluster.listen()
    record = cluster.popped("a")
    assumed = cluster.assume(record, "n")
    cluster.pod("a", node="n")
    cluster.heard.clear()
    record.rejected_by(())
    assert cluster.handlers.requeue_unbound(record, assumed, False, cluster.bench.now) is Fate.BOUND
    assert cluster.heard == []
    assert cluster.cache.placed(record.uid) is not None


def test_clearing_and_keeping_nominations_after_a_failure() -> None:
    cluster = Cluster()
    for nomination, nominated in ((nominate("n1"), 1), (KEEP_NOMINATION, 1), (CLEAR_NOMINATION, 0)):
        record = cluster.popped("a") if not cluster.bench.known.get("default/a") else cluster.bench.pop()
        record.rejected_by(())
        cluster.handlers.requeue_failed(record, nomination, cluster.bench.now)
        assert len(cluster.queue.nominator) == nominated
        cluster.bench.at(cluster.bench.seconds + 30)


def test_what_needs_nothing_done_says_so() -> None:
    assert Cluster().pod("a") is NOTHING
