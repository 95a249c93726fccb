"""What VolumeBinding sets aside, writes and waits for once a node is chosen."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.effects import Effect
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.plugin import PreFlight, State
from scheduler.messages.commands import UpdateObject
from scheduler.messages.status import SKIP, Code, Refusal
from scheduler.objects.kinds import Kind, kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.storage import BIND_COMPLETED_ANNOTATION, SELECTED_NODE_ANNOTATION
from scheduler.plugins.volume_binding.volume_binding import VolumeBinding, VolumeBindingArgs
from tests import builders
from tests.plugins.clusters import info
from tests.plugins.volume_cases import TWO_ZONES, ZONE, delayed, free, no_provisioner, reference

PLUGIN = VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=30))


class World:
    """A cluster cache, a pod, and what the engine would do with the two."""

    def __init__(self, *objects: ApiObject, claims: tuple[str, ...] = ("c",)) -> None:
        self.cache = ClusterCache()
        for node in TWO_ZONES:
            self.cache.observe_node(node)
        for each in objects:
            self.say(each)
        self.pod = info(claims=claims)

    def say(self, obj: ApiObject) -> None:
        """The API server shows an object."""
        kind = kind_of(obj)
        self.cache.volumes.observe(kind, self.cache.objects.put(kind, obj.key, obj), obj)

    def unsay(self, kind: Kind, key: str) -> None:
        self.cache.volumes.observe(kind, self.cache.objects.drop(kind, key), None)

    def reserve(self, node: str, pod: PodInfo | None = None) -> tuple[Effect, ...] | Refusal:
        pod = pod or self.pod
        state = PLUGIN.pre_filter(pod, self.cache.view)
        assert isinstance(state, State)
        self.cache.assume(pod.on_node(node))
        answer = PLUGIN.reserve(state, pod.on_node(node), self.cache.view, node)
        if not isinstance(answer, Refusal):
            for effect in answer:
                self.cache.apply(effect)
        self.cache.check()
        return answer

    def unreserve(self, node: str) -> None:
        for effect in PLUGIN.unreserve(None, self.pod.on_node(node), self.cache.view, node):
            self.cache.apply(effect)

    def writes(self, node: str) -> tuple[UpdateObject, ...]:
        flight = PLUGIN.pre_bind_pre_flight(None, self.pod.on_node(node), self.cache.view, node)
        assert isinstance(flight, PreFlight)
        return tuple(write for write in flight.writes if isinstance(write, UpdateObject))

    def progress(self, node: str) -> bool | str:
        answer = PLUGIN.pre_bind_progress(None, self.pod.on_node(node), self.cache.view, node)
        if isinstance(answer, Refusal):
            assert answer.code is Code.ERROR
            return answer.message
        return answer


# --- an existing volume -----------------------------------------------------------------------------------------------


def test_the_smallest_volume_that_fits_is_bound_to_the_claim() -> None:
    world = World(no_provisioner(), delayed(), free("large", "99Gi"), free("b", "20Gi"), free("a", "20Gi"))
    world.reserve("a1")
    (write,) = world.writes("a1")
    assert (write.kind, write.key) == (Kind.PERSISTENT_VOLUME, "a")
    assert write.changes == {
        "metadata": {"resourceVersion": "1", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": "c",
                "uid": "claim-c",
                "resourceVersion": "1",
            }
        },
    }
    assert write.with_ticket(7).ticket == 7


def test_a_volume_set_aside_for_the_claim_is_not_marked_as_bound_by_a_controller() -> None:
    world = World(no_provisioner(), delayed(), free("mine", claimed_by=reference(delayed(), uid="")))
    world.reserve("a1")
    (write,) = world.writes("a1")
    assert "annotations" not in write.changes["metadata"]
    assert write.changes["spec"]["claimRef"]["uid"] == "claim-c"


def test_a_claim_that_two_volumes_of_the_pod_name_is_bound_once() -> None:
    world = World(no_provisioner(), delayed(), free("large", "99Gi"), free("small"), claims=("c", "c"))
    world.reserve("a1")
    assert [write.key for write in world.writes("a1")] == ["small"]
    world = World(builders.storage_class("later"), delayed(), free("v"), claims=("c", "c"))
    world.reserve("a1")
    assert [write.key for write in world.writes("a1")] == ["v"]


def test_volumes_are_written_in_the_order_of_their_claims_sizes() -> None:
    objects = [no_provisioner(), delayed("c", "2Gi"), delayed("d", "1Gi"), free("a", "2Gi"), free("b", "1Gi")]
    world = World(*objects, claims=("c", "d"))
    world.reserve("a1")
    assert [(write.key, write.changes["spec"]["claimRef"]["name"]) for write in world.writes("a1")] == [
        ("b", "d"),
        ("a", "c"),
    ]


def test_the_next_pod_does_not_see_an_assumed_volume_as_free() -> None:
    world = World(no_provisioner(), delayed(), delayed("d"), free("v"))
    world.reserve("a1")
    other = info("other", claims=("d",))
    state = PLUGIN.pre_filter(other, world.cache.view)
    verdicts = PLUGIN.filter(state, other, world.cache.view, world.cache.view.rows)  # type: ignore[arg-type]
    assert verdicts is not None and verdicts.codes.all()


def test_unreserve_frees_the_volume_and_may_come_twice() -> None:
    world = World(no_provisioner(), delayed(), free("v"))
    world.reserve("a1")
    world.unreserve("a1")
    world.unreserve("a1")
    assert world.cache.volumes.volume("v") == free("v")
    assert world.cache.volumes.reservation(world.pod.uid) is None
    other = info("other", claims=("c",))
    assert not isinstance(world.reserve("a2", other), Refusal)


def test_a_pod_that_is_forgotten_leaves_nothing_set_aside() -> None:
    world = World(no_provisioner(), delayed(), free("v"))
    world.reserve("a1")
    world.cache.forget(world.pod.uid)
    assert world.cache.volumes.volume("v") == free("v")
    world.cache.check()


def test_a_node_where_nothing_fits_any_more_is_an_error() -> None:
    world = World(no_provisioner(), delayed(), free("v", at=f"{ZONE} In a"))
    answer = world.reserve("b1")
    assert isinstance(answer, Refusal)
    assert answer.code is Code.ERROR


# --- a volume to be made ----------------------------------------------------------------------------------------------


def test_the_chosen_node_is_written_to_the_claim() -> None:
    world = World(builders.storage_class("later"), delayed(resource_version="42"))
    world.reserve("b1")
    (write,) = world.writes("b1")
    assert (write.kind, write.key) == (Kind.PERSISTENT_VOLUME_CLAIM, "default/c")
    assert write.changes == {"metadata": {"resourceVersion": "42", "annotations": {SELECTED_NODE_ANNOTATION: "b1"}}}


def test_another_pod_with_the_same_claim_follows_to_the_assumed_node() -> None:
    world = World(builders.storage_class("later"), delayed())
    world.reserve("b1")
    other = info("other", claims=("c",))
    view = world.cache.view
    state = PLUGIN.pre_filter(other, view)
    verdicts = PLUGIN.filter(state, other, view, view.rows)  # type: ignore[arg-type]
    assert verdicts is not None
    assert [name for name, code in zip(view.table.names, verdicts.codes, strict=True) if not code] == ["b1"]


# --- nothing to do ----------------------------------------------------------------------------------------------------


def test_bound_claims_need_no_work_before_the_bind() -> None:
    world = World(builders.claim("c", volume="v"), free("v"))
    assert world.reserve("a1") == ()
    assert PLUGIN.pre_bind_pre_flight(None, world.pod, world.cache.view, "a1") is SKIP


def test_the_wait_is_as_long_as_configured_and_runs_beside_others() -> None:
    world = World(builders.storage_class("later"), delayed())
    world.reserve("a1")
    flight = PLUGIN.pre_bind_pre_flight(None, world.pod.on_node("a1"), world.cache.view, "a1")
    assert isinstance(flight, PreFlight)
    assert (flight.wait_seconds, flight.is_parallel) == (30.0, True)


# --- waiting for an existing volume -----------------------------------------------------------------------------------


def static_world() -> World:
    world = World(no_provisioner(), delayed(), free("v"))
    world.reserve("a1")
    return world


def done(name: str = "c", volume: str = "v", version: str = "2", **annotations: str) -> ApiObject:
    return builders.claim(
        name,
        storage_class="later",
        volume=volume,
        annotations={BIND_COMPLETED_ANNOTATION: "yes", **annotations},
        resource_version=version,
    )


def written(version: str = "2", **fields: Any) -> ApiObject:
    fields.setdefault("claimed_by", reference(delayed()))
    return free("v", phase="Bound", resource_version=version, **fields)


def test_it_waits_for_the_watch_to_show_its_own_write_then_for_the_claim() -> None:
    world = static_world()
    assert world.progress("a1") is False
    world.say(written())
    assert world.progress("a1") is False
    (found,) = PLUGIN.findings(world.pod, world.cache.view)
    assert (found.nodes, found.lines) == (("a1",), ("claim default/c is not bound to volume v yet",))
    world.say(done())
    assert world.progress("a1") is True
    assert not PLUGIN.findings(world.pod, world.cache.view)


@pytest.mark.parametrize(
    ("volume", "cause"),
    [
        (written(claimed_by=None), 'ClaimRef got reset for pv "v"'),
        (written(claimed_by=reference(delayed(), uid="")), 'ClaimRef got reset for pv "v"'),
        (
            written(at=f"{ZONE} In b"),
            'pv "v" node affinity doesn\'t match node "a1": no matching NodeSelectorTerms',
        ),
    ],
)
def test_a_volume_that_went_another_way_ends_the_wait(volume: ApiObject, cause: str) -> None:
    world = static_world()
    world.say(volume)
    assert world.progress("a1") == f"binding volumes: {cause}"


@pytest.mark.parametrize(
    ("kind", "key", "cause"),
    [
        (Kind.PERSISTENT_VOLUME, "v", 'failed to check binding: persistentvolumes "v" not found'),
        (
            Kind.PERSISTENT_VOLUME_CLAIM,
            "default/c",
            'failed to check binding: persistentvolumeclaims "default/c" not found',
        ),
    ],
)
def test_an_object_that_is_gone_ends_the_wait(kind: Kind, key: str, cause: str) -> None:
    world = static_world()
    world.unsay(kind, key)
    assert world.progress("a1") == f"binding volumes: {cause}"


def test_a_node_that_is_gone_ends_the_wait() -> None:
    world = static_world()
    world.cache.remove_node("a1")
    assert world.progress("a1") == 'binding volumes: failed to get node "a1": node "a1" not found'


def test_a_pod_that_is_gone_ends_the_wait() -> None:
    world = static_world()
    world.cache.remove_pod(world.pod.uid)
    assert world.progress("a1") == 'binding volumes: pod does not exist any more: pod "pending" not found'


# --- waiting for a new volume -----------------------------------------------------------------------------------------


def dynamic_world() -> World:
    world = World(builders.storage_class("later"), delayed())
    world.reserve("a1")
    return world


def test_it_waits_until_the_new_volume_is_bound() -> None:
    world = dynamic_world()
    assert world.progress("a1") is False
    (found,) = PLUGIN.findings(world.pod, world.cache.view)
    maker = f"{builders.storage_class('later').provisioner} of class later"
    assert found.lines == (f"claim default/c has no volume yet: {maker} is to make it for node a1",)
    world.say(delayed(node="a1", resource_version="2"))
    assert world.progress("a1") is False
    world.say(done(version="3", **{SELECTED_NODE_ANNOTATION: "a1"}))
    assert world.progress("a1") is False, "the volume is not known yet"
    world.say(free("v"))
    assert world.progress("a1") is True


@pytest.mark.parametrize(
    ("claim", "cause"),
    [
        (delayed(resource_version="2"), 'selectedNode annotation reset for PVC "c"'),
        (
            builders.claim("c", storage_class="later", resource_version="2", annotations={"x": "y"}),
            'provisioning failed for PVC "c"',
        ),
        (delayed(node="a2", resource_version="2"), 'provisioning failed for PVC "c"'),
    ],
)
def test_a_provisioner_that_gave_up_ends_the_wait(claim: ApiObject, cause: str) -> None:
    world = dynamic_world()
    world.say(claim)
    assert world.progress("a1") == f"binding volumes: {cause}"


def test_a_volume_that_was_made_elsewhere_ends_the_wait() -> None:
    world = dynamic_world()
    world.say(free("v", at=f"{ZONE} In b"))
    world.say(done(**{SELECTED_NODE_ANNOTATION: "a1"}))
    expected = 'binding volumes: pv "v" node affinity doesn\'t match node "a1": no matching NodeSelectorTerms'
    assert world.progress("a1") == expected


def test_a_claim_that_is_gone_ends_the_wait() -> None:
    world = dynamic_world()
    world.unsay(Kind.PERSISTENT_VOLUME_CLAIM, "default/c")
    expected = 'binding volumes: failed to check provisioning pvc: persistentvolumeclaims "default/c" not found'
    assert world.progress("a1") == expected


def test_a_claim_that_had_this_node_selected_needs_no_new_version() -> None:
    world = World(builders.storage_class("later"), delayed(node="a1"))
    world.reserve("a1")
    bound = done(version="1", **{SELECTED_NODE_ANNOTATION: "a1"})
    world.say(bound)
    world.say(free("v"))
    assert world.progress("a1") is True
