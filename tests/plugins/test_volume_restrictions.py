"""Which pods VolumeRestrictions keeps apart."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import testing
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Hint, Resource
from scheduler.messages.status import SKIP, Code, Refusal
from scheduler.plugins.volume_restrictions import CLAIM_TAKEN, DISK_TAKEN, VolumeRestrictions
from scheduler.testing.objects import node
from tests import builders
from tests.plugins.clusters import cluster, info, refusals

NODES = (node("n1"), node("n2"))
PLUGIN = VolumeRestrictions()


def gce(name: str, read_only: bool = False) -> dict[str, Any]:
    return {"name": "v", "gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str, read_only: bool = False) -> dict[str, Any]:
    return {"name": "v", "awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(iqn: str, read_only: bool = False) -> dict[str, Any]:
    return {"name": "v", "iscsi": {"targetPortal": "t", "iqn": iqn, "lun": 0, "readOnly": read_only}}


def rbd(image: str, *monitors: str, pool: str = "rbd", read_only: bool = False) -> dict[str, Any]:
    return {"name": "v", "rbd": {"monitors": list(monitors), "image": image, "pool": pool, "readOnly": read_only}}


@pytest.mark.parametrize(
    ("mine", "theirs", "conflict"),
    [
        (gce("a"), gce("a"), True),
        (gce("a"), gce("b"), False),
        (gce("a", True), gce("a"), True),
        (gce("a", True), gce("a", True), False),
        (ebs("a", True), ebs("a", True), True),
        (ebs("a"), ebs("b"), False),
        (iscsi("a"), iscsi("a"), True),
        (iscsi("a", True), iscsi("a", True), False),
        (rbd("i", "m1", "m2"), rbd("i", "m2", "m3"), True),
        (rbd("i", "m1"), rbd("i", "m2"), False),
        (rbd("i"), rbd("i"), False),
        (rbd("i", "m1", pool="p"), rbd("i", "m1"), False),
        (rbd("i", "m1", read_only=True), rbd("i", "m1", read_only=True), False),
        (gce("a"), ebs("a"), False),
    ],
)
def test_a_disk_is_shared_on_a_node_only_where_its_kind_allows(
    mine: dict[str, Any], theirs: dict[str, Any], conflict: bool
) -> None:
    view = cluster(NODES, [testing.pod("user", node="n1", volumes=[theirs])])
    expected = {"n1": DISK_TAKEN} if conflict else {}
    assert refusals(PLUGIN, info(volumes=[mine]), view) == expected


def test_a_disk_of_a_pod_that_left_is_free() -> None:
    view = cluster(NODES, [testing.pod("user", node="n1", volumes=[gce("a")])])
    private = view.one_row(0)
    private.remove_pod("pod-user")
    state = PLUGIN.pre_filter(info(volumes=[gce("a")]), view)
    assert PLUGIN.filter_row(state, info(volumes=[gce("a")]), private, 0) is None  # type: ignore[arg-type]


def rwop(name: str = "only", **fields: Any) -> Any:
    return builders.claim(name, modes=["ReadWriteOncePod"], **fields)


def test_a_read_write_once_pod_claim_in_use_closes_every_node() -> None:
    view = cluster(NODES, [testing.pod("user", node="n1", claims=["only"])], [rwop()])
    assert refusals(PLUGIN, info(claims=["only"]), view) == {"n1": CLAIM_TAKEN, "n2": CLAIM_TAKEN}
    assert CLAIM_TAKEN.code is Code.UNSCHEDULABLE


def test_people_are_shown_who_uses_a_read_write_once_pod_claim() -> None:
    user = testing.pod("user", node="n1", claims=["only"])
    view = cluster(NODES, [user, testing.pod("stranger", namespace="b", node="n2", claims=["only"])], [rwop()])
    (found,) = PLUGIN.findings(info(claims=["only"]), view)
    assert (found.nodes, found.lines) == (("n1",), ("claim default/only (ReadWriteOncePod) is in use by default/user",))
    assert not PLUGIN.findings(PodInfo(user), view)


def test_a_claim_of_the_same_name_in_another_namespace_is_another_claim() -> None:
    view = cluster(
        NODES,
        [testing.pod("user", namespace="other", node="n1", claims=["only"])],
        [rwop(), rwop(namespace="other")],
    )
    assert PLUGIN.pre_filter(info(claims=["only"]), view) is SKIP


def test_a_missing_claim_is_the_first_thing_noticed() -> None:
    view = cluster(NODES)
    answer = PLUGIN.pre_filter(info(claims=["none"]), view)
    assert isinstance(answer, Refusal)
    assert answer.code is Code.UNRESOLVABLE
    assert answer.reasons == ('persistentvolumeclaim "none" not found',)


@pytest.mark.parametrize("fields", [{}, {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}, {"claims": ["free"]}])
def test_pods_without_anything_to_share_are_skipped(fields: dict[str, Any]) -> None:
    view = cluster(NODES, objects=[builders.claim("free")])
    assert PLUGIN.pre_filter(info(**fields), view) is SKIP


def test_taking_the_user_away_frees_the_claim() -> None:
    user = testing.pod("user", node="n1", claims=["only"])
    view = cluster(NODES, [user], [rwop()])
    pod = info(claims=["only"])
    state = PLUGIN.pre_filter(pod, view)
    without = state.with_pod(view.one_row(0), 0, PodInfo(user), -1)  # type: ignore[union-attr]
    assert PLUGIN.filter(without, pod, view, view.rows) is None
    assert PLUGIN.filter(without.with_pod(view.one_row(0), 0, PodInfo(user), 1), pod, view, view.rows) is not None


def test_a_stranger_of_another_namespace_changes_nothing() -> None:
    stranger = testing.pod("stranger", namespace="other", node="n1", claims=["only"])
    view = cluster(NODES, [testing.pod("user", node="n1", claims=["only"]), stranger], [rwop()])
    state = PLUGIN.pre_filter(info(claims=["only"]), view)
    assert state.with_pod(view.one_row(0), 0, PodInfo(stranger), -1) is state  # type: ignore[union-attr]


def hint(resource: Resource, pod: PodInfo, old: Any, new: Any) -> Hint:
    return next(each.hint(pod, old, new) for each in PLUGIN.events() if each.event.resource is resource)


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (testing.pod("x", node="n1", claims=["mine"]), Hint.QUEUE),
        (testing.pod("x", node="n1", claims=["other"]), Hint.SKIP),
        (testing.pod("x", node="n1", volumes=[gce("a")]), Hint.QUEUE),
        (testing.pod("x", node="n1", namespace="other", volumes=[gce("a")], claims=["mine"]), Hint.SKIP),
    ],
)
def test_only_the_end_of_a_rival_wakes_the_pod(gone: Any, expected: Hint) -> None:
    pod = info(claims=["mine"], volumes=[gce("a")])
    assert hint(Resource.POD, pod, PodInfo(gone), None) is expected


def test_a_new_claim_wakes_the_pod_that_names_it() -> None:
    pod = info(claims=["mine"])
    assert hint(Resource.PERSISTENT_VOLUME_CLAIM, pod, None, builders.claim("mine")) is Hint.QUEUE
    assert hint(Resource.PERSISTENT_VOLUME_CLAIM, pod, None, builders.claim("mine", namespace="x")) is Hint.SKIP
