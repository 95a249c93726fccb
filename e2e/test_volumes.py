"""Promise: a pod goes where its volumes are or can be, and is bound when they are its own, never before."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import builders
from e2e.peer import KubeScheduler
from e2e.provider import Cluster
from e2e.provisioner import Provisioner
from e2e.room import Room, bindings, nodes_of_each_pod, placements, refusal
from e2e.storage import PROVISIONER, Storage, is_bound, mounted
from e2e.subject import Scheduler
from e2e.tandem import Tandem, profile


@pytest.fixture
def storage(room: Room) -> Iterator[Storage]:
    with Storage(room) as storage:
        yield storage


def _user(room: Room, claim: str, name: str = "user", **rest: Any) -> builders.Object:
    """A pod that uses a claim, on one of the room's own nodes."""
    rest.setdefault("nodeSelector", {"room": room.name})
    return builders.pod(name, room.name, volumes=mounted(claim), **rest)


def _add_nodes(room: Room, *names: str) -> None:
    room.add_nodes(*(builders.node(name, labels={"room": room.name}) for name in names))


def _bound_in_order(room: Room, storage: Storage, pod: str, claim: str) -> bool:
    """Whether the claim was complete before the pod got its node, by the API server's own count of writes."""
    pod_versions = [
        int(seen.thing["metadata"]["resourceVersion"])
        for seen in room.pods.history
        if seen.thing["metadata"]["name"] == pod and seen.thing["spec"].get("nodeName")
    ]
    claim_versions = [
        int(seen.thing["metadata"]["resourceVersion"])
        for seen in storage.claims.history
        if seen.thing["metadata"]["name"] == claim and is_bound(seen.thing)
    ]
    return min(claim_versions) < min(pod_versions)


def _why(room: Room, pod: str, reason: str) -> list[str]:
    """The distinct messages with this reason that the pod's condition ever had, in order."""
    said: dict[str, None] = {}
    for seen in room.pods.history:
        condition = refusal(seen.thing) if seen.thing["metadata"]["name"] == pod else None
        if condition is not None and condition["reason"] == reason:
            said[condition["message"]] = None
    return list(said)


def test_a_pod_gets_the_smallest_volume_that_will_do_where_that_volume_is(
    room: Room, storage: Storage, scheduler: Scheduler
) -> None:
    _add_nodes(room, "a", "b")
    storage.add_class()
    storage.add_volume("tiny", "a", "1Gi")
    storage.add_volume("large", "b", "10Gi")
    fitting = storage.add_volume("fitting", "b", "5Gi")
    claim = storage.add_claim("data", "2Gi")
    room.add_pods(_user(room, "data"))
    room.wait_placed("user", "b")
    room.wait_running(1)
    volume = room.client.get("PersistentVolume", fitting)
    reference = volume["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"]) == (room.name, "data")
    assert reference["uid"] == claim["metadata"]["uid"]
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert volume["status"]["phase"] == "Bound"
    assert not _wrote(volume, "kube-controller-manager", "f:claimRef"), "the scheduler chooses the volume"
    assert storage.wait_claim("data", is_bound, "bound")["spec"]["volumeName"] == fitting
    assert _bound_in_order(room, storage, "user", "data")


def _wrote(thing: builders.Object, writer: str, field: str) -> bool:
    """Whether this program wrote a field of the object's spec."""
    return any(
        field in entry.get("fieldsV1", {}).get("f:spec", {})
        for entry in thing["metadata"]["managedFields"]
        if entry["manager"].startswith(writer)
    )


def test_a_volume_is_made_for_the_node_that_was_chosen(room: Room, storage: Storage, scheduler: Scheduler) -> None:
    _add_nodes(room, "a", "b")
    storage.add_class(PROVISIONER)
    storage.add_claim("data")
    with Provisioner(room):
        room.add_pods(_user(room, "data"))
        node = room.wait_bound(1)["user"]
    room.wait_running(1)
    assert storage.wait_selected("data") == node
    assert _bound_in_order(room, storage, "user", "data")
    # Pods that use the claim now can only go where its volume is.
    room.add_pods(*(_user(room, "data", f"later-{i}") for i in range(3)))
    assert set(room.wait_bound(4).values()) == {node}


def test_a_pod_whose_volume_could_not_be_made_goes_back_and_tries_again(
    room: Room, storage: Storage, scheduler: Scheduler
) -> None:
    _add_nodes(room, "a", "b")
    storage.add_class(PROVISIONER)
    storage.add_claim("data")
    with Provisioner(room, refusals=1) as provisioner:
        room.add_pods(_user(room, "data"))
        room.wait_bound(1)
    assert len(provisioner.refused) == 1
    text = 'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"'
    assert _why(room, "user", "SchedulerError") == [text]
    (event,) = room.wait_events("user", "FailedScheduling")
    assert event["note"] == text
    assert _bound_in_order(room, storage, "user", "data")


def test_a_claim_deleted_under_a_waiting_pod_sends_it_back_until_there_is_a_new_one(
    room: Room, storage: Storage, scheduler: Scheduler
) -> None:
    _add_nodes(room, "a")
    storage.add_class(PROVISIONER)
    storage.add_claim("data")
    room.add_pods(_user(room, "data"))
    storage.wait_selected("data")
    storage.remove_claim("data")
    room.pods.wait_until(lambda _: _why(room, "user", "Unschedulable"), 30, "back in the queue")
    assert _why(room, "user", "SchedulerError") == [
        'running PreBind plugin "VolumeBinding": binding volumes: failed to check provisioning pvc: '
        f'persistentvolumeclaims "{room.name}/data" not found'
    ]
    with Provisioner(room):
        storage.add_claim("data")
        room.wait_placed("user", "a")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_a_stop_while_pods_wait_for_their_volumes_loses_nothing(
    room: Room, storage: Storage, subject: Scheduler, cluster: Cluster, how: signal.Signals
) -> None:
    names = ("answered-meanwhile", "answered-afterwards")
    _add_nodes(room, "a", "b")
    storage.add_class(PROVISIONER)
    for name in names:
        storage.add_claim(name)
    subject.start().wait_ready()
    room.add_pods(*(_user(room, name, name) for name in names))
    chosen = {name: storage.wait_selected(name) for name in names}
    if how is signal.SIGKILL:
        subject.kill()
    else:
        subject.stop()
    assert not placements(room.pods.state), "bound before the volume was there"
    with Provisioner(room, only=names[:1]):
        storage.wait_claim(names[0], is_bound, "bound")
    subject.start().wait_ready()
    room.wait_placed(names[0], chosen[names[0]])
    assert names[1] not in placements(room.pods.state)
    with Provisioner(room, only=names[1:]):
        assert room.wait_bound(2) == chosen, "the node that was chosen first stays chosen"
    assert all(len(nodes) == 1 for nodes in nodes_of_each_pod(room.pods.history).values())
    assert len(storage.volumes()) == 2
    for name in names:
        assert len(room.wait_events(name, "Scheduled")) == 1
    if cluster.controlplane is not None:
        assert bindings(cluster.controlplane.audit(), room.name) == {(name, 201): 1 for name in names}


def test_of_two_pods_that_want_one_volume_one_waits_for_another(
    room: Room, storage: Storage, scheduler: Scheduler
) -> None:
    _add_nodes(room, "a", "b")
    storage.add_class()
    storage.add_volume("first", "a")
    for name in ("one", "two"):
        storage.add_claim(name)
    room.add_pods(*(_user(room, name, name) for name in ("one", "two")))
    (winner,) = room.wait_bound(1)
    (loser,) = {"one", "two"} - {winner}
    assert "didn't find available persistent volumes to bind" in room.wait_refused(loser)["message"]
    assert _why(room, loser, "SchedulerError") == []
    storage.add_volume("second", "b")
    assert room.wait_bound(2) == {winner: "a", loser: "b"}


def test_two_schedulers_that_want_the_same_volumes_never_share_one(
    room: Room, storage: Storage, scheduler: Scheduler, peer: KubeScheduler
) -> None:
    volumes, each = 6, 6
    _add_nodes(room, "a")
    storage.add_class()
    for i in range(volumes):
        storage.add_volume(f"v{i}", "a")
    claims = {f"{who}-{i}": who for i in range(each) for who in ("ours", "theirs")}
    for name in claims:
        storage.add_claim(name)
    names = {"ours": scheduler.scheduler_name, "theirs": peer.scheduler_name}
    room.add_pods(*(_user(room, name, name, scheduler=names[who]) for name, who in claims.items()))
    bound = room.wait_bound(volumes)
    missing = "didn't find available persistent volumes to bind"
    room.pods.wait_until(
        lambda state: sum(missing in (refusal(pod) or {}).get("message", "") for pod in state.values()) == volumes,
        30,
        "the others refused",
    )
    assert {volume["spec"]["claimRef"]["name"] for volume in storage.volumes()} == bound.keys()
    assert all(_bound_in_order(room, storage, name, name) for name in bound)


def test_a_claim_for_one_pod_only_has_one_user_at_a_time(
    room: Room, storage: Storage, scheduler: Scheduler, cluster: Cluster
) -> None:
    _add_nodes(room, "a")
    storage.add_class()
    storage.add_volume("exclusive", "a", mode="ReadWriteOncePod")
    storage.add_claim("data", mode="ReadWriteOncePod")
    room.add_pods(_user(room, "data", "first"))
    room.wait_running(1)
    room.add_pods(_user(room, "data", "second"))
    reason = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
        "another pod"
    )
    message = room.wait_refused("second")["message"]
    assert reason in message
    if cluster.controlplane is not None:
        rest = (
            "no new claims to deallocate, preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod."
        )
        assert message == f"0/1 nodes are available: 1 {reason}. {rest}"
    room.client.delete("Pod", "first", room.name)
    room.wait_placed("second", "a")


def test_a_pod_without_its_claim_says_so_and_wakes_when_the_claim_appears(
    room: Room, storage: Storage, scheduler: Scheduler, cluster: Cluster
) -> None:
    _add_nodes(room, "a")
    storage.add_class()
    storage.add_volume("free", "a")
    room.add_pods(_user(room, "data"))
    condition = room.wait_refused("user")
    assert condition["reason"] == "Unschedulable"
    assert 'persistentvolumeclaim "data" not found' in condition["message"]
    if cluster.controlplane is not None:
        # "not found" is all that kube-scheduler's preemption has to say where no node was looked at.
        text = '0/1 nodes are available: persistentvolumeclaim "data" not found. not found'
        assert condition["message"] == text
    storage.add_claim("data")
    room.wait_placed("user", "a")


@pytest.mark.tandem_only
def test_a_volume_that_never_comes_is_waited_for_as_long_as_configured(
    room: Room, storage: Storage, new_tandem: Callable[..., Tandem]
) -> None:
    _add_nodes(room, "a")
    storage.add_class(PROVISIONER)
    storage.add_claim("data")
    config = profile(builders.SCHEDULER)
    config["profiles"][0]["pluginConfig"] = [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 1}}]
    with new_tandem(config=config):
        room.add_pods(_user(room, "data"))
        assert room.wait_refused("user")["message"] == (
            'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
        )
        with Provisioner(room):
            room.wait_placed("user", "a")
