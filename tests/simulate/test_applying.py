"""Server-side apply over HTTP, as kubectl uses it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from scheduler.simulate.apiserver import ApiServer

Json = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with ApiServer() as server, aiohttp.ClientSession(server.url) as session:
        yield session


async def _apply(
    client: aiohttp.ClientSession, path: str, document: Json, manager: str = "kubectl", query: str = ""
) -> tuple[int, Json]:
    headers = {"Content-Type": "application/apply-patch+yaml"}
    target = f"{path}/{document['metadata']['name']}?fieldManager={manager}{query}"
    async with client.patch(target, data=json.dumps(document), headers=headers) as response:
        return response.status, await response.json()


async def _merge(client: aiohttp.ClientSession, path: str, patch: Json, manager: str) -> Json:
    headers = {"Content-Type": "application/merge-patch+json"}
    async with client.patch(f"{path}?fieldManager={manager}", data=json.dumps(patch), headers=headers) as response:
        assert response.status == 200, await response.text()
        patched: Json = await response.json()
        return patched


def _map(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}


def _owners(obj: Json) -> dict[str, Json]:
    return {f"{one['manager']}/{one['operation']}": one["fieldsV1"] for one in obj["metadata"]["managedFields"]}


def _deployment(containers: list[Json], **spec: Any) -> Json:
    labels = {"app": "d"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }  # fmt: skip


async def test_an_absent_object_is_created_and_its_fields_are_the_managers(client: aiohttp.ClientSession) -> None:
    code, created = await _apply(client, MAPS, _map(a="1"))
    assert (code, created["data"]) == (201, {"a": "1"})
    assert _owners(created) == {"kubectl/Apply": {"f:data": {"f:a": {}}}}
    assert (await _apply(client, MAPS, _map(a="1")))[1] == created


async def test_a_field_that_is_applied_no_more_is_removed_unless_another_manager_owns_it(
    client: aiohttp.ClientSession,
) -> None:
    await _apply(client, MAPS, _map(mine="1", shared="1"))
    await _apply(client, MAPS, _map(shared="1"), manager="other")
    _, left = await _apply(client, MAPS, _map(new="1"))
    assert left["data"] == {"shared": "1", "new": "1"}


async def test_a_field_that_another_client_has_changed_is_a_conflict_until_it_is_forced(
    client: aiohttp.ClientSession,
) -> None:
    await _apply(client, MAPS, _map(a="1"))
    changed = await _merge(client, f"{MAPS}/m", {"data": {"a": "2"}}, "kubectl-edit")
    assert _owners(changed) == {"kubectl-edit/Update": {"f:data": {"f:a": {}}}}
    code, refused = await _apply(client, MAPS, _map(a="1"))
    assert (code, refused["reason"]) == (409, "Conflict")
    assert refused["message"] == 'Apply failed with 1 conflict: conflict with "kubectl-edit" using v1: .data.a'
    assert refused["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "kubectl-edit" using v1', "field": ".data.a"}
    ]
    code, forced = await _apply(client, MAPS, _map(a="1"), query="&force=true")
    assert (code, forced["data"], set(_owners(forced))) == (200, {"a": "1"}, {"kubectl/Apply"})


async def test_the_same_value_of_two_managers_is_shared_and_no_conflict(client: aiohttp.ClientSession) -> None:
    await _apply(client, MAPS, _map(a="1"))
    code, shared = await _apply(client, MAPS, _map(a="1"), manager="other")
    assert code == 200 and set(_owners(shared)) == {"kubectl/Apply", "other/Apply"}


async def test_several_conflicts_are_listed_by_manager(client: aiohttp.ClientSession) -> None:
    await _apply(client, MAPS, _map(a="1", b="1"), manager="first")
    _, refused = await _apply(client, MAPS, _map(a="2", b="2"), manager="second")
    assert refused["message"] == 'Apply failed with 2 conflicts: conflicts with "first":\n- .data.a\n- .data.b'


async def test_what_an_object_held_before_its_first_apply_belongs_to_no_applier(
    client: aiohttp.ClientSession,
) -> None:
    async with client.post(MAPS, json=_map(a="1")) as response:
        assert response.status == 201
    code, refused = await _apply(client, MAPS, _map(a="2"))
    assert code == 409 and 'conflict with "before-first-apply" using v1: .data.a' in refused["message"]


async def test_items_of_lists_with_keys_are_owned_one_by_one(client: aiohttp.ClientSession) -> None:
    first, second = {"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}
    await _apply(client, DEPLOYMENTS, _deployment([first]))
    _, both = await _apply(client, DEPLOYMENTS, _deployment([second]), manager="sidecar")
    containers = both["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in containers] == ["a", "b"]
    own = _owners(both)["sidecar/Apply"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert own == {'k:{"name":"b"}': {".": {}, "f:image": {}, "f:name": {}}}
    await _apply(client, DEPLOYMENTS, _deployment([]), manager="sidecar")
    async with client.get(f"{DEPLOYMENTS}/d") as response:
        left = (await response.json())["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in left] == ["a"]


async def test_a_conflict_in_a_list_names_the_item_and_one_of_scale_the_subresource(
    client: aiohttp.ClientSession,
) -> None:
    await _apply(client, DEPLOYMENTS, _deployment([{"name": "a", "image": "a:1"}], replicas=1))
    _, refused = await _apply(client, DEPLOYMENTS, _deployment([{"name": "a", "image": "a:2"}]), manager="other")
    assert refused["message"].endswith('conflict with "kubectl": .spec.template.spec.containers[name="a"].image')
    await _merge(client, f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}, "kubectl-scale")
    _, refused = await _apply(
        client, DEPLOYMENTS, _deployment([{"name": "a", "image": "a:1"}], replicas=1), query="&force=false"
    )
    assert refused["message"] == (
        'Apply failed with 1 conflict: conflict with "kubectl-scale" with subresource "scale" using apps/v1: '
        ".spec.replicas"
    )


async def test_a_dry_run_stores_nothing(client: aiohttp.ClientSession) -> None:
    code, _ = await _apply(client, MAPS, _map(a="1"), query="&dryRun=All")
    assert code == 201
    async with client.get(f"{MAPS}/m") as response:
        assert response.status == 404


@pytest.mark.parametrize(
    ("document", "query", "code"),
    [
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}, "", 422),
        ({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "m"}}, "?fieldManager=k", 400),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}, "?fieldManager=k", 400),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": []}, "?fieldManager=k", 400),
        ([], "?fieldManager=k", 400),
    ],
    ids=["no manager", "other version", "other name", "no metadata", "no object"],
)
async def test_a_request_that_is_no_apply_is_refused(
    client: aiohttp.ClientSession, document: object, query: str, code: int
) -> None:
    headers = {"Content-Type": "application/apply-patch+yaml"}
    async with client.patch(f"{MAPS}/m{query}", data=json.dumps(document), headers=headers) as response:
        assert response.status == code, await response.text()
