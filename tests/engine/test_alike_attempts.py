"""Pods of one template that an event wakes although it helps none, or few of them: how many are tried."""

from __future__ import annotations

from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.recording.checkpoint import Generation, pack, unpack
from scheduler.framework.per_node import NodeView, PerNodeFilter
from scheduler.framework.plugin import State
from scheduler.messages.commands import BindPod
from scheduler.messages.status import Refusal, unschedulable
from scheduler.objects.node import Node
from tests import builders
from tests.engine.driver import Cluster

WAITING = 30
SPREAD: dict[str, Any] = {
    "maxSkew": 1,
    "minDomains": 2,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


def crowded(cluster: Cluster, cpu: str = "1", unlike: bool = False) -> None:
    """One full node, and pods that found no room on it."""
    cluster.node("n", cpu="4", pods=1000)
    for number in range(8):
        cluster.pod(f"small-{number}", cpu="500m", node="n")
    for number in range(WAITING):
        cluster.pod(f"waits-{number:02}", cpu=f"{1000 + number}m" if unlike else cpu)
    cluster.schedule_all()


def attempts(cluster: Cluster) -> int:
    return sum(len(cluster.attempts(f"waits-{number:02}")) for number in range(WAITING))


def test_one_of_them_is_tried_where_the_event_makes_room_for_none() -> None:
    cluster = Cluster()
    crowded(cluster)
    assert attempts(cluster) == WAITING
    cluster.delete("small-0")
    cluster.schedule_all()
    assert attempts(cluster) == WAITING + 1
    assert cluster.place("waits-10") == "backoff"


def test_each_event_has_one_tried_again() -> None:
    cluster = Cluster()
    crowded(cluster, cpu="3")
    for number in range(5):
        cluster.delete(f"small-{number}")
        cluster.schedule_all()
    assert attempts(cluster) == WAITING + 5


def test_the_one_that_room_is_made_for_gets_it_at_once() -> None:
    cluster = Cluster()
    crowded(cluster)
    cluster.delete("small-0")
    cluster.schedule_all()
    cluster.delete("small-1")
    cluster.schedule_all()
    assert len(cluster.writes(BindPod)) == 1
    # One in vain for the first event, and one that found the room taken; that of the placed one has not ended.
    assert attempts(cluster) == WAITING + 2


def test_a_change_that_helps_none_of_them_has_none_tried() -> None:
    cluster = Cluster()
    crowded(cluster)
    cluster.delete("small-0")
    cluster.schedule_all()
    before = cluster.engine.cache.state
    cluster.pod("of-others", node="n")
    cluster.schedule_all()
    assert cluster.engine.cache.state != before
    assert attempts(cluster) == WAITING + 1


def test_after_changes_that_help_none_the_next_that_does_is_used_at_once() -> None:
    cluster = Cluster()
    crowded(cluster)
    cluster.delete("small-0")
    cluster.schedule_all()
    cluster.pod("of-others", node="n")
    cluster.schedule_all()
    cluster.delete("small-1")
    cluster.schedule_all()
    assert len(cluster.writes(BindPod)) == 1


def test_pods_unlike_each_other_are_all_tried() -> None:
    cluster = Cluster()
    crowded(cluster, unlike=True)
    cluster.delete("small-0")
    cluster.schedule_all()
    assert attempts(cluster) == 2 * WAITING


def test_one_of_another_template_is_tried_although_others_failed() -> None:
    cluster = Cluster()
    crowded(cluster)
    cluster.pod("smaller", cpu="600m")
    cluster.schedule_all()
    cluster.delete("small-0")
    cluster.schedule_all()
    assert not cluster.writes(BindPod)
    cluster.delete("small-1")
    cluster.schedule_all()
    assert len(cluster.writes(BindPod)) == 1


def test_after_their_back_off_all_are_tried_again() -> None:
    cluster = Cluster()
    crowded(cluster)
    cluster.delete("small-0")
    cluster.schedule_all()
    cluster.advance(3)
    cluster.schedule_all()
    assert attempts(cluster) >= 2 * WAITING


class ChangesItsMind(PerNodeFilter):
    """Refuses the first attempts, for reasons of its own."""

    name = "ChangesItsMind"
    refusals_left = WAITING + 1

    def filter_one(self, state: State, pod: PodInfo, node: Node, node_view: NodeView) -> Refusal | None:
        if not pod.name.startswith("waits") or ChangesItsMind.refusals_left <= 0:
            return None
        ChangesItsMind.refusals_left -= 1
        return unschedulable("not in the mood")


def test_pods_that_a_plugin_of_users_refused_are_all_tried() -> None:
    """It may read what the scheduler does not know of."""
    ChangesItsMind.refusals_left = WAITING + 1
    cluster = Cluster(ChangesItsMind)
    cluster.node("n", cpu="400", pods=1000)
    for number in range(WAITING):
        cluster.pod(f"waits-{number:02}", cpu="1")
    cluster.schedule_all()
    assert not cluster.writes(BindPod)
    cluster.pod("new", cpu="1", node="n")
    cluster.delete("new")
    cluster.schedule_all()
    assert len(cluster.writes(BindPod)) == WAITING - 1


def test_a_checkpoint_goes_on_with_the_same_pods() -> None:
    cluster = Cluster()
    crowded(cluster)
    cluster.delete("small-0")
    cluster.schedule_all()
    generation = [Generation(1, cluster.engine.profiles)]
    data = bytes(pack(cluster.engine, generation))
    other = unpack(data, generation, lambda: 0.0)
    assert other.schedule_one(cluster.now) is None
    assert len(other.queue.backoff_pods()) == len(cluster.engine.queue.backoff_pods()) > 20


def test_the_same_holds_for_spreading() -> None:
    """The counts that a spread constraint reads change with labels of pods alone."""
    cluster = Cluster()
    cluster.node("n", cpu="40", pods=1000, labels={"kubernetes.io/hostname": "n"})
    cluster.pod("first", node="n", labels={"app": "web"})
    cluster.pod("second", node="n", labels={"app": "web"})
    for number in range(WAITING):
        cluster.pod(f"waits-{number:02}", labels={"app": "web"}, spread=[SPREAD])
    cluster.schedule_all()
    assert attempts(cluster) == WAITING
    cluster.change("first", labels={})
    cluster.schedule_all()
    assert attempts(cluster) == WAITING + 1
    cluster.change("second", labels={})
    cluster.schedule_all()
    assert len(cluster.writes(BindPod)) == 1


# --- claims -----------------------------------------------------------------------------------------------------------


def with_claims(cluster: Cluster) -> None:
    """A node on which eight pods have a volume each, as many as it may have, and pods with a bound claim each that wait
    for one of those places."""
    cluster.node("n", cpu="400", pods=1000)
    cluster.show(builders.csi_node("n", {"csi.test": 8}))
    for number in range(8):
        with_claim(cluster, f"small-{number}", node="n")
    for number in range(WAITING):
        with_claim(cluster, f"waits-{number:02}")
    cluster.schedule_all()


def with_claim(cluster: Cluster, name: str, **fields: Any) -> None:
    owner = {"namespace": "default", "name": name}
    cluster.show(builders.volume(f"pv-{name}", csi=("csi.test", f"pv-{name}"), claimed_by=owner))
    cluster.show(builders.claim(name, volume=f"pv-{name}"))
    mounted = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    cluster.pod(name, volumes=[mounted], labels={"app": "db"}, **fields)


def test_claims_that_differ_in_identity_alone_make_pods_no_less_alike() -> None:
    cluster = Cluster()
    with_claims(cluster)
    assert attempts(cluster) == WAITING
    cluster.delete("small-0")
    cluster.schedule_all()
    # One has the place now, and its attempt has not ended; one found it taken; the others were not tried again.
    assert len(cluster.writes(BindPod)) == 1
    assert attempts(cluster) == WAITING + 1
    cluster.delete("small-1")
    cluster.schedule_all()
    assert len(cluster.writes(BindPod)) == 2


def test_bindings_of_others_have_none_tried_again_while_one_with_such_a_claim_waits_for_an_event() -> None:
    cluster = Cluster()
    with_claims(cluster)
    cluster.delete("small-0")
    cluster.schedule_all()
    cluster.pod("small-9", node="n")
    cluster.delete("small-9")
    tried = attempts(cluster)
    assert cluster.place("waits-10") == "backoff"
    for number in range(5):
        cluster.pod(f"other-{number}", labels={"app": "web"})
        cluster.schedule_all()
    assert len(cluster.writes(BindPod)) == 6
    assert attempts(cluster) == tried


def test_pods_whose_claims_have_no_volume_yet_are_all_tried() -> None:
    cluster = Cluster()
    cluster.node("n", cpu="400", pods=1000)
    cluster.show(builders.storage_class("none", provisioner="kubernetes.io/no-provisioner"))
    for number in range(WAITING):
        name = f"waits-{number:02}"
        cluster.show(builders.claim(name, storage_class="none"))
        cluster.pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}])
    cluster.schedule_all()
    tried = attempts(cluster)
    cluster.show(builders.volume("static", storage_class="none", size="1Mi"))
    cluster.schedule_all()
    assert attempts(cluster) - tried == WAITING
