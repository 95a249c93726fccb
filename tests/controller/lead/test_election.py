"""What a scheduler that wins the Lease shows of it: an event, and its requests among the metrics."""

from __future__ import annotations

from prometheus_client.exposition import generate_latest

from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.run import Shell
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from tests.controller.conftest import read, until
from tests.controller.running import running_shell

FAST = LeaderElectionSettings(lease_duration=15.0, renew_deadline=10.0, retry_period=0.01)
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/tandem-scheduler"
EVENTS = "/apis/events.k8s.io/v1/namespaces/kube-system/events"


def counts_renewals(shell: Shell) -> bool:
    return 'method="PUT"' in generate_latest(shell.metrics.registry).decode()


async def test_the_leader_says_so_in_an_event_about_its_lease(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    async with running_shell(connection, leader_election=FAST) as shell:
        await until(lambda: shell.events.counts.written == 1)
        lease = await read(client, LEASE)
        (event,) = (await read(client, EVENTS))["items"]
    assert event["regarding"] == {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "namespace": "kube-system",
        "name": "tandem-scheduler",
        "uid": lease["metadata"]["uid"],
    }
    assert (event["type"], event["reason"]) == ("Normal", "LeaderElection")
    assert event["note"] == f"{lease['spec']['holderIdentity']} became leader"
    assert event["reportingController"] == "tandem-scheduler"


async def test_requests_about_the_lease_are_counted_with_the_others(connection: ConnectionSettings) -> None:
    async with running_shell(connection, leader_election=FAST) as shell:
        await until(lambda: counts_renewals(shell))


async def test_a_shadow_that_leads_writes_its_lease_and_no_event(
    connection: ConnectionSettings, client: ApiClient
) -> None:
    async with running_shell(connection, leader_election=FAST, is_shadow=True) as shell:
        await until(lambda: counts_renewals(shell))
        assert shell.events.counts.written == shell.events.queued == 0
        assert (await read(client, EVENTS))["items"] == []
