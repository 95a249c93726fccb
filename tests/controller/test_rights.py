"""The check of rights at startup."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.rights import Right, missing_rights, report_missing_rights, rights_needed
from scheduler.controller.settings import ShellSettings
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.simulate.cluster import EmbeddedCluster
from tests.controller.write.test_client import serving
from tests.controller.write.test_credentials import kubeconfig


async def test_with_all_rights_nothing_is_missing(client: ApiClient) -> None:
    assert await missing_rights(client, rights_needed(ShellSettings("host"))) == []


async def test_missing_rights_come_as_one_list_and_optional_ones_as_a_warning(
    tmp_path: Any, log_lines: list[dict[str, Any]]
) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        asked = (await request.json())["spec"]["resourceAttributes"]
        denied = (asked["verb"], asked["resource"], asked.get("subresource")) in (
            ("create", "pods", "binding"),
            ("list", "nodes", None),
            ("create", "events", None),
        )
        return web.Response(body=msgspec.json.encode({"status": {"allowed": not denied}}))

    async with serving(handler) as url:
        client = ApiClient(CredentialSource(ConnectionSettings(kubeconfig=kubeconfig(tmp_path / "k", url)), {}))
        needed = await report_missing_rights(client, ShellSettings("host"))
        await client.close()
    assert [str(right) for right in needed] == ["list nodes", "create pods/binding"]
    errors = [line for line in log_lines if line["log_level"] == "error"]
    assert [line["rights"] for line in errors] == [["list nodes", "create pods/binding"]]
    warnings = [line for line in log_lines if line["log_level"] == "warning"]
    assert [line["rights"] for line in warnings] == [["create events.events.k8s.io"]]


async def test_a_server_that_can_not_be_asked_is_no_missing_right(cluster: EmbeddedCluster, client: ApiClient) -> None:
    cluster.faults.fail("POST", "selfsubjectaccessreviews", 500, times=99)
    assert await missing_rights(client, [Right("", "pods", "list")]) == []


def test_without_leader_election_no_lease_is_needed() -> None:
    without = ShellSettings("host", leader_election=LeaderElectionSettings(leader_elect=False))
    assert not any(right.resource == "leases" for right in rights_needed(without))
    assert str(Right("coordination.k8s.io", "leases", "update", "kube-system", "tandem-scheduler")) == (
        "update leases.coordination.k8s.io tandem-scheduler in namespace kube-system"
    )
