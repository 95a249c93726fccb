from __future__ import annotations

from typing import Unpack

from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.queue.known_pods import KnownPods
from scheduler.testing.documents import PodFields
from scheduler.testing.objects import pod


class World:
    def __init__(self) -> None:
        self.known = KnownPods()
        self.nominator = Nominator(self.known.get)

    def pod(self, name: str, **fields: Unpack[PodFields]) -> PodInfo:
        info = PodInfo(pod(name, **fields))
        self.known.put(info)
        return info

    def names(self, node: str) -> list[str]:
        self.nominator.check()
        return [info.name for info in self.nominator.pods_for_node(node)]


def test_pods_are_listed_in_the_order_of_their_nominations() -> None:
    world = World()
    for name in ("b", "a", "c"):
        world.nominator.nominate(world.pod(name), "n1")
    assert world.names("n1") == ["b", "a", "c"]
    assert world.names("n2") == []
    assert set(world.nominator.nodes) == {"n1"}


def test_a_new_nomination_replaces_the_old_one() -> None:
    world = World()
    info = world.pod("a", nominated="n1")
    world.nominator.add(info)
    world.nominator.nominate(info, "n2")
    assert world.names("n1") == []
    assert world.nominator.nominated_node(info.uid) == "n2"
    world.nominator.nominate(info, "")
    assert len(world.nominator) == 0


def test_keeping_prefers_what_is_in_memory_over_a_status_that_is_behind() -> None:
    world = World()
    info = world.pod("a")
    world.nominator.nominate(info, "n1")
    world.nominator.keep(world.pod("a"), world.pod("a"))
    assert world.names("n1") == ["a"]


def test_keeping_takes_the_status_where_nothing_is_in_memory() -> None:
    world = World()
    info = world.pod("a", nominated="n1")
    world.nominator.keep(info, info)
    assert world.names("n1") == ["a"]


def test_an_update_sent_before_our_nomination_was_written_does_not_drop_it() -> None:
    world = World()
    old = world.pod("a")
    world.nominator.nominate(old, "n1")
    new = world.pod("a", labels={"x": "y"})
    world.nominator.update(old, new)
    assert world.nominator.pods_for_node("n1") == (new,)


def test_a_nomination_changed_or_removed_from_outside_is_honoured() -> None:
    world = World()
    first = world.pod("a", nominated="n1")
    world.nominator.add(first)
    second = world.pod("a", nominated="n2")
    world.nominator.update(first, second)
    assert (world.names("n1"), world.names("n2")) == ([], ["a"])
    world.nominator.update(second, world.pod("a"))
    assert world.names("n2") == []


def test_a_pod_deleted_bound_or_recreated_meanwhile_is_not_nominated() -> None:
    world = World()
    gone = PodInfo(pod("gone"))
    bound = PodInfo(pod("bound"))
    world.pod("bound", node="n9")
    old = PodInfo(pod("a", uid="old"))
    world.pod("a", uid="new")
    for info in (gone, bound, old):
        world.nominator.nominate(info, "n1")
    assert world.names("n1") == []


def test_readers_learn_which_nodes_changed_and_nothing_else() -> None:
    world = World()
    info = world.pod("a")
    before = world.nominator.version
    world.nominator.delete("unknown")
    world.nominator.nominate(info, "")
    assert world.nominator.version == before
    world.nominator.nominate(info, "n1")
    assert world.nominator.nodes_changed_since(before) == {"n1"}


def test_pods_of_other_schedulers_count_as_their_status_says() -> None:
    world = World()
    foreign = world.pod("f", nominated="n1", scheduler="other")
    world.nominator.observe_foreign(foreign)
    assert world.names("n1") == ["f"] and world.nominator.is_foreign(foreign.uid)
    world.nominator.observe_foreign(world.pod("f", nominated="n2", scheduler="other"))
    assert world.names("n2") == ["f"]
    world.nominator.observe_foreign(world.pod("f", nominated="n2", scheduler="other", node="n2"))
    assert world.names("n2") == []


def test_forgetting_foreign_pods_leaves_our_own_alone() -> None:
    world = World()
    own = world.pod("a", nominated="n1")
    world.nominator.add(own)
    world.nominator.forget_foreign(own.uid)
    assert world.names("n1") == ["a"]
