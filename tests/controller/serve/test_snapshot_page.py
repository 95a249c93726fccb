"""The page that gives a snapshot: who may have it, and when it is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from scheduler.controller.serve.snapshot_page import PATH
from scheduler.messages.commands import CallExtender
from tests.controller.conftest import until
from tests.controller.serve.page_server import Served, page_server
from tests.controller.serve.test_page import fetch, two_teams
from tests.engine.driver import Cluster


async def asked(served: Served, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    """The status and the body of the answer."""
    async with aiohttp.ClientSession() as session, session.get(served.url + PATH, headers=headers) as answer:
        return answer.status, await answer.read()


async def test_a_snapshot_which_names_every_pod_is_for_those_who_see_all(tmp_path: Path) -> None:
    async with page_server(two_teams(), tmp_path) as served:
        served.rights.allowed |= {("ann", "get", PATH), ("ann", "list", "blue")}
        status, refused = await fetch(served, PATH, "ann")
        assert status == 403
        assert "a snapshot names every pod" in refused["message"]
        served.rights.allowed |= {("root", "get", PATH), ("root", "get", "/debug/names")}
        headers = {"Authorization": "Bearer root"}
        status, body = await asked(served, headers)
        assert status == 200
        assert body.startswith(b"tandem-recording ")


async def test_a_snapshot_is_taken_between_two_cycles_though_one_follows_the_other_at_once() -> None:
    extender = {"urlPrefix": "http://extender.test", "nodeCacheCapable": True, "filterVerb": "filter"}
    cluster = Cluster(configuration={"extenders": [extender]})
    cluster.nodes_like(1, cpu="4")
    cluster.pod("a")
    cluster.pod("b")
    async with page_server(cluster) as served:
        cluster.schedule()
        answer = asyncio.create_task(asked(served))
        await until(lambda: len(served.between_cycles) > 0)
        served.between_cycles.try_all()
        assert len(served.between_cycles) == 1, "the extender has not answered yet"
        # As the loop does: no other task sees the engine between the two pods.
        cluster.answer(cluster.write(CallExtender), {"NodeNames": ["n0"]})
        served.between_cycles.try_all()
        cluster.schedule()
        assert cluster.engine.is_paused
        assert (await answer)[0] == 200
