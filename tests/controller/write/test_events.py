"""The event recorder against the embedded API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from scheduler.controller.lead.leadership import AlwaysHeld
from scheduler.controller.settings import WriterSettings
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.events import EventRecorder
from scheduler.messages.commands import WriteEvent
from scheduler.messages.references import PodReference
from scheduler.simulate.cluster import EmbeddedCluster
from tests.controller.conftest import read, until

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
WALL = 1_767_225_600_000_000_000


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> int:
        return WALL + int(self.seconds * 1e9)


@asynccontextmanager
async def recording(client: ApiClient, **limits: Any) -> AsyncIterator[tuple[EventRecorder, Clock]]:
    clock = Clock()
    recorder = EventRecorder(
        client, AlwaysHeld(), "host", WriterSettings(**limits), monotonic=clock.monotonic, wall=clock.wall
    )
    recorder.start()
    try:
        yield recorder, clock
    finally:
        await recorder.close()


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


async def test_an_event_names_who_reports_what_about_whom(client: ApiClient) -> None:
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


async def test_a_flood_of_warnings_is_paced_and_normal_events_pass_it(client: ApiClient) -> None:
    async with recording(client, other_events_per_second=1.0, other_events_burst=3) as (recorder, _):
        for number in range(50):
            recorder.record(failed(f"w{number}"))
        recorder.record(scheduled("s"))
        await until(lambda: recorder.counts.written >= 4)
        reasons = [stored["reason"] for stored in await events(client)]
        assert reasons.count("Scheduled") == 1
        assert reasons.count("FailedScheduling") <= 4
        assert recorder.queued > 40


async def test_when_the_queue_is_full_the_oldest_of_the_noisiest_namespace_is_dropped(client: ApiClient) -> None:
    recorder = EventRecorder(client, AlwaysHeld(), "host", WriterSettings(events_queued=5))
    recorder.record(failed("quiet", namespace="small"))
    for number in range(8):
        recorder.record(failed(f"w{number}", namespace="noisy"))
    assert recorder.queued == 5
    assert recorder.counts.dropped == 4


async def test_an_event_that_was_stored_though_the_answer_was_lost_is_not_doubled(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    cluster.faults.drop("POST", "/events", after=True)
    async with recording(client) as (recorder, _):
        recorder.record(scheduled("a"))
        await until(lambda: recorder.counts.written == 1)
    assert len(await events(client)) == 1


async def test_when_a_binding_waits_long_to_be_told_of_no_more_decisions_are_asked_for(client: ApiClient) -> None:
    calls: list[str] = []
    clock = Clock()
    recorder = EventRecorder(
        client,
        AlwaysHeld(),
        "host",
        WriterSettings(event_lag_seconds=1.5),
        monotonic=clock.monotonic,
        wall=clock.wall,
        on_room=lambda: calls.append("room"),
    )
    for name in "abc":
        recorder.record(scheduled(name))
    assert recorder.has_room
    clock.seconds += 1.6
    assert not recorder.has_room
    recorder.start()
    try:
        await until(lambda: recorder.counts.written == 3)
    finally:
        await recorder.close()
    assert recorder.has_room
    assert calls == ["room"]


async def test_events_that_can_not_leave_hold_up_nothing(client: ApiClient) -> None:
    clock = Clock()
    settings = WriterSettings(event_lag_seconds=1.5)
    recorder = EventRecorder(client, AlwaysHeld(), "host", settings, monotonic=clock.monotonic, wall=clock.wall)
    recorder.record(scheduled("a"))
    clock.seconds += 1.6
    assert not recorder.has_room
    clock.seconds += 1.6
    assert recorder.has_room


async def test_events_give_way_to_bindings_for_a_moment_only(client: ApiClient) -> None:
    asked = 0

    def gives_way() -> bool:
        nonlocal asked
        asked += 1
        return True

    clock = Clock()
    recorder = EventRecorder(
        client,
        AlwaysHeld(),
        "host",
        WriterSettings(event_patience_seconds=2.5),
        monotonic=clock.monotonic,
        wall=clock.wall,
        gives_way=gives_way,
    )
    recorder.start()
    try:
        recorder.record(scheduled("a"))
        recorder.record(failed("b"))
        await until(lambda: asked >= 4)
        assert recorder.counts.written == 0
        clock.seconds += 2.5
        await until(lambda: recorder.counts.written == 2)
    finally:
        await recorder.close()


def crowded(client: ApiClient, clock: Clock) -> EventRecorder:
    """One event other than Scheduled is let through, and no second one in a lifetime."""
    settings = WriterSettings(crowded_events_per_second=1e-6, crowded_patience_seconds=10.0)
    return EventRecorder(
        client,
        AlwaysHeld(),
        "host",
        settings,
        monotonic=clock.monotonic,
        wall=clock.wall,
        is_crowded=lambda: True,
    )


async def test_where_much_is_under_way_few_events_leave_but_those_of_bindings(client: ApiClient) -> None:
    recorder = crowded(client, Clock())
    recorder.start()
    try:
        for number in range(5):
            recorder.record(failed(f"w{number}"))
        await until(lambda: recorder.counts.written == 1)
        for number in range(5):
            recorder.record(scheduled(f"s{number}"))
        await until(lambda: recorder.counts.written == 6)
        reasons = [stored["reason"] for stored in await events(client)]
    finally:
        await recorder.close()
    assert reasons.count("FailedScheduling") == 1


async def test_an_event_that_has_waited_for_long_leaves_however_much_is_under_way(client: ApiClient) -> None:
    clock = Clock()
    recorder = crowded(client, clock)
    for number in range(5):
        recorder.record(failed(f"w{number}"))
    clock.seconds += 10.0
    recorder.start()
    try:
        await until(lambda: recorder.counts.written == 5)
    finally:
        await recorder.close()
