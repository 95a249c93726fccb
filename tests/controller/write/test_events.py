"""The event recorder against the embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from scheduler.config.tandem import Limits
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.events import MAX_TRIES, EventRecorder
from scheduler.controller.write.leadership import AlwaysHeld, LeaseToken
from scheduler.controller.write.outbox import Outbox
from scheduler.controller.write.pacing import SHARE, Rank
from scheduler.controller.write.writer_settings import WriterSettings
from scheduler.messages.commands import WriteEvent
from scheduler.messages.now import Now
from scheduler.messages.references import PodReference
from scheduler.simulate.apiserver.kinds import NAMESPACES
from scheduler.simulate.cluster import EmbeddedCluster
from tests.controller.conftest import create, read, until

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
WALL = 1_767_225_600_000_000_000


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> Now:
        return Now(self.seconds, WALL + int(self.seconds * 1e9))


@asynccontextmanager
async def recording(client: ApiClient, **limits: Any) -> AsyncIterator[tuple[EventRecorder, Clock]]:
    clock = Clock()
    settings = WriterSettings(**limits)
    outbox = Outbox(Limits().requests_in_flight)
    recorder = EventRecorder(client, AlwaysHeld(), "host", settings, outbox, clock)
    try:
        yield recorder, clock
    finally:
        await outbox.close()


def failed(name: str = "a", note: str = "no fit", namespace: str = "default") -> WriteEvent:
    pod = PodReference(namespace, name, f"uid-{name}")
    return WriteEvent(pod, "Warning", "FailedScheduling", "Scheduling", note, "tandem-scheduler")


def scheduled(name: str) -> WriteEvent:
    pod = PodReference("default", name, f"uid-{name}")
    return WriteEvent(
        pod, "Normal", "Scheduled", "Binding", f"Successfully assigned default/{name} to n1", "tandem-scheduler"
    )


async def events(client: ApiClient) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await read(client, EVENTS))["items"]
    return items


async def test_an_event_names_its_reporter_and_its_objects(client: ApiClient) -> None:
    victim, preemptor = PodReference("default", "v", "1"), PodReference("default", "p", "2")
    event = WriteEvent(
        victim, "Normal", "Preempted", "Preempting", "Preempted by pod 2 on node n1", "tandem-scheduler", preemptor
    )
    async with recording(client) as (recorder, _):
        recorder.record(event)
        await until(lambda: recorder.counts.written == 1)
    (stored,) = await events(client)
    assert stored["reason"] == "Preempted"
    assert stored["action"] == "Preempting"
    assert stored["note"] == "Preempted by pod 2 on node n1"
    assert stored["reportingController"] == "tandem-scheduler"
    assert stored["reportingInstance"] == "tandem-scheduler-host"
    assert stored["regarding"] == {"kind": "Pod", "apiVersion": "v1", "namespace": "default", "name": "v", "uid": "1"}
    assert stored["related"]["name"] == "p"
    assert stored["eventTime"] == "2026-01-01T00:16:40.000000Z"
    assert "series" not in stored


async def test_an_event_that_repeats_becomes_a_series_that_is_patched_once(client: ApiClient) -> None:
    async with recording(client) as (recorder, clock):
        recorder.record(failed())
        await until(lambda: recorder.counts.written == 1)
        for _ in range(3):
            clock.seconds += 10
            recorder.record(failed())
        await until(lambda: recorder.counts.written == 2)
        recorder.record(failed())
        assert recorder.queued == 0
        (stored,) = await events(client)
        assert stored["series"]["count"] == 4
        # When the series has been silent for six minutes, its last count is written.
        clock.seconds += 361
        recorder.sweep()
        await until(lambda: recorder.counts.written == 3)
        (stored,) = await events(client)
        assert stored["series"]["count"] == 5


async def test_a_reason_that_has_changed_is_an_event_of_its_own(client: ApiClient) -> None:
    """A series shows its first note for ever: who asks why a pod waits would read what was true once."""
    async with recording(client) as (recorder, clock):
        recorder.record(failed(note="1 Insufficient cpu"))
        await until(lambda: recorder.counts.written == 1)
        clock.seconds += 10
        recorder.record(failed(note="1 node(s) were unschedulable"))
        await until(lambda: recorder.counts.written == 2)
    stored = sorted(await events(client), key=lambda event: str(event["eventTime"]))
    assert [event["note"] for event in stored] == ["1 Insufficient cpu", "1 node(s) were unschedulable"]
    assert not any("series" in event for event in stored)


async def test_the_event_of_a_binding_takes_no_place_among_those_that_may_repeat(client: ApiClient) -> None:
    async with recording(client, event_series_kept=1) as (recorder, _):
        recorder.record(failed("waits"))
        recorder.record(scheduled("bound"))
        await until(lambda: recorder.counts.written == 2)
        recorder.record(failed("waits"))
        await until(lambda: recorder.counts.written == 3)
    stored = {event["regarding"]["name"]: event for event in await events(client)}
    assert stored["waits"]["series"]["count"] == 2 and "series" not in stored["bound"]


async def test_after_six_silent_minutes_it_is_a_new_event(client: ApiClient) -> None:
    async with recording(client) as (recorder, clock):
        recorder.record(failed())
        await until(lambda: recorder.counts.written == 1)
        clock.seconds += 361
        recorder.record(failed())
        await until(lambda: recorder.counts.written == 2)
    assert len(await events(client)) == 2


async def test_a_series_whose_event_the_server_has_forgotten_begins_again(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    async with recording(client) as (recorder, _):
        recorder.record(failed())
        await until(lambda: recorder.counts.written == 1)
        (stored,) = await events(client)
        await client.request("DELETE", f"{EVENTS}/{stored['metadata']['name']}")
        recorder.record(failed())
        await until(lambda: recorder.counts.written == 2)
    (stored,) = await events(client)
    assert "series" not in stored


async def test_when_the_queue_is_full_of_events_of_one_per_namespace_the_others_are_written_all_the_same(
    client: ApiClient,
) -> None:
    for number in range(4):
        await create(client, "/api/v1/namespaces", {"metadata": {"name": f"ns{number}"}})
    async with recording(client, events_queued=2) as (recorder, _):
        for number in range(4):
            recorder.record(failed(namespace=f"ns{number}"))
        await until(lambda: recorder.counts.written == 2)
    assert (recorder.counts.dropped, recorder.queued) == (2, 0)


async def test_when_the_queue_is_full_the_oldest_of_the_noisiest_namespace_is_dropped(client: ApiClient) -> None:
    async with recording(client, events_queued=5) as (recorder, _):
        recorder.record(failed("quiet", namespace="small"))
        for number in range(8):
            recorder.record(failed(f"w{number}"))
        assert recorder.queued == 5
        assert recorder.counts.dropped == 4
        await until(lambda: recorder.counts.written == 4)
    assert [one["regarding"]["name"] for one in await events(client)] == ["w4", "w5", "w6", "w7"]


async def test_writes_of_events_do_not_pile_up_while_the_api_server_takes_none(client: ApiClient) -> None:
    outbox = Outbox(Limits().requests_in_flight)
    recorder = EventRecorder(client, AlwaysHeld(), "host", WriterSettings(events_queued=5), outbox, Clock())
    for number in range(50):
        recorder.record(scheduled(f"s{number}"))
        recorder.record(failed(f"f{number}"))
    assert (outbox.pacing.queued(Rank.SCHEDULED), outbox.pacing.queued(Rank.EVENT)) == (5, 5)
    assert await outbox.settle(5.0, Rank.SCHEDULED, Rank.EVENT)
    await outbox.close()
    assert (recorder.counts.written, recorder.counts.dropped, recorder.queued) == (10, 90, 0)


async def test_an_event_that_could_not_be_stored_is_written_when_it_repeats(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    """A pod that fits nowhere is tried every few minutes, with the same event for as long as the reason is the same."""
    cluster.faults.fail("POST", "/events", 503, times=2 * MAX_TRIES)
    async with recording(client) as (recorder, clock):
        recorder.record(failed())
        await until(lambda: recorder.counts.failed == 1)
        clock.seconds += 300
        recorder.record(failed())
        await until(lambda: recorder.counts.failed == 2)
        clock.seconds += 300
        recorder.record(failed())
        await until(lambda: recorder.counts.written == 1)
    assert len(await events(client)) == 1


async def test_an_event_that_was_stored_though_the_answer_was_lost_is_not_doubled(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    cluster.faults.drop("POST", "/events", after=True)
    async with recording(client) as (recorder, _):
        recorder.record(scheduled("a"))
        await until(lambda: recorder.counts.written == 1)
    assert len(await events(client)) == 1


async def test_a_repeat_that_comes_while_the_first_is_being_written_is_in_its_series(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    cluster.faults.delay("POST", "/events", 0.1)
    async with recording(client) as (recorder, _):
        recorder.record(failed())
        await until(lambda: not cluster.faults.rules)
        recorder.record(failed())
        await until(lambda: recorder.counts.written == 2)
    (stored,) = await events(client)
    assert stored["series"]["count"] == 2


async def test_namespaces_take_turns(client: ApiClient) -> None:
    """A hundred noisy events are queued when the one of the other namespace comes: it is among the next to leave."""
    async with recording(client) as (recorder, _):
        for number in range(100):
            recorder.record(failed(f"w{number}", namespace="noisy"))
        recorder.record(failed("quiet", namespace="small"))
        assert [one.namespace for one in (recorder.next_of(Rank.EVENT), recorder.next_of(Rank.EVENT)) if one] == [
            "noisy",
            "small",
        ]


async def test_an_event_is_tried_again_when_the_server_says_so_and_given_up_after_three_times(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    cluster.faults.fail("POST", "/events", 503, times=2)
    async with recording(client) as (recorder, _):
        recorder.record(scheduled("a"))
        await until(lambda: recorder.counts.written == 1)
        cluster.faults.fail("POST", "/events", 503, times=3)
        recorder.record(scheduled("b"))
        await until(lambda: recorder.counts.failed == 1)
    assert [one["regarding"]["name"] for one in await events(client)] == ["a"]


async def test_a_lost_right_is_logged_once_until_an_event_is_written_and_a_namespace_that_ends_is_not(
    cluster: EmbeddedCluster, client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    cluster.registry.create(NAMESPACES, "", {"metadata": {"name": "ending"}, "spec": {"finalizers": ["kubernetes"]}})
    await client.request("DELETE", "/api/v1/namespaces/ending")
    async with recording(client) as (recorder, _):
        recorder.record(failed("a", namespace="ending"))
        await until(lambda: recorder.counts.failed == 1)
        assert log_lines == []
        for number in (1, 2):
            cluster.faults.fail("POST", "/events", 403, times=2, reason="Forbidden", message=f"no right {number}")
            recorder.record(failed(f"b{number}"))
            recorder.record(failed(f"c{number}"))
            await until(lambda: recorder.counts.failed == 1 + 2 * number)  # noqa: B023 - called before the next round
            recorder.record(failed(f"d{number}"))
            await until(lambda: recorder.counts.written == number)  # noqa: B023 - called before the next round
    assert [(line["log_level"], line["error"]) for line in log_lines] == [
        ("warning", "no right 1"),
        ("warning", "no right 2"),
    ]


async def test_when_the_process_leaves_its_events_of_bindings_keep_to_no_share(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    cluster.faults.delay("POST", "/events", 30.0, times=20)
    async with recording(client) as (recorder, _):
        for number in range(20):
            recorder.record(scheduled(f"s{number}"))
        await until(lambda: recorder.queued == 20 - SHARE)
        settling = asyncio.create_task(recorder.settle(30))
        await until(lambda: recorder.queued == 0)
        settling.cancel()
        await asyncio.gather(settling, return_exceptions=True)


async def test_no_event_leaves_without_the_lease(client: ApiClient) -> None:
    token = LeaseToken(clock=lambda: 100.0)
    token.extend(99.0)
    outbox = Outbox(24)
    recorder = EventRecorder(client, token, "host", WriterSettings(), outbox, Clock())
    recorder.record(scheduled("a"))
    assert await recorder.settle(5)
    await outbox.close()
    assert recorder.counts.dropped == 1
    assert not await events(client)


async def test_hundreds_of_events_that_may_not_leave_end_without_a_request(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    """Each ends while it begins, and begins the next one."""
    token = LeaseToken()
    token.extend(float("inf"))
    outbox = Outbox(Limits().requests_in_flight)
    recorder = EventRecorder(client, token, "host", WriterSettings(), outbox, Clock())
    # Its connection is there for the others.
    recorder.record(scheduled("first"))
    await until(lambda: recorder.counts.written == 1)
    token.revoke()
    for number in range(400):
        recorder.record(scheduled(f"p{number}"))
    assert await outbox.settle(20.0, Rank.SCHEDULED)
    await outbox.close()
    assert (recorder.counts.written, recorder.counts.dropped, recorder.counts.failed) == (1, 400, 0)
    assert len(await events(client)) == 1
