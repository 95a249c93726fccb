"""What a watch has missed, and what the engine has lost, comes to light and is mended."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.controller.loop import read_clock
from scheduler.controller.report.instruments import Counter
from scheduler.controller.watch.health import Health
from scheduler.controller.watch.reconcile import Reconciler
from scheduler.controller.watch.reflector import Reflector
from scheduler.controller.write.client import ApiClient
from scheduler.engine.engine import Engine
from scheduler.messages.commands import ReportRepairs
from scheduler.messages.stimuli import ObjectObserved, Reconciled, Stimulus, Synced
from scheduler.objects.kinds import Kind
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from tests import builders
from tests.controller.conftest import PODS, create, pod_document, read, until
from tests.controller.watch.test_reflector import running


def line(type_: str, document: dict[str, Any], version: str) -> bytes:
    changed = {**document, "metadata": {**document["metadata"], "resourceVersion": version}}
    return msgspec.json.encode({"type": type_, "object": changed}) + b"\n"


class Rounds:
    def __init__(self, reflector: Reflector, client: ApiClient) -> None:
        self.fed: list[Stimulus] = []
        self.counter = Counter("repairs", "", ("kind",))
        self.reconciler = Reconciler([reflector], client, self.fed.append, self.counter, catch_up_seconds=5.0)

    @property
    def repairs(self) -> float:
        return self.counter.child("pods").value


async def watching(client: ApiClient, reflector: Reflector, count: int) -> None:
    for number in range(count):
        await create(client, PODS, pod_document(f"p{number}"))
    await until(lambda: reflector.health is Health.WATCHING and reflector.object_count == count)


async def test_what_the_watch_has_missed_is_mended_and_counted(client: ApiClient) -> None:
    async with running(client) as (reflector, seen):
        await watching(client, reflector, 3)
        documents = [await read(client, f"{PODS}/p{number}") for number in range(3)]
        # As if three events had never come: a creation, a change and a deletion.
        reflector.take(line("DELETED", documents[0], documents[0]["metadata"]["resourceVersion"]))
        reflector.take(line("MODIFIED", documents[1], "1"))
        ghost = {**documents[2], "metadata": {**documents[2]["metadata"], "name": "ghost", "uid": "ghost"}}
        reflector.take(line("ADDED", ghost, "1"))
        del seen.stimuli[:]
        rounds = Rounds(reflector, client)
        comparing = asyncio.create_task(rounds.reconciler.round())
        await create(client, PODS, pod_document("later"))
        await comparing
        assert sorted(told for told in seen.told if told[1] != "later") == [("+", "p0"), ("+", "p1"), ("?", "ghost")]
        assert rounds.repairs == 3.0
        (known,) = rounds.fed
        assert isinstance(known, Reconciled)
        assert sorted(pod.name for pod in known.pods.values()) == ["later", "p0", "p1", "p2"]
        await rounds.reconciler.round()
        assert rounds.repairs == 3.0


async def test_what_is_mended_comes_with_its_json_where_extenders_are_sent_that(client: ApiClient) -> None:
    async with running(client, with_documents=True) as (reflector, seen):
        await watching(client, reflector, 1)
        document = await read(client, f"{PODS}/p0")
        reflector.take(line("DELETED", document, document["metadata"]["resourceVersion"]))
        del seen.stimuli[:]
        comparing = asyncio.create_task(Rounds(reflector, client).reconciler.round())
        await create(client, PODS, pod_document("later"))
        await comparing
        mended = next(one for one in seen.stimuli if isinstance(one, ObjectObserved) and one.object.key == "default/p0")
        assert msgspec.json.decode(mended.document)["spec"] == document["spec"]


async def test_what_changes_while_the_list_comes_is_no_difference(client: ApiClient) -> None:
    async with running(client) as (reflector, _):
        await watching(client, reflector, 12)
        rounds = Rounds(reflector, client)
        rounds.reconciler = Reconciler(
            [reflector], client, rounds.fed.append, rounds.counter, page_size=2, catch_up_seconds=5.0
        )
        comparing = asyncio.create_task(rounds.reconciler.round())
        for number in range(12):
            await client.request("DELETE", f"{PODS}/p{number}", body=b'{"gracePeriodSeconds": 0}')
            await create(client, PODS, pod_document(f"q{number}"))
        await comparing
        assert rounds.repairs == 0.0


async def test_a_watch_that_is_not_past_the_list_is_not_judged(client: ApiClient) -> None:
    async with running(client) as (reflector, _):
        await watching(client, reflector, 1)
        reflector.take(line("MODIFIED", await read(client, f"{PODS}/p0"), "1"))
        rounds = Rounds(reflector, client)
        rounds.reconciler = Reconciler([reflector], client, rounds.fed.append, rounds.counter, catch_up_seconds=0.01)
        await rounds.reconciler.round()
        assert rounds.repairs == 0.0


# --- the engine -------------------------------------------------------------------------------------------------------


def engine_with(*things: Pod | Node) -> tuple[Engine, Reconciled]:
    engine = build_engine(load(), started=read_clock(), seed=1)
    for thing in things:
        engine.handle(ObjectObserved(Kind.POD if isinstance(thing, Pod) else Kind.NODE, thing), read_clock())
    engine.handle(Synced(), read_clock())
    nodes = {thing.metadata.name: thing for thing in things if isinstance(thing, Node)}
    return engine, Reconciled(nodes, {thing.uid: thing for thing in things if isinstance(thing, Pod)})


def mended(engine: Engine, stimulus: Reconciled) -> list[str]:
    commands = engine.handle(stimulus, read_clock())
    engine.check()
    return [text for command in commands if isinstance(command, ReportRepairs) for _, text in command.repairs]


def test_an_engine_that_has_lost_nothing_has_nothing_to_mend() -> None:
    engine, truth = engine_with(
        builders.node("n", cpu="4", resource_version="1"), builders.pod("a", node="n"), builders.pod("b", cpu="1")
    )
    assert mended(engine, truth) == []
    assert engine.schedule_one(read_clock())
    # Assumed, and its bind under way: the list still shows it without a node.
    assert mended(engine, truth) == []
    assert engine.cache.is_assumed("pod-b")


def test_pods_and_nodes_that_the_engine_has_lost_come_back() -> None:
    engine, truth = engine_with(
        builders.node("n", cpu="4", resource_version="1"), builders.pod("a", node="n"), builders.pod("b", cpu="1")
    )
    engine.cache.remove_pod("pod-a")
    waiting = engine.known_pods.by_uid("pod-b")
    assert waiting is not None
    engine.queue.delete(waiting)
    assert mended(engine, truth) == ["pod default/b waited in no queue", "pod default/a was missing"]
    assert engine.cache.placed("pod-a") is not None
    assert engine.queue.find("default/b") is not None
    more = builders.pod("c", node="n")
    assert mended(engine, Reconciled(truth.nodes, {**truth.pods, more.uid: more})) == ["pod default/c was unknown"]
    assert mended(engine, Reconciled({}, truth.pods)) == [
        "pod default/c no longer exists",
        "node n no longer exists",
    ]
