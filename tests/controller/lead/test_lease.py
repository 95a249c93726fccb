"""Leader election against the embedded API server, with the clock in the test's hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.controller.lead.lease import RELEASE_TRIES, Claimant, LeaseElector, Time
from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.leadership import LeaseToken
from scheduler.errors import ConfigurationError
from scheduler.simulate.cluster import EmbeddedCluster
from tests.controller.conftest import read, until
from tests.limits import WAIT_SECONDS

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
PATH = f"{LEASES}/tandem-scheduler"
FAST = LeaderElectionSettings(lease_duration=15.0, renew_deadline=10.0, retry_period=0.01)
WALL = 1_767_225_600_000_000_000


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> int:
        return WALL + int(self.seconds * 1e9)


class Candidate:
    def __init__(self, client: ApiClient, name: str, clock: Clock, settings: LeaderElectionSettings = FAST) -> None:
        self.token = LeaseToken(clock.monotonic)
        self.won = asyncio.Event()
        self.elector = LeaseElector(
            client,
            settings,
            Claimant(name),
            self.token,
            on_won=self.won.set,
            times=Time(clock.monotonic, clock.wall),
        )
        self.task = asyncio.create_task(self.elector.run())


@asynccontextmanager
async def candidate(client: ApiClient, name: str, clock: Clock) -> AsyncIterator[Candidate]:
    made = Candidate(client, name, clock)
    try:
        yield made
    finally:
        made.task.cancel()
        await asyncio.gather(made.task, return_exceptions=True)


async def test_the_first_one_creates_the_lease_in_client_go_s_format(client: ApiClient) -> None:
    async with candidate(client, "one", Clock()) as one:
        await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
        assert one.token.is_held()
        spec = (await read(client, PATH))["spec"]
        assert spec == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:01:40.000000Z",
            "renewTime": "2026-01-01T00:01:40.000000Z",
            "leaseTransitions": 0,
        }


async def test_a_lease_that_is_renewed_is_never_taken_and_one_that_is_not_is_taken_after_its_duration(
    client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    clock = Clock()
    other = {"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": "1999-01-01T00:00:00.000000Z"}
    body = {
        "metadata": {"name": "tandem-scheduler", "namespace": "kube-system"},
        "spec": {**other, "leaseTransitions": 4},
    }
    await client.request("POST", LEASES, body=msgspec.json.encode(body))
    async with candidate(client, "one", clock) as one:
        await until(lambda: "New leader elected" in {line["event"] for line in log_lines})
        assert [line["identity"] for line in log_lines if line["event"] == "New leader elected"] == ["other"]
        # However old the times in it are: only that it does not change counts, by our own clock.
        clock.seconds += 14
        await read(client, PATH)
        assert not one.won.is_set()
        clock.seconds += 1.1
        await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
        spec = (await read(client, PATH))["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("one", 5)


async def test_a_lease_of_fractions_of_seconds_is_not_taken_while_its_holder_may_still_write(client: ApiClient) -> None:
    settings, clock = replace(FAST, lease_duration=15.9, renew_deadline=15.8), Clock()
    one = Candidate(client, "one", clock, settings)
    await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
    assert (await read(client, PATH))["spec"]["leaseDurationSeconds"] >= settings.renew_deadline
    one.task.cancel()
    await asyncio.gather(one.task, return_exceptions=True)


async def test_cancelled_it_gives_the_lease_back_at_once(client: ApiClient) -> None:
    clock = Clock()
    async with candidate(client, "one", clock) as one, candidate(client, "two", clock) as two:
        await until(lambda: one.won.is_set() or two.won.is_set())
        first, second = (one, two) if one.won.is_set() else (two, one)
        first.task.cancel()
        await asyncio.gather(first.task, return_exceptions=True)
        assert not first.token.is_held()
        await asyncio.wait_for(second.won.wait(), WAIT_SECONDS)


async def test_a_lease_that_can_not_be_given_back_in_time_is_left_with_the_reason(
    cluster: EmbeddedCluster, client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    one = Candidate(client, "one", Clock(), replace(FAST, renew_deadline=0.5))
    await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
    cluster.faults.delay("GET", "/leases", 30.0, times=2)
    one.task.cancel()
    await asyncio.gather(one.task, return_exceptions=True)
    (line,) = [line for line in log_lines if line["event"] == "Lease could not be released"]
    assert line["error"] == "the API server did not answer within the renew deadline"


async def released_with_conflicts(cluster: EmbeddedCluster, client: ApiClient, conflicts: int) -> str:
    """Who holds the lease after a release whose first ``conflicts`` writes meet a conflict."""
    one = Candidate(client, "one", Clock(), replace(FAST, retry_period=5.0))
    await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
    cluster.faults.fail("PUT", "/leases", 409, times=conflicts, reason="Conflict")
    one.task.cancel()
    await asyncio.gather(one.task, return_exceptions=True)
    return str((await read(client, PATH))["spec"]["holderIdentity"])


async def test_a_release_that_meets_a_late_renewal_is_written_again(
    cluster: EmbeddedCluster, client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    assert await released_with_conflicts(cluster, client, 1) == ""
    assert log_lines[-1]["event"] == "Lease released"


async def test_a_release_that_meets_conflicts_only_is_given_up_and_not_reported_as_one(
    cluster: EmbeddedCluster, client: ApiClient, log_lines: list[dict[str, Any]]
) -> None:
    assert await released_with_conflicts(cluster, client, RELEASE_TRIES) == "one"
    events = [line["event"] for line in log_lines]
    assert "Lease could not be released" in events and "Lease released" not in events


async def test_without_renewals_it_is_lost_and_nothing_may_be_written(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    clock = Clock()
    async with candidate(client, "one", clock) as one:
        await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
        cluster.faults.fail("", "/leases", 503, times=1_000_000)
        clock.seconds += 10.1
        # The token runs out by itself, before the elector has noticed anything.
        assert not one.token.is_held()
        await asyncio.wait_for(one.task, WAIT_SECONDS)
        clock.seconds -= 5
        assert not one.token.is_held()


async def test_a_lease_that_another_one_has_taken_is_lost(client: ApiClient) -> None:
    async with candidate(client, "one", Clock()) as one:
        await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
        thief = msgspec.json.encode({"spec": {"holderIdentity": "thief"}})
        await client.request("PATCH", PATH, body=thief, content_type="application/merge-patch+json")
        await asyncio.wait_for(one.task, WAIT_SECONDS)
        assert not one.token.is_held()


async def test_a_renewal_is_one_request(cluster: EmbeddedCluster, client: ApiClient) -> None:
    async with candidate(client, "one", Clock()) as one:
        await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
        before = len(cluster.server.served)
        await until(lambda: len(cluster.server.served) >= before + 5)
        assert {(served.method, served.code) for served in list(cluster.server.served)[before:]} == {("PUT", 200)}


async def test_a_lease_that_is_changed_meanwhile_is_read_again_and_renewed_at_once(
    cluster: EmbeddedCluster, client: ApiClient
) -> None:
    def since_the_change() -> list[tuple[str, int]]:
        requests = [(served.method, served.code) for served in cluster.server.served]
        return requests[requests.index(("PATCH", 200)) :]

    async with candidate(client, "one", Clock()) as one:
        await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
        label = msgspec.json.encode({"metadata": {"labels": {"seen": "yes"}}})
        await client.request("PATCH", PATH, body=label, content_type="application/merge-patch+json")
        await until(lambda: len(since_the_change()) >= 5)
        assert since_the_change()[1:5] == [("PUT", 409), ("GET", 200), ("PUT", 200), ("PUT", 200)]
        assert (await read(client, PATH))["metadata"]["labels"] == {"seen": "yes"}
        assert one.token.is_held()


async def test_a_lease_that_is_deleted_is_made_again(client: ApiClient) -> None:
    clock = Clock()
    async with candidate(client, "one", clock) as one:
        await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
        uid = (await read(client, PATH))["metadata"]["uid"]
        clock.seconds += 1
        await client.request("DELETE", PATH)
        await until(lambda: one.elector.lease.uid not in ("", uid))
        assert (await read(client, PATH))["spec"]["holderIdentity"] == "one"


async def test_a_renewal_whose_answer_is_lost_is_no_loss(cluster: EmbeddedCluster, client: ApiClient) -> None:
    async with candidate(client, "one", Clock()) as one:
        await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
        cluster.faults.drop("PUT", "/leases", times=3, after=True)
        await until(lambda: not cluster.faults.rules)
        before = len(cluster.server.served)
        await until(lambda: len(cluster.server.served) >= before + 5)
        assert one.token.is_held() and not one.task.done()


async def test_one_failed_renewal_is_no_loss(cluster: EmbeddedCluster, client: ApiClient) -> None:
    clock = Clock()
    async with candidate(client, "one", clock) as one:
        await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
        cluster.faults.fail("PUT", "/leases", 500, times=2)
        await until(lambda: not cluster.faults.rules)
        clock.seconds += 9
        spec_time = (await read(client, PATH))["spec"]["renewTime"]
        seen: list[str] = [spec_time]
        async with asyncio.timeout(WAIT_SECONDS):
            while seen[-1] == spec_time:
                seen.append((await read(client, PATH))["spec"]["renewTime"])
        assert one.token.is_held()


async def test_one_request_that_hangs_is_no_loss(cluster: EmbeddedCluster, client: ApiClient) -> None:
    settings = replace(FAST, lease_duration=4.0, renew_deadline=3.0, retry_period=0.05)
    token, won = LeaseToken(), asyncio.Event()
    task = asyncio.create_task(LeaseElector(client, settings, Claimant("one"), token, on_won=won.set).run())
    await asyncio.wait_for(won.wait(), WAIT_SECONDS)
    renewed = [(await read(client, PATH))["spec"]["renewTime"]]
    cluster.faults.delay("PUT", "/leases", 30.0, times=1)
    await until(lambda: not cluster.faults.rules)
    renewed += [(await read(client, PATH))["spec"]["renewTime"]]
    async with asyncio.timeout(WAIT_SECONDS):
        while renewed[-1] == renewed[-2] and not task.done():
            renewed[-1] = (await read(client, PATH))["spec"]["renewTime"]
    assert not task.done()
    assert token.is_held()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (replace(FAST, resource_name="kube-scheduler"), "belongs to kube-scheduler"),
        (replace(FAST, lease_duration=10.0), "must be greater than `RenewDeadline`"),
        (replace(FAST, retry_period=9.0), "renewDeadline must be greater than retryPeriod*1.2"),
        (replace(FAST, retry_period=0.0), "must be greater than zero"),
    ],
)
async def test_settings_that_can_not_work_are_refused(
    client: ApiClient, settings: LeaderElectionSettings, text: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        LeaseElector(client, settings, Claimant("one"), LeaseToken(), on_won=lambda: None)
    assert text in str(caught.value)


@pytest.mark.parametrize("answer", [b"<html>not here</html>", b"[]", b'{"spec":7}'])
async def test_an_answer_that_is_no_lease_is_as_good_as_none(
    cluster: EmbeddedCluster, client: ApiClient, answer: bytes
) -> None:
    async with candidate(client, "one", Clock()) as one:
        await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
        cluster.faults.fail("PUT", "/leases/tandem-scheduler", 409, reason="Conflict")
        cluster.faults.answer("GET", "/leases/tandem-scheduler", answer, times=3)
        await until(lambda: not cluster.faults.rules)
        await until(lambda: len([s for s in cluster.server.served if s.method == "PUT"]) >= 2)
        assert one.token.is_held() and not one.task.done()


async def test_a_404_that_is_not_true_makes_no_second_lease(cluster: EmbeddedCluster, client: ApiClient) -> None:
    async with candidate(client, "one", Clock()) as one:
        await asyncio.wait_for(one.won.wait(), WAIT_SECONDS)
        cluster.faults.fail("PUT", "/leases/tandem-scheduler", 409, reason="Conflict")
        cluster.faults.fail("GET", "/leases/tandem-scheduler", 404, times=3, reason="NotFound")
        await until(lambda: not cluster.faults.rules)
        writes = len([s for s in cluster.server.served if s.method == "PUT"])
        await until(lambda: len([s for s in cluster.server.served if s.method == "PUT"]) > writes + 1)
        assert one.token.is_held()
        assert (await read(client, PATH))["spec"]["leaseTransitions"] == 0
