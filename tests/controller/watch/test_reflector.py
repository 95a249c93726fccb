"""The reflector against the embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from scheduler.controller.watch.health import Health, silent_kinds
from scheduler.controller.watch.reflector import Reading, Reflector, WatchTimes
from scheduler.controller.write.client import ApiClient
from scheduler.messages.stimuli import ObjectObserved, Stimulus
from scheduler.objects.kinds import Kind
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, read, until
from tests.controller.watch.reflecting import Seen, Waits, delete, has_more, patch, running, watch_line


async def test_the_first_list_is_handed_over_page_by_page_and_then_it_is_synced(client: ApiClient) -> None:
    for number in range(5):
        await create(client, PODS, pod_json(f"p{number}"))
    async with running(client, page_size=2) as (reflector, seen):
        await until(reflector.synced.is_set)
        assert seen.events == [("+", f"p{number}") for number in range(5)]
        assert seen.batches == 3
        assert reflector.object_count == 5


async def test_changes_arrive_through_the_watch(client: ApiClient) -> None:
    async with running(client) as (reflector, seen):
        await until(lambda: reflector.health is Health.WATCHING)
        await create(client, PODS, pod_json("a"))
        await patch(client, f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})
        await delete(client, "a")
        await until(lambda: len(seen.events) == 3)
        assert seen.events == [("+", "a"), ("+", "a"), ("-", "a")]
        assert reflector.object_count == 0


async def test_objects_come_with_their_json_where_extenders_are_sent_them(client: ApiClient) -> None:
    await create(client, PODS, pod_json("a"))
    async with running(client, with_documents=True) as (reflector, seen):
        await until(lambda: reflector.health is Health.WATCHING)
        await create(client, PODS, pod_json("b"))
        await until(lambda: len(seen.events) == 2)
        for stimulus in seen.stimuli:
            assert isinstance(stimulus, ObjectObserved)
            document = msgspec.json.decode(stimulus.document)
            assert document["metadata"]["uid"] == stimulus.object.metadata.uid


async def test_a_pod_that_has_ended_arrives_as_a_deletion(client: ApiClient) -> None:
    async with running(client) as (reflector, seen):
        await until(lambda: reflector.health is Health.WATCHING)
        await create(client, PODS, pod_json("a", node="n1"))
        await until(lambda: len(seen.events) == 1)
        await patch(client, f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
        await until(lambda: len(seen.events) == 2)
        assert seen.events[1] == ("-", "a")


async def test_a_broken_watch_goes_on_where_it_was(cluster: EmbeddedCluster, client: ApiClient) -> None:
    async with running(client) as (reflector, seen):
        await until(lambda: reflector.health is Health.WATCHING)
        await create(client, PODS, pod_json("a"))
        await until(lambda: len(seen.events) == 1)
        cluster.server.close_watches()
        await create(client, PODS, pod_json("b"))
        await until(lambda: len(seen.events) == 2)
        assert seen.events == [("+", "a"), ("+", "b")]
        assert reflector.relists == 0


async def test_after_a_410_the_new_list_tells_what_was_missed_deletions_too(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    for name in ("stays", "goes", "changes", "again"):
        await create(client, PODS, pod_json(name))
    async with running(client) as (reflector, seen):
        await until(lambda: reflector.health is Health.WATCHING)
        first = len(seen.events)
        cluster.faults.drop("GET", r"^/api/v1/pods\?", times=1_000_000)
        cluster.server.close_watches()
        await delete(client, "goes")
        await delete(client, "again")
        await create(client, PODS, pod_json("again"))
        await patch(client, f"{PODS}/changes", {"metadata": {"labels": {"x": "y"}}})
        await create(client, PODS, pod_json("new"))
        cluster.server.compact()
        cluster.faults.clear()
        await until(lambda: reflector.relists == 1 and reflector.health is Health.WATCHING)
        news = seen.events[first:]
        # The pod was replaced by one of the same name: its predecessor's deletion comes first.
        assert news.index(("?", "again")) < news.index(("+", "again"))
        assert sorted(news) == [("+", "again"), ("+", "changes"), ("+", "new"), ("?", "again"), ("?", "goes")]
        assert reflector.object_count == 4


async def test_the_same_version_again_is_no_news(client: ApiClient) -> None:
    reflector = Reflector(Kind.POD, client, seen := Seen())
    line = b'{"type":"MODIFIED","object":{"metadata":{"name":"a","namespace":"d","uid":"1","resourceVersion":"5"}}}\n'
    reflector.take(line + line)
    assert seen.events == [("+", "a")]


async def test_lines_that_change_places_or_come_again_bring_nothing_old_back(client: ApiClient) -> None:
    reflector = Reflector(Kind.POD, client, seen := Seen())
    first, second = watch_line("ADDED", "5"), watch_line("MODIFIED", "7", b'"spec":{"nodeName":"n"}')
    reflector.take(second + first)
    assert seen.events == [("+", "a")]
    assert reflector.known["d/a"].metadata.resource_version == "7"
    gone, other = watch_line("DELETED", "8"), watch_line("ADDED", "9").replace(b'"uid":"1"', b'"uid":"2"')
    reflector.take(gone + second + first)
    assert seen.events == [("+", "a"), ("-", "a")]
    reflector.take(other + gone)
    assert seen.events == [("+", "a"), ("-", "a"), ("+", "a")]
    assert reflector.known["d/a"].metadata.uid == "2"


async def test_an_object_that_comes_after_younger_ones_is_taken(client: ApiClient) -> None:
    reflector = Reflector(Kind.POD, client, seen := Seen())
    reflector.take(watch_line("ADDED", "9") + watch_line("ADDED", "8").replace(b'"a"', b'"b"'))
    assert seen.events == [("+", "a"), ("+", "b")]


async def test_a_bookmark_moves_the_place_and_tells_nothing(client: ApiClient) -> None:
    reflector = Reflector(Kind.POD, client, seen := Seen())
    reflector.take(b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"77"}}}\n')
    assert seen.events == []
    assert reflector.resource_version == "77"


async def test_a_server_that_answers_every_watch_with_410_gets_lists_at_growing_intervals(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    await create(client, "/api/v1/nodes", node_json("n1"))
    cluster.faults.fail("GET", "/api/v1/nodes.*watch=true", 410, times=1_000_000, reason="Expired")
    async with running(client, Kind.NODE, backoff=(waits := Waits())) as (reflector, seen):
        await until(lambda: reflector.relists == 6)
        # No list has made it begin with short waits again.
        assert [round(seconds) for seconds in waits.seconds[:6]] == sorted(round(one) for one in waits.seconds[:6])
        assert waits.seconds[5] > 16.0
        assert len(waits.seconds) in (6, 7)
        assert seen.events == [("+", "n1")]


async def test_a_server_that_ends_every_watch_at_once_is_asked_at_growing_intervals(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    cluster.faults.answer("GET", "/api/v1/nodes.*watch=true", b"", times=1_000_000)
    async with running(client, Kind.NODE, backoff=(waits := Waits())) as (reflector, _):
        await until(lambda: reflector.relists == 1)
        assert len(waits.seconds) >= 5 and waits.seconds[4] > 8.0


async def test_a_kind_whose_watches_are_cut_before_their_first_line_is_listed_again(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    async with running(client, Kind.NODE, backoff=(waits := Waits())) as (reflector, _):
        for cuts in range(5):
            await until(lambda: reflector.health is Health.WATCHING)
            cluster.server.cut_watches()
            await until(partial(has_more, waits.seconds, cuts))
        await until(lambda: reflector.relists == 1)


async def test_a_kind_that_was_silent_for_long_is_listed_again_at_the_first_cut(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    """Of a quiet kind the next bookmark may be a minute away, and readiness tells of the silence meanwhile."""
    async with running(client, Kind.NODE, times=WatchTimes(quiet=0.05)) as (reflector, _):
        await until(lambda: reflector.health is Health.WATCHING and reflector.silence_seconds > 0.1)
        cluster.server.cut_watches()
        await until(lambda: reflector.relists == 1 and reflector.silence_seconds < 0.05)


async def test_a_retry_after_of_an_hour_counts_up_to_its_limit(cluster: EmbeddedCluster, client: ApiClient) -> None:
    cluster.faults.fail("GET", "/api/v1/nodes", 429, reason="TooManyRequests", retry_after=3600)
    times = WatchTimes(max_retry_after=0.05)
    async with running(client, Kind.NODE, times=times) as (reflector, _):
        await until(lambda: reflector.health is Health.WATCHING)


async def test_a_watch_on_a_dead_connection_is_given_up_and_goes_on_where_it_was(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    await create(client, "/api/v1/nodes", node_json("n1"))
    async with running(client, Kind.NODE, times=WatchTimes(idle=0.05)) as (reflector, seen):
        await until(
            lambda: sum(one.path == "/api/v1/nodes" and one.method == "GET" for one in cluster.server.served) > 3
        )
        await create(client, "/api/v1/nodes", node_json("n2"))
        await until(lambda: seen.events == [("+", "n1"), ("+", "n2")])
        assert reflector.known.keys() == {"n1", "n2"}


async def test_silence_is_counted_from_the_last_word_of_the_server(cluster: EmbeddedCluster, client: ApiClient) -> None:
    reflector = Reflector(Kind.NODE, client, Seen())
    assert reflector.silence_seconds == 0.0
    cluster.faults.fail("GET", "/api/v1/nodes", 503, times=1_000_000)
    async with running(client, Kind.NODE) as (reflector, _):
        await until(lambda: reflector.silence_seconds > 0.2)
        assert reflector.trouble == "injected fault"
        cluster.faults.clear()
        await until(lambda: reflector.silence_seconds < 0.1)
        assert reflector.trouble == ""


def test_kinds_that_are_silent_for_more_than_two_minutes_are_named() -> None:
    @dataclass
    class One:
        kind: Kind
        silence_seconds: float
        health: Health = Health.WATCHING
        trouble: str = ""

    quiet = One(Kind.POD, 75.0)
    assert silent_kinds([quiet]) == ""
    lost = One(Kind.NODE, 121.4, Health.UNREACHABLE, "no answer")
    assert silent_kinds([quiet, lost]) == "nodes: nothing heard for 121 s, unreachable: no answer"
    assert silent_kinds([One(Kind.POD, 200.0)]) == "pods: nothing heard for 200 s, watching"


async def test_a_server_that_fails_for_a_while_is_asked_again(cluster: EmbeddedCluster, client: ApiClient) -> None:
    await create(client, "/api/v1/nodes", node_json("n1"))
    cluster.faults.fail("GET", "/api/v1/nodes", 500, times=2)
    cluster.faults.drop("GET", "/api/v1/nodes")
    async with running(client, Kind.NODE) as (reflector, seen):
        await until(reflector.synced.is_set)
        assert seen.events == [("+", "n1")]


async def test_a_list_that_goes_stale_between_two_pages_begins_again(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    for number in range(3):
        await create(client, PODS, pod_json(f"p{number}"))
    batches: list[int] = []

    class Failing(Seen):
        def put_all(self, stimuli: Sequence[Stimulus], /) -> None:
            if not batches:
                cluster.faults.fail("GET", "/api/v1/pods", 410, reason="Expired")
            batches.append(len(stimuli))

    reflector = Reflector(Kind.POD, client, Failing(), Reading(page_size=2))
    task = asyncio.create_task(reflector.run())
    await until(reflector.synced.is_set)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert batches == [2, 1]
    assert cluster.faults.rules == []


async def test_no_further_page_is_read_while_the_intake_has_no_room(client: ApiClient) -> None:
    for number in range(4):
        await create(client, PODS, pod_json(f"p{number}"))
    has_room = asyncio.Event()

    class Full(Seen):
        async def room(self) -> None:
            await has_room.wait()

    reflector = Reflector(Kind.POD, client, seen := Full(), Reading(page_size=1))
    task = asyncio.create_task(reflector.list_once())
    await until(lambda: bool(seen.stimuli))
    await read(client, f"{PODS}/p0")
    assert seen.events == [("+", "p0")]
    has_room.set()
    await task
    assert seen.events == [("+", f"p{number}") for number in range(4)]
