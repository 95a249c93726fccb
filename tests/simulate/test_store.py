from __future__ import annotations

from scheduler.simulate.apiserver import Follower, Store
from scheduler.simulate.apiserver.kinds import NODES, PODS


def test_every_write_takes_the_next_revision_whatever_the_kind() -> None:
    store = Store()
    first = store.put(PODS, "a", "x", {"metadata": {}})
    second = store.put(NODES, "", "n", {"metadata": {}})
    third = store.remove(PODS, "a", "x")
    assert [first.revision, second.revision, third.revision] == [2, 3, 4]
    assert third.object["metadata"]["resourceVersion"] == "4"


def test_lists_are_ordered_by_namespace_and_name() -> None:
    store = Store()
    for namespace, name in (("b", "a"), ("a", "z"), ("a", "b")):
        store.put(PODS, namespace, name, {"metadata": {"name": name, "namespace": namespace}})
    assert [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in store.list(PODS)] == [
        ("a", "b"),
        ("a", "z"),
        ("b", "a"),
    ]


def test_the_history_is_bounded_and_says_what_it_forgot() -> None:
    store = Store(history=3)
    for index in range(20):
        store.put(PODS, "a", str(index), {"metadata": {}})
    collection = store.collection(PODS)
    assert 3 <= len(collection.changes) <= 6
    assert collection.forgotten == collection.changes[0].revision - 1
    assert collection.changes[collection.position_after(18) - collection.first].revision == 19


def test_compaction_disowns_the_past_of_kinds_that_were_never_used_too() -> None:
    store = Store()
    store.put(PODS, "a", "x", {"metadata": {}})
    store.compact()
    assert store.collection(PODS).forgotten == store.collection(NODES).forgotten == store.revision


async def test_a_follower_reads_all_its_kinds_in_the_order_of_the_writes() -> None:
    store = Store()
    follower = Follower(store, PODS, NODES)
    store.put(NODES, "", "n", {"metadata": {}})
    store.put(PODS, "a", "x", {"metadata": {}})
    store.put(NODES, "", "n", {"metadata": {}})
    store.compact()
    seen = [(kind.plural, change.type) for kind, change in await follower.changes()]
    assert seen == [("nodes", "ADDED"), ("pods", "ADDED"), ("nodes", "MODIFIED")]
