"""What a watch has missed, and what the engine has lost, comes to light and is mended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from scheduler import testing
from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.controller.inbox import Inbox
from scheduler.controller.loop import SchedulingLoop, read_clock
from scheduler.controller.report.instruments import Counter
from scheduler.controller.step_watch import StepWatch
from scheduler.controller.watch.health import Health
from scheduler.controller.watch.reconcile import OBJECTS_A_PART, Patience, Reconciler
from scheduler.controller.watch.reflector import Reflector
from scheduler.controller.write.client import ApiClient
from scheduler.engine.commands import Command
from scheduler.engine.engine import Engine
from scheduler.messages.commands import BindPod, ReportKnownObjects, ReportRepairs
from scheduler.messages.references import PodReference
from scheduler.messages.stimuli import (
    ObjectDeleted,
    ObjectObserved,
    Reconciled,
    ReconciliationStarted,
    Stimulus,
    Synced,
    WriteFinished,
)
from scheduler.objects.kinds import Kind, decode_as
from scheduler.objects.pod import Pod
from scheduler.simulate.apiserver.kinds import PODS as PODS_KIND
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json, pod_json
from scheduler.testing.objects import node
from tests.controller.conftest import PODS, create, read, until
from tests.controller.watch.reflecting import patch, running
from tests.engine.driver import Cluster


def line(type_: str, document: dict[str, Any], version: str) -> bytes:
    changed = {**document, "metadata": {**document["metadata"], "resourceVersion": version}}
    return msgspec.json.encode({"type": type_, "object": changed}) + b"\n"


class Rounds(Inbox):
    """An engine that applies at once, and believes nothing."""

    def __init__(self, reflector: Reflector, client: ApiClient) -> None:
        super().__init__()
        self.fed: list[Stimulus] = []
        self.unconfirmed: list[tuple[PodReference, str]] = []
        self.counter = Counter("repairs", "", ("kind",))
        self.reconciler = self.reconciling(reflector, client, 5.0)

    def reconciling(self, reflector: Reflector, client: ApiClient, catch_up_seconds: float) -> Reconciler:
        patience = Patience(catch_up_seconds, to_confirm=0.0)
        return Reconciler([reflector], client, self, self.counter, patience=patience)

    def put(self, stimulus: Stimulus) -> None:
        self.fed.append(stimulus)
        if isinstance(stimulus, ReconciliationStarted):
            self.reconciler.take(ReportKnownObjects([], [], self.unconfirmed))

    @property
    def repairs(self) -> float:
        return self.counter.child("pods").value


async def watching(client: ApiClient, reflector: Reflector, count: int) -> None:
    for number in range(count):
        await create(client, PODS, pod_json(f"p{number}"))
    await until(lambda: reflector.health is Health.WATCHING and reflector.object_count == count)


async def test_what_the_watch_has_missed_is_mended_and_counted(client: ApiClient) -> None:
    async with running(client) as (reflector, seen):
        await watching(client, reflector, 3)
        documents = [await read(client, f"{PODS}/p{number}") for number in range(3)]
        # As if three events had never come: a creation, a change and a deletion.
        reflector.take(line("DELETED", documents[0], documents[0]["metadata"]["resourceVersion"]))
        outdated = {**documents[1], "metadata": {**documents[1]["metadata"], "resourceVersion": "1"}}
        reflector.mend([(decode_as(Pod, msgspec.json.encode(outdated)), b"")], [])
        ghost = {**documents[2], "metadata": {**documents[2]["metadata"], "name": "ghost", "uid": "ghost"}}
        reflector.take(line("ADDED", ghost, "1"))
        del seen.stimuli[:]
        rounds = Rounds(reflector, client)
        comparing = asyncio.create_task(rounds.reconciler.round())
        await create(client, PODS, pod_json("later"))
        await comparing
        assert sorted(event for event in seen.events if event[1] != "later") == [
            ("+", "p0"),
            ("+", "p1"),
            ("?", "ghost"),
        ]
        assert rounds.repairs == 3.0
        known = [pod.name for one in rounds.fed if isinstance(one, Reconciled) for pod in one.pods.values()]
        assert sorted(known) == ["later", "p0", "p1", "p2"]
        await rounds.reconciler.round()
        assert rounds.repairs == 3.0


async def test_repairs_of_each_kind_are_counted_from_zero_on(client: ApiClient) -> None:
    """What a series begins with is no increase to those who watch it."""
    async with running(client) as (reflector, _):
        samples = Rounds(reflector, client).counter.collect().samples
        assert [(one.labels, one.value) for one in samples] == [({"kind": "pods"}, 0.0)]


async def test_what_the_watch_has_missed_is_mended_though_nothing_has_happened_since(client: ApiClient) -> None:
    """The list then has just the version that the watch has."""
    async with running(client) as (reflector, seen):
        await watching(client, reflector, 2)
        missed = await read(client, f"{PODS}/p0")
        reflector.take(line("DELETED", missed, reflector.resource_version))
        del seen.stimuli[:]
        await Rounds(reflector, client).reconciler.round()
        assert seen.events == [("+", "p0")]


async def test_what_is_mended_comes_with_its_json_where_extenders_are_sent_that(client: ApiClient) -> None:
    async with running(client, with_documents=True) as (reflector, seen):
        await watching(client, reflector, 1)
        document = await read(client, f"{PODS}/p0")
        reflector.take(line("DELETED", document, document["metadata"]["resourceVersion"]))
        del seen.stimuli[:]
        comparing = asyncio.create_task(Rounds(reflector, client).reconciler.round())
        await create(client, PODS, pod_json("later"))
        await comparing
        mended = next(one for one in seen.stimuli if isinstance(one, ObjectObserved) and one.object.key == "default/p0")
        assert msgspec.json.decode(mended.document)["spec"] == document["spec"]


async def test_what_changes_while_the_list_comes_is_no_difference(client: ApiClient) -> None:
    async with running(client, page_size=2) as (reflector, _):
        await watching(client, reflector, 12)
        rounds = Rounds(reflector, client)
        comparing = asyncio.create_task(rounds.reconciler.round())
        for number in range(12):
            await client.request("DELETE", f"{PODS}/p{number}", body=b'{"gracePeriodSeconds": 0}')
            await create(client, PODS, pod_json(f"q{number}"))
        await comparing
        assert rounds.repairs == 0.0


async def test_what_the_watch_shows_in_a_later_version_than_the_list_is_not_set_back(client: ApiClient) -> None:
    async with running(client, page_size=2) as (reflector, seen):
        await watching(client, reflector, 12)
        rounds = Rounds(reflector, client)
        comparing = asyncio.create_task(rounds.reconciler.round())
        for number in range(12):
            await patch(client, f"{PODS}/p{number}", {"metadata": {"labels": {"changed": "yes"}}})
        await comparing
        assert rounds.repairs == 0.0
        await until(lambda: all(one.metadata.labels for one in reflector.known.values()))
        assert len(seen.events) == 24


async def test_rounds_follow_each_other_until_they_are_ended(client: ApiClient) -> None:
    async with running(client) as (reflector, _):
        await watching(client, reflector, 1)
        rounds = Rounds(reflector, client)
        going_on = asyncio.create_task(rounds.reconciler.run(0.001))
        await until(lambda: rounds.fed.count(ReconciliationStarted()) > 2)
        going_on.cancel()
        await asyncio.gather(going_on, return_exceptions=True)


async def test_a_watch_that_is_not_past_the_list_is_not_judged(client: ApiClient) -> None:
    async with running(client) as (reflector, _):
        await watching(client, reflector, 1)
        reflector.take(line("MODIFIED", await read(client, f"{PODS}/p0"), "1"))
        rounds = Rounds(reflector, client)
        rounds.reconciler = rounds.reconciling(reflector, client, 0.01)
        await rounds.reconciler.round()
        assert rounds.repairs == 0.0


async def test_what_is_listed_in_an_older_version_than_the_watch_has_shown_is_mended(client: ApiClient) -> None:
    """The API server's state went back, and has passed the version that the watch goes on from."""
    async with running(client) as (reflector, seen):
        await watching(client, reflector, 2)
        documents = [await read(client, f"{PODS}/p{number}") for number in range(2)]
        reflector.take(line("MODIFIED", documents[0], documents[1]["metadata"]["resourceVersion"]))
        del seen.stimuli[:]
        rounds = Rounds(reflector, client)
        comparing = asyncio.create_task(rounds.reconciler.round())
        await create(client, PODS, pod_json("later"))
        await comparing
        assert [event for event in seen.events if event[1] != "later"] == [("+", "p0")]
        assert rounds.repairs == 1.0


async def test_a_list_that_is_older_than_what_the_watch_has_shown_is_no_measure(client: ApiClient) -> None:
    async with running(client) as (reflector, _):
        await watching(client, reflector, 1)
        document = await read(client, f"{PODS}/p0")
        outdated = {**document, "metadata": {**document["metadata"], "resourceVersion": "1"}}
        reflector.mend([(decode_as(Pod, msgspec.json.encode(outdated)), b"")], [])
        reflector.resource_version = "1000000"
        rounds = Rounds(reflector, client)
        await rounds.reconciler.round()
        assert rounds.repairs == 0.0


async def test_only_a_pod_that_has_no_node_when_it_is_read_has_lost_its_binding(client: ApiClient) -> None:
    async with running(client) as (reflector, _):
        await watching(client, reflector, 4)
        before = [decode_as(Pod, msgspec.json.encode(await read(client, f"{PODS}/p{n}"))) for n in range(4)]
        await create(
            client, f"{PODS}/p1/binding", {"metadata": {"name": "p1"}, "target": {"kind": "Node", "name": "n"}}
        )
        await client.request("DELETE", f"{PODS}/p2", body=b'{"gracePeriodSeconds": 0}')
        await until(lambda: reflector.object_count == 3)
        # As if the watch had shown neither.
        reflector.mend([(before[1], b""), (before[2], b"")], [])
        reflector.resource_version = "1"
        rounds = Rounds(reflector, client)
        rounds.unconfirmed = [(PodReference("default", one.name, one.uid), "n") for one in before[:3]]
        rounds.unconfirmed.append((PodReference("default", "p3", "another"), "n"))
        rounds.reconciler = rounds.reconciling(reflector, client, 0.01)
        await rounds.reconciler.round()
        lost = [one.lost_bindings for one in rounds.fed if isinstance(one, Reconciled) and one.lost_bindings]
        assert lost == [{before[0].uid: "n"}]


# --- the engine -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def engine_beside(client: ApiClient) -> AsyncIterator[tuple[Engine, Reconciler, list[str]]]:
    """An engine with a loop and reflectors of nodes and pods, as in production; and what was mended in it."""
    engine = build_engine(load(), started=read_clock(), seed=1)
    mended: list[str] = []

    def dispatch(command: Command) -> None:
        if isinstance(command, ReportKnownObjects | ReportRepairs):
            reconciler.take(command)
        if isinstance(command, ReportRepairs):
            mended.extend(text for _, text in command.repairs)

    inbox = Inbox()
    loop = SchedulingLoop(engine, inbox, dispatch, lambda _: False)
    reflectors = [Reflector(kind, client, inbox, step=loop.steps.step) for kind in (Kind.NODE, Kind.POD)]
    counter = Counter("repairs", "", ("kind",))
    reconciler = Reconciler(reflectors, client, inbox, counter, patience=Patience(to_confirm=0.0), step=loop.steps.step)
    tasks = [asyncio.create_task(run()) for run in (loop.run, *[reflector.run for reflector in reflectors])]
    await until(lambda: all(reflector.health is Health.WATCHING for reflector in reflectors))
    inbox.put(Synced())
    await inbox.emptied()
    try:
        yield engine, reconciler, mended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_an_engine_that_has_lost_nothing_has_nothing_to_mend(client: ApiClient) -> None:
    await create(client, "/api/v1/nodes", node_json("n"))
    await create(client, PODS, pod_json("a", node="n"))
    await create(client, PODS, pod_json("b"))
    async with engine_beside(client) as (engine, reconciler, mended):
        await reconciler.round()
        assert mended == []
        assert engine.schedule_one(read_clock())
        # Assumed, and its bind under way: the list still shows it without a node.
        await reconciler.round()
        assert mended == []
        assert engine.cache.assumed_count == 1
        engine.check()


async def test_a_pod_whose_attempt_broke_off_is_tried_again(client: ApiClient) -> None:
    await create(client, "/api/v1/nodes", node_json("n"))
    await create(client, PODS, pod_json("b"))
    async with engine_beside(client) as (engine, reconciler, mended):
        # As an exception between the queue and the end of the attempt leaves it.
        broken_off = engine.queue.pop(read_clock())
        assert broken_off is not None and engine.schedule_one(read_clock()) is None
        await reconciler.round()
        assert mended == ["pod default/b waited in no queue"]
        assert engine.schedule_one(read_clock())
        assert engine.cache.assumed_count == 1
        engine.check()


async def test_pods_and_nodes_that_the_engine_has_lost_come_back(client: ApiClient) -> None:
    await create(client, "/api/v1/nodes", node_json("n"))
    for name in ("a", "c"):
        await create(client, PODS, pod_json(name, node="n"))
    await create(client, PODS, pod_json("b"))
    async with engine_beside(client) as (engine, reconciler, mended):
        placed, waiting, unknown = (engine.known_pods.get(f"default/{name}") for name in "abc")
        assert placed is not None and waiting is not None and unknown is not None
        engine.cache.remove_pod(placed.uid)
        engine.queue.delete(waiting)
        engine.handle(ObjectDeleted(Kind.POD, unknown.pod, is_stale=True), read_clock())
        await reconciler.round()
        assert mended == [
            "pod default/c was unknown",
            "pod default/b waited in no queue",
            "pod default/a was missing",
        ]
        assert engine.cache.placed(placed.uid) is not None
        assert engine.queue.find("default/b") is not None
        engine.cache.remove_node("n")
        await reconciler.round()
        assert mended[3:] == ["node n was missing"]
        engine.check()


def test_a_pod_that_waits_is_tried_on_a_node_that_only_a_comparison_shows() -> None:
    cluster = Cluster()
    cluster.node("full", cpu="0")
    cluster.pod("a", cpu="1")
    cluster.schedule()
    cluster.advance(20)
    assert cluster.place("a") == "unschedulable"
    cluster.feed(ReconciliationStarted())
    cluster.feed(Reconciled({"n": node("n", resource_version="7")}, {cluster.uid("a"): cluster.pods["default/a"]}))
    cluster.schedule_all()
    assert cluster.node_of("a") == "n"


async def test_pods_and_nodes_that_are_gone_leave_the_engine(client: ApiClient) -> None:
    await create(client, "/api/v1/nodes", node_json("n"))
    await create(client, PODS, pod_json("a", node="n"))
    async with engine_beside(client) as (engine, reconciler, mended):
        for ghost in (testing.pod("ghost", node="n"), testing.pod("a", uid="earlier", node="n")):
            engine.handle(ObjectObserved(Kind.POD, ghost), read_clock())
        engine.handle(ObjectObserved(Kind.NODE, node("m", cpu="1")), read_clock())
        await reconciler.round()
        assert "node m no longer exists" in mended
        assert "pod default/ghost no longer exists" in mended
        assert [info.key for info in engine.known_pods] == ["default/a"]
        assert engine.known_pods.by_uid("earlier") is None
        engine.check()


async def test_a_pod_whose_binding_was_answered_and_is_not_there_is_tried_again(client: ApiClient) -> None:
    await create(client, "/api/v1/nodes", node_json("n"))
    await create(client, PODS, pod_json("b"))
    async with engine_beside(client) as (engine, reconciler, mended):
        bind = next(one for one in engine.schedule_one(read_clock()) or () if isinstance(one, BindPod))
        engine.handle(WriteFinished(bind.ticket, True, 201), read_clock())
        await reconciler.round()
        assert mended == ["pod default/b is no longer bound to node n"]
        assert engine.queue.find("default/b") is not None
        assert engine.cache.assumed_count == 0
        engine.check()


async def test_a_comparison_of_many_pods_lets_the_loop_go_on_in_between(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    count = 3 * OBJECTS_A_PART
    for number in range(count):
        metadata = {"name": f"p{number}", "namespace": "default", "uid": str(number)}
        cluster.store.put(PODS_KIND, "default", f"p{number}", {"metadata": metadata})
    async with running(client) as (reflector, _):
        await until(lambda: reflector.health is Health.WATCHING)
        parts: list[int] = []
        turns: list[int] = []

        class Believing(Inbox):
            def put(self, stimulus: Stimulus) -> None:
                if isinstance(stimulus, ReconciliationStarted):
                    reconciler.take(ReportKnownObjects([], [str(one) for one in range(count)]))
                elif isinstance(stimulus, Reconciled):
                    parts.append(len(stimulus.pods))

            async def emptied(self) -> None:
                await asyncio.sleep(0)

        async def others() -> None:
            while True:
                turns.append(len(parts))
                await asyncio.sleep(0)

        steps = StepWatch()
        reconciler = Reconciler([reflector], client, Believing(), Counter("repairs", "", ("kind",)), step=steps.step)
        beside = asyncio.create_task(others())
        await reconciler.round()
        beside.cancel()
        assert parts == [OBJECTS_A_PART] * 3
        assert {0, 1, 2, 3} <= set(turns)
        assert steps.longest_seconds > 0.0
