"""Present objects by name, as the watches have shown them."""

from __future__ import annotations

from scheduler.controller.watch.known import KnownObjects
from scheduler.controller.watch.reflector import Reflector
from scheduler.controller.write.client import ApiClient
from scheduler.messages.references import PodReference
from scheduler.objects.kinds import Kind
from scheduler.testing.documents import node_json, pod_json
from tests.controller.conftest import PODS, create, until
from tests.controller.watch.reflecting import running

NODES = "/api/v1/nodes"


async def shown(client: ApiClient, reflector: Reflector, path: str, *documents: dict[str, object]) -> None:
    for document in documents:
        await create(client, path, document)
    await until(lambda: reflector.object_count == len(documents))


async def test_a_node_is_found_by_its_name(client: ApiClient) -> None:
    known = KnownObjects()
    assert known.node_named("n0") is None
    async with running(client, Kind.NODE) as (reflector, _):
        known.read_from([reflector])
        await shown(client, reflector, NODES, node_json("n0"), node_json("n1"))
        found = known.node_named("n0")
        assert found is not None and found.name == "n0"
        assert known.node_named("n2") is None
        assert known.node_count() == 2


async def test_the_node_of_a_pod_is_not_that_of_its_namesake(client: ApiClient) -> None:
    known = KnownObjects()
    async with running(client) as (reflector, _):
        known.read_from([reflector])
        await shown(client, reflector, PODS, pod_json("bound", node="n0"), pod_json("waiting"))
        uid_of = {key: one.uid for key, one in reflector.known.items()}
        found = [
            known.node_of(PodReference("default", name, uid_of[f"default/{name}"])) for name in ("bound", "waiting")
        ]
        assert found == ["n0", ""]
        assert known.node_of(PodReference("default", "bound", "another")) is None
        assert known.node_of(PodReference("default", "absent", "another")) is None
