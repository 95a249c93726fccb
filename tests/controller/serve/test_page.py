"""The page over the wire: its files and their headers, what it reads, rights, hidden names, limits of the stream."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scheduler.controller.beside.shadow import Comparison
from scheduler.controller.report.decisions import MAX_DECISIONS, Decisions
from scheduler.controller.serve.live import LiveLimits
from scheduler.controller.serve.names import without_names
from scheduler.controller.serve.page_files import FOLDER
from scheduler.engine.attempt import Attempt
from tests.controller.serve.page_server import Served, page_server
from tests.engine.driver import Cluster

QUICK = LiveLimits(look_seconds=0.02)


def two_teams() -> Cluster:
    cluster = Cluster()
    cluster.node("n1", cpu="4")
    for team in ("blue", "red"):
        cluster.pod(f"{team}-runs", namespace=team, cpu="1", node="n1")
        cluster.pod(f"{team}-huge", namespace=team, cpu="9")
    return cluster


async def fetch(served: Served, path: str, token: str = "", **headers: str) -> tuple[int, Any]:
    if token:
        headers["Authorization"] = f"Bearer {token}"
    async with aiohttp.ClientSession() as session, session.get(served.url + path, headers=headers) as answer:
        text = await answer.text()
        return answer.status, json.loads(text) if answer.content_type == "application/json" else text


# --- files ------------------------------------------------------------------------------------------------------------


async def test_every_file_of_the_page_has_its_type_and_a_policy_without_exceptions() -> None:
    async with page_server(Cluster()) as served, aiohttp.ClientSession() as session:
        for path in sorted(FOLDER.iterdir()):
            name = "" if path.name == "index.html" else path.name
            async with session.get(f"{served.url}/ui/{name}") as answer:
                assert answer.status == 200
                assert await answer.read() == path.read_bytes()
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "frame-ancestors 'none'" in policy
                assert "unsafe" not in policy and "http" not in policy and "*" not in policy and "data:" not in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Referrer-Policy"] == "no-referrer"
                tag = answer.headers["ETag"]
            async with session.get(f"{served.url}/ui/{name}", headers={"If-None-Match": tag}) as again:
                assert again.status == 304
        async with session.get(f"{served.url}/ui") as answer:
            assert str(answer.url) == f"{served.url}/ui/"
        for path_text in ("/ui/..%2fserver.py", "/ui/absent.js", "/ui/%2e%2e/server.py"):
            async with session.get(served.url + path_text) as answer:
                assert answer.status == 404


def test_the_files_make_no_markup_from_texts_and_name_no_other_server() -> None:
    for path in FOLDER.iterdir():
        text = path.read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text), path
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text), path
        assert not re.search(r"<script(?! type=\"module\" src=\"[a-z_]+\.js\")|<style| style=| on[a-z]+=\"", text), path


async def test_without_a_right_there_is_no_page(tmp_path: Path) -> None:
    async with page_server(Cluster(), tmp_path) as served:
        assert (await fetch(served, "/ui/"))[0] == 403
        assert (await fetch(served, "/ui/", "ann"))[0] == 403
        served.rights.allowed.add(("bob", "get", "/ui/"))
        assert (await fetch(served, "/ui/", "bob"))[0] == 200
        assert (await fetch(served, "/debug/nodes", "bob"))[0] == 403


# --- what it reads ----------------------------------------------------------------------------------------------------


async def test_nodes_are_listed_with_their_room_by_pool_and_one_with_its_pods() -> None:
    cluster = Cluster()
    cluster.node("n1", cpu="4", zone="z1", labels={"pool": "big"}, allocatable={"example.com/gpu": "2"})
    cluster.node("n2", cpu="2", zone="z2", unschedulable=True)
    cluster.pod("runs", cpu="1", node="n1", priority=7)
    async with page_server(cluster) as served:
        status, page = await fetch(served, "/debug/nodes")
        assert status == 200
        assert page["poolLabel"] == "topology.kubernetes.io/zone"
        assert page["count"] == 2
        first, second = page["nodes"]
        cpu, pods, gpu = (page["resources"].index(name) for name in ("cpu", "pods", "example.com/gpu"))
        assert (first["node"], first["pool"]) == ("n1", "z1")
        assert (first["allocatable"][cpu], first["requested"][cpu], first["requested"][pods]) == (4000, 1000, 1)
        assert (first["allocatable"][gpu], second["allocatable"][gpu]) == (2, 0)
        assert second["unschedulable"] is True
        assert [one["pool"] for one in (await fetch(served, "/debug/nodes?pool=pool"))[1]["nodes"]] == ["big", ""]
        status, node = await fetch(served, "/debug/nodes/n1")
        assert node["resources"]["cpu"] == {"allocatable": 4000, "requested": 1000}
        assert [(one["pod"], one["priority"], one["requests"]) for one in node["pods"]] == [
            ("default/runs", 7, {"cpu": 1000})
        ]
        assert (await fetch(served, "/debug/nodes/absent"))[0] == 404


async def test_a_nominated_pod_is_shown_at_its_node() -> None:
    cluster = Cluster()
    cluster.lingering.add("low")
    cluster.node("n1", cpu="2")
    cluster.pod("low", cpu="2", node="n1")
    cluster.pod("high", cpu="2", priority=10)
    async with page_server(cluster) as served:
        served.schedule()
        _, node = await fetch(served, "/debug/nodes/n1")
        assert [one["pod"] for one in node["nominated"]] == ["default/high"]
        assert (await fetch(served, "/debug/nodes"))[1]["nodes"][0]["nominated"] == 1
        _, found = await fetch(served, "/debug/decisions")
        assert found["decisions"][-1]["nominatedNode"] == "n1"
        assert found["decisions"][-1]["victims"] == ["default/low"]


async def test_the_newest_decisions_are_bounded_and_those_left_out_are_counted() -> None:
    decisions = Decisions()
    for number in range(MAX_DECISIONS + 50):
        decisions.observe(Attempt(f"default/p{number}", "u", "s", 1, 0, result="scheduled", message="m" * 5000))
    newest, left_out = decisions.after(0, 10**6)
    assert (len(newest), left_out) == (MAX_DECISIONS, 50)
    assert len(newest[0].message) == 500
    newest, left_out = decisions.after(decisions.last - 3, 2)
    assert ([one.pod for one in newest], left_out) == (["default/p1048", "default/p1049"], 1)
    assert decisions.after(decisions.last, 10) == ([], 0)
    assert decisions.after(10**9, 10) == ([], 0)


# --- names ------------------------------------------------------------------------------------------------------------


PATHS = ("/debug/queue", "/debug/nodes/n1", "/debug/decisions", "/debug/shadow", "/debug/why/red/red-huge")
QUESTIONS: dict[str, dict[str, Any]] = {
    "/debug/what-if": {"edits": [{"edit": "drain", "node": "n1"}], "withWaiting": True},
    "/debug/what-helps": {"pod": "blue/blue-huge"},
}
NAMELESS = ("/ui", "/metrics/resources")
"""Pages of no namespace's pods, and kube-scheduler's own, whose contract is to name every pod."""


def addresses(path: str) -> list[str]:
    """Each page that a path stands for, about pods of both teams."""
    if "{namespace}" not in path:
        return [path.replace("{name}", "n1")]
    filled = path.replace("{kind}", "deployment")
    return [filled.replace("{namespace}", team).replace("{name}", f"{team}-huge") for team in ("blue", "red")]


async def test_no_page_no_answer_and_no_stream_names_a_pod_of_a_hidden_namespace(tmp_path: Path) -> None:
    """Each route that is served: a new one is asked, too."""
    cluster = two_teams()
    cluster.lingering.add("red-victim")
    cluster.node("n2", cpu="3")
    cluster.pod("red-victim", namespace="red", cpu="3", node="n2")
    cluster.pod("blue-vip", namespace="blue", cpu="3", priority=10)
    async with page_server(cluster, tmp_path, LiveLimits(stream_seconds=0.1, look_seconds=0.02)) as served:
        for _ in range(3):
            served.schedule()
        served.shadow.comparisons.append(Comparison("red/red-runs", "true", "n1", "n1"))
        served.rights.allowed |= {("ann", "list", "blue"), ("root", "list", "")}
        shown = 0
        for address in [one for path in served.paths if not path.startswith(NAMELESS) for one in addresses(path)]:
            path = address.partition("?")[0]
            asked = QUESTIONS.get(path)
            verb = "get" if asked is None else "create"
            served.rights.allowed |= {(user, verb, path) for user in ("ann", "root")}
            texts = []
            for user in ("ann", "root"):
                method = "GET" if asked is None else "POST"
                headers = {"Authorization": f"Bearer {user}"}
                async with (
                    aiohttp.ClientSession() as session,
                    session.request(method, served.url + address, json=asked, headers=headers) as answer,
                ):
                    texts.append((answer.status, (await answer.read()).decode("utf-8", "replace")))
            (status, text), (whole_status, whole) = texts
            assert "red-" not in (text.replace("red-huge", "") if "red-huge" in address else text), address
            assert whole_status in (200, 400, 404), address
            shown += "red/red-" in whole and status in (200, 403, 404)
        assert shown >= 7, "root sees their names"


async def test_pods_of_namespaces_that_the_user_may_not_see_are_counted_and_not_named(tmp_path: Path) -> None:
    async with page_server(two_teams(), tmp_path) as served:
        for _ in range(2):
            served.schedule()
        served.shadow.comparisons.append(Comparison("red/red-runs", "true", "n1", "n1"))
        for user in ("ann", "root"):
            served.rights.allowed |= {(user, "get", path) for path in (*PATHS, "/debug/live")}
        served.rights.allowed |= {("ann", "list", "blue"), ("root", "get", "/debug/names")}
        _, queue = await fetch(served, "/debug/queue", "ann")
        assert [one["pod"] for one in queue["pods"]] == ["blue/blue-huge"]
        assert (queue["hidden"], queue["counts"]["unschedulable"]) == (1, 2)
        _, grouped = await fetch(served, "/debug/queue?grouped=true", "ann")
        assert [one["pod"] for one in grouped["waiting"]] == ["blue/blue-huge"]
        assert (grouped["hidden"], grouped["counts"]["unschedulable"]) == (1, 2)
        _, node = await fetch(served, "/debug/nodes/n1", "ann")
        assert ([one["pod"] for one in node["pods"]], node["podCount"]) == (["blue/blue-runs"], 2)
        _, found = await fetch(served, "/debug/decisions", "ann")
        assert ([one["pod"] for one in found["decisions"]], found["hidden"]) == (["blue/blue-huge"], 1)
        _, compared = await fetch(served, "/debug/shadow", "ann")
        assert (compared["decisions"], compared["hidden"], compared["agrees"]["true"]) == ([], 1, 1)
        status, missing = await fetch(served, "/debug/why/red/red-huge", "ann")
        assert (status, missing["error"]) == (404, "pod red/red-huge is not known here")
        for path in PATHS:
            assert "red/red-runs" not in str((await fetch(served, path, "ann"))[1])
        assert len((await fetch(served, "/debug/queue", "root"))[1]["pods"]) == 2
        assert (await fetch(served, "/debug/why/red/red-huge", "root"))[0] == 200


async def test_victims_of_hidden_namespaces_are_not_named_in_a_pods_story(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.lingering.add("low")
    cluster.node("n1", cpu="2")
    cluster.pod("low", namespace="red", cpu="2", node="n1")
    cluster.pod("high", namespace="blue", cpu="2", priority=10)
    async with page_server(cluster, tmp_path) as served:
        served.schedule()
        served.rights.allowed |= {("ann", "get", "/debug/why/blue/high"), ("ann", "list", "blue")}
        status, story = await fetch(served, "/debug/why/blue/high", "ann")
        assert status == 200
        assert story["nominatedNode"] == "n1"
        assert story["attempt"]["victims"] == ["(hidden)"]
        assert "red/low" not in json.dumps(story)


@pytest.mark.parametrize("text", ["0/4 nodes are available", "kubernetes.io/hostname", "2027-01-15", "blue/mine"])
def test_what_is_no_name_of_a_hidden_pod_stays(text: str) -> None:
    assert without_names(text.encode(), {"blue"}).decode() == text


# --- the stream -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def stream(served: Served, token: str = "", after: str = "") -> AsyncIterator[aiohttp.ClientResponse]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
        session.get(f"{served.url}/debug/live?after={after}", headers=headers) as answer,
    ):
        yield answer


async def event(answer: aiohttp.ClientResponse, name: str) -> tuple[str, Any]:
    """The id and the data of the next event of this name."""
    while True:
        lines = (await answer.content.readuntil(b"\n\n")).decode().splitlines()
        fields = dict(line.split(": ", 1) for line in lines if line)
        if fields.get("event") == name:
            return fields.get("id", ""), json.loads(fields["data"])


async def test_a_decision_arrives_while_the_stream_is_open_and_a_new_one_goes_on_after_it() -> None:
    cluster = two_teams()
    async with page_server(cluster, limits=QUICK) as served:
        async with stream(served) as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            assert (await event(answer, "queue"))[1]["active"] == 2
            served.schedule()
            number, found = await event(answer, "decisions")
            assert [one["pod"] for one in found["decisions"]] == ["blue/blue-huge"]
        served.schedule()
        async with stream(served, after=number) as answer:
            assert [one["pod"] for one in (await event(answer, "decisions"))[1]["decisions"]] == ["red/red-huge"]
        async with stream(served, after="999") as answer:
            assert len((await event(answer, "decisions"))[1]["decisions"]) == 2, "a number of an earlier process"


async def test_a_stream_says_whether_this_copy_leads_and_when_that_changes() -> None:
    async with page_server(two_teams(), limits=QUICK) as served:
        served.is_leading = False
        async with stream(served) as answer:
            assert (await event(answer, "copy"))[1] == {"isLeading": False}
            served.is_leading = True
            assert (await event(answer, "copy"))[1] == {"isLeading": True}


async def test_a_stream_ends_by_itself_in_seconds_and_in_bytes() -> None:
    for limits in (
        LiveLimits(stream_seconds=0.1, look_seconds=0.02),
        LiveLimits(stream_bytes=10, look_seconds=0.02),
    ):
        async with page_server(two_teams(), limits=limits) as served, stream(served) as answer:
            text = (await answer.read()).decode()
            assert text.startswith("retry: ")
            assert answer.headers["Connection"] == "close"


async def test_streams_are_bounded_and_a_closed_one_makes_room(tmp_path: Path) -> None:
    limits = LiveLimits(streams=3, streams_of_user=2, look_seconds=0.02)
    async with page_server(two_teams(), tmp_path, limits) as served:
        served.rights.allowed |= {(user, "get", "/debug/live") for user in ("ann", "bob", "eve")}
        async with stream(served, "ann") as one:
            async with stream(served, "ann") as two, stream(served, "ann") as third, stream(served, "bob") as fourth:
                assert [answer.status for answer in (one, two, third, fourth)] == [200, 200, 429, 200]
                assert third.headers["Retry-After"] == "5"
                async with stream(served, "eve") as last:
                    assert last.status == 429

            async def again() -> int:
                async with stream(served, "ann") as answer:
                    return answer.status

            async with asyncio.timeout(10):
                while await again() != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)


async def test_a_stream_names_no_hidden_pod(tmp_path: Path) -> None:
    async with page_server(two_teams(), tmp_path, QUICK) as served:
        served.rights.allowed |= {("ann", "get", "/debug/live"), ("ann", "list", "blue")}
        for _ in range(2):
            served.schedule()
        async with stream(served, "ann") as answer:
            _, found = await event(answer, "decisions")
            assert ([one["pod"] for one in found["decisions"]], found["hidden"]) == (["blue/blue-huge"], 1)


# --- other sites ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": ""},
        {"Host": ":80"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example"},
    ],
)
async def test_other_sites_read_nothing_without_credentials(headers: dict[str, str]) -> None:
    async with page_server(two_teams()) as served:
        for path in ("/debug/nodes", "/debug/queue", "/debug/live", "/debug/why/red/red-huge"):
            status, text = await fetch(served, path, **headers)
            assert status == 403, text
        assert (await fetch(served, "/debug/nodes"))[0] == 200


async def test_a_client_that_does_not_read_is_cut_off_and_makes_room() -> None:
    limits = LiveLimits(streams=1, look_seconds=0.001, send_seconds=0.2, stream_bytes=2**40, stream_seconds=600)
    async with page_server(Cluster(), limits=limits) as served:
        port = int(served.url.rpartition(":")[2])
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(deaf, ("127.0.0.1", port))
        await loop.sock_sendall(deaf, b"GET /debug/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert (await loop.sock_recv(deaf, 12)).endswith(b"200")
        async with stream(served) as answer:
            assert answer.status == 429
        status = 429
        async with asyncio.timeout(50):
            while status == 429:
                for _ in range(100):
                    served.decisions.observe(Attempt("default/p", "u", "s", 1, 0, message="m" * 500))
                await asyncio.sleep(0.005)
                async with stream(served) as answer:
                    status = answer.status
        deaf.close()
        assert status == 200
