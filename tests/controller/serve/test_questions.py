"""Questions over HTTP: answers, rights, what others may not see, and hostile questions."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from scheduler.controller.serve.questions import MAX_BODY_BYTES
from scheduler.testing import objects
from scheduler.testing.documents import pod_json
from scheduler.testing.objects import pod
from tests import builders
from tests.controller.conftest import until
from tests.controller.serve.asking import PATH, asking, post, small
from tests.engine.driver import Cluster
from tests.engine.gangs import Gangs
from tests.engine.questions.asking import OWNER, deployment


async def test_a_question_is_answered_and_nothing_changes() -> None:
    cluster = small()
    async with asking(cluster) as (url, _):
        status, answer = await post(url, {"workloads": [{"manifest": deployment(3)}], "edits": []})
        assert (status, answer["placed"], len(answer["placements"])) == (200, 3, 3)
        status, answer = await post(url, {"edits": [{"edit": "drain", "node": "n0"}]})
        assert [(one["pod"], one["node"], one["leftNode"]) for one in answer["placements"]] == [
            ("default/web", "n1", "n0")
        ]
    assert cluster.node_of("web") == "n0"
    cluster.engine.check()


async def test_another_configuration_is_read_as_a_file_of_the_command_line() -> None:
    async with asking(small()) as (url, _):
        text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        question = {"workloads": [{"manifest": pod_json("p")}], "configuration": text}
        assert (await post(url, question))[0] == 200
        status, answer = await post(url, {**question, "configuration": text + "profiles: [{pluginConfig: 7}]\n"})
        assert status == 400 and "pluginConfig" in answer["message"]


async def test_it_takes_a_right_of_its_own(tmp_path: Path) -> None:
    async with asking(small(), tmp_path) as (url, rights):
        rights.allowed = {("reader", "get", PATH), ("asker", "create", PATH)}
        question = {"workloads": [{"manifest": pod_json("p")}]}
        assert (await post(url, question))[0] == 403
        assert (await post(url, question, token="reader"))[0] == 403
        status, answer = await post(url, question, token="asker")
        assert status == 200 and answer["placed"] == 1


async def test_pods_of_namespaces_that_the_asker_may_not_list_are_counted_and_not_named(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.nodes_like(2, cpu="4")
    for namespace in ("open", "secret"):
        metadata = {**OWNER, "namespace": namespace}
        cluster.show(pod(f"{namespace}-web", cpu="1", node="n0", labels={"app": "x"}, metadata=metadata))
    cluster.show(pod("secret-bare", cpu="1", node="n0", metadata={"namespace": "secret"}))
    cluster.show(builders.budget("secret-budget", {"app": "x"}, namespace="secret", allowed=0))
    question = {"edits": [{"edit": "drain", "node": "n0"}]}
    async with asking(cluster, tmp_path) as (url, rights):
        rights.allowed = {("asker", "create", PATH), ("asker", "list", "open")}
        status, answer = await post(url, question, token="asker")
        assert status == 200
        assert [one["pod"] for one in answer["placements"]] == ["open/open-web"]
        assert answer["hidden"] == {"placed": 0, "pending": 0, "left": 2, "budgets": 1}
        assert "secret" not in json.dumps(answer)
        rights.allowed = {("all", "create", PATH), ("all", "list", "")}
        assert "secret/secret-bare" in json.dumps((await post(url, question, token="all"))[1])


async def test_a_hidden_pod_that_finds_no_node_is_counted_though_it_is_all_that_is_hidden(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.nodes_like(1, cpu="4")
    cluster.show(pod("web", cpu="1", node="n0", metadata={**OWNER, "namespace": "secret"}))
    async with asking(cluster, tmp_path) as (url, rights):
        rights.allowed = {("asker", "create", PATH), ("asker", "list", "open")}
        _, answer = await post(url, {"edits": [{"edit": "drain", "node": "n0"}]}, token="asker")
    assert (answer.get("placements", []), answer["hidden"]["pending"]) == ([], 1)


async def test_victims_of_hidden_namespaces_are_counted(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    cluster.show(pod("victim", cpu="1", node="n0", metadata={"namespace": "secret"}))
    async with asking(cluster, tmp_path) as (url, rights):
        rights.allowed = {("asker", "create", PATH)}
        question = {"workloads": [{"manifest": pod_json("p", cpu="1", priority=5)}]}
        _, answer = await post(url, question, token="asker")
        assert answer["placements"][0]["hiddenVictims"] == 1
        assert "victim" not in json.dumps(answer["placements"][0]["victims"] if "victims" in answer else [])


@pytest.mark.parametrize(
    "edit",
    [
        {"edit": "removePod", "pod": "secret/runs"},
        {"edit": "removePod", "pod": "secret/absent"},
        {"edit": "delete", "kind": "PersistentVolumeClaim", "name": "absent", "namespace": "secret"},
        {"edit": "put", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "secret"}}},
    ],
)
async def test_what_is_in_a_hidden_namespace_can_not_be_found_out_by_changing_it(tmp_path: Path, edit: Any) -> None:
    cluster = small()
    cluster.show(objects.pod("runs", cpu="1", node="n0", metadata={"namespace": "secret"}))
    async with asking(cluster, tmp_path) as (url, rights):
        rights.allowed = {("asker", "create", PATH), ("asker", "list", "default")}
        status, refused = await post(url, {"edits": [edit]}, token="asker")
        assert (status, refused["message"]) == (400, "it changes objects of a namespace whose pods you may not see")
        assert (await post(url, {"edits": [{"edit": "removePod", "pod": "default/web"}]}, token="asker"))[0] == 200


@pytest.mark.parametrize(
    "edit",
    [
        {"edit": "delete", "kind": "Service", "name": "absent"},
        {"edit": "delete", "kind": "PodGroup", "name": "absent", "namespace": ""},
        {"edit": "put", "object": {"kind": "Service", "metadata": {"name": "web", "namespace": ""}}},
        {"edit": "put", "object": {"kind": "Pod", "metadata": {"name": "web"}}},
    ],
)
async def test_an_object_without_a_namespace_is_one_of_the_default_namespace(tmp_path: Path, edit: Any) -> None:
    async with asking(small(), tmp_path) as (url, rights):
        rights.allowed = {("asker", "create", PATH)}
        status, refused = await post(url, {"edits": [edit]}, token="asker")
        assert (status, refused["message"]) == (400, "it changes objects of a namespace whose pods you may not see")


async def test_a_change_of_what_is_in_no_namespace_takes_no_right_to_see_one(tmp_path: Path) -> None:
    async with asking(small(), tmp_path) as (url, rights):
        rights.allowed = {("asker", "create", PATH)}
        edits = [{"edit": "delete", "kind": kind, "name": "absent"} for kind in ("StorageClass", "Widget")]
        said = [(await post(url, {"edits": [edit]}, token="asker"))[1]["message"] for edit in edits]
    assert said == ["StorageClass 'absent' is not known", "kind 'Widget': decisions read no such objects"]


async def test_what_the_asker_has_made_up_is_named_wherever_it_would_be(tmp_path: Path) -> None:
    async with asking(small(), tmp_path) as (url, rights):
        rights.allowed = {("asker", "create", PATH)}
        question = {"workloads": [{"manifest": deployment(2)}], "findsMax": True}
        status, answer = await post(url, question, token="asker")
        assert status == 200
        assert "(hidden)" not in json.dumps(answer)
        assert [one["count"] for one in answer["room"]] == [5]


async def test_who_may_see_all_names_elsewhere_sees_them_in_answers(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    cluster.show(objects.pod("victim", cpu="1", node="n0", metadata={"namespace": "secret"}))
    async with asking(cluster, tmp_path) as (url, rights):
        rights.allowed = {("asker", "create", PATH), ("asker", "get", "/debug/names")}
        question = {"workloads": [{"manifest": pod_json("p", cpu="1", priority=5)}]}
        assert (await post(url, question, token="asker"))[1]["placements"][0]["victims"] == ["secret/victim"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "tandem.svc.evil.example"}, 403),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "[::1]:1"}, 200),
        ({"Host": "scheduler.example.com"}, 200),
        ({"Host": "tandem-scheduler.tandem-system.svc"}, 200),
    ],
)
async def test_other_sites_cannot_ask(headers: dict[str, str], status: int) -> None:
    async with asking(small()) as (url, _):
        assert (await post(url, {"workloads": [{"manifest": pod_json("p")}]}, **headers))[0] == status


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "can't be read"),
        (b"{", "can't be read"),
        (b"[1]", "can't be read"),
        (b"\xff\xfe", "can't be read"),
        (b"[" * 100_000, "can't be read"),
        (b'{"workloads": [{"manifest": ' + b"[" * 5_000, "can't be read"),
        (b'{"workloads": [{"manifest": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_002, "the JSON is nested too deep"),
        (b'{"unknown": 1}', "unknown"),
        (b'{"edits": [{"edit": "explode", "node": "n0"}]}', "explode"),
        (b'{"edits": [{"edit": "drain", "node": "n0", "force": true}]}', "force"),
        (b'{"workloads": [{"manifest": {}}]}', "the manifest has no kind"),
        (b'{"workloads": [{"manifest": {"kind": "Pod", "metadata": {"name": "a\\u001b[31m"}}}]}', "must consist of"),
        (b"{}", "neither pods nor edits"),
        (b'{"configuration": "' + b"x" * 70_000 + b'"}', "characters"),
        (b'{"configuration": "' + b"x" * (MAX_BODY_BYTES + 1) + b'"}', "bytes"),
    ],
)
async def test_a_hostile_question_gets_a_plain_error(body: bytes, text: str) -> None:
    async with asking(small()) as (url, _):
        status, answer = await post(url, body)
        assert status == 400 and text in answer["message"], answer
        assert "\x1b" not in answer["message"]
        assert (await post(url, {"workloads": [{"manifest": pod_json("p")}]}))[0] == 200


@pytest.mark.parametrize("body", [b"{}", gzip.compress(b"{}")])
async def test_a_question_is_not_unpacked(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with asking(small()) as (url, _):
        status, answer = await post(url, body, **{"Content-Encoding": "gzip"})
        assert status == 415 and "not packed" in answer["message"], answer
    assert caplog.records == []


async def test_a_body_in_pieces_beyond_the_limit_is_cut_off() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 2**16

    async with asking(small()) as (url, _), aiohttp.ClientSession() as session:
        headers = {"Content-Type": "application/json"}
        async with session.post(url + PATH, data=pieces(), headers=headers) as answer:
            assert answer.status == 400
            assert "bytes" in await answer.text()


async def test_a_body_of_a_permitted_size_may_arrive_with_its_head() -> None:
    """The limit of 32 KiB is for heads: bytes of a body that arrive in the same segment are not counted."""
    async with asking(small()) as (url, _):
        port = int(url.rpartition(":")[2])
        manifest = pod_json("p", annotations={"a": "x" * 60_000})
        body = msgspec.json.encode({"workloads": [{"manifest": manifest}]})
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        writer.write(head.encode() + body)
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200"), answer[:200]


async def test_a_user_asks_one_question_at_a_time_and_others_go_on(tmp_path: Path) -> None:
    short = {"workloads": [{"manifest": pod_json("p")}]}
    goes_on = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        body = msgspec.json.encode(short)
        yield body[:10]
        await goes_on.wait()
        yield body[10:]

    async with asking(small(), tmp_path) as (url, rights), aiohttp.ClientSession() as session:
        rights.allowed = {(user, "create", PATH) for user in ("one", "two")}
        headers = {"Content-Type": "application/json", "Authorization": "Bearer one"}
        first = asyncio.create_task(session.post(url + PATH, data=slowly(), headers=headers))
        await until(lambda: rights.questions.under_way == 1)
        assert (await post(url, short, token="one"))[0] == 429
        assert (await post(url, short, token="two"))[0] == 200
        goes_on.set()
        assert (await first).status == 200
        assert (await post(url, short, token="one"))[0] == 200


async def test_nothing_is_answered_before_the_first_lists_are_complete() -> None:
    cluster = small()
    cluster.engine.is_synced = False
    async with asking(cluster) as (url, _):
        assert (await post(url, {"workloads": [{"manifest": pod_json("p")}]}))[0] == 503


async def test_scheduling_goes_on_while_a_question_is_answered() -> None:
    """Between two slices the engine takes stimuli and decides; the answer is that of the moment when it was asked."""
    cluster = Cluster()
    cluster.nodes_like(20, cpu="1000", pods=100_000)
    async with asking(cluster) as (url, _):
        question = {"workloads": [{"manifest": deployment(300, "1m")}]}
        task = asyncio.create_task(post(url, question))
        scheduled = 0
        while not task.done():
            cluster.pod(f"p{scheduled}", cpu="1m")
            assert cluster.schedule() is not None
            scheduled += 1
            await asyncio.sleep(0)
        status, answer = await task
    assert scheduled > 3
    assert (status, answer["placed"]) == (200, 300)
    cluster.engine.check()


async def test_what_would_help_a_pod_is_asked_by_the_same_rules(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="2")
    cluster.show(pod("secret", cpu="2", node="n0", metadata={"namespace": "hidden"}))
    cluster.pod("p", cpu="2")
    path = "/debug/what-helps"
    async with asking(cluster, tmp_path) as (url, rights):
        rights.allowed = {("asker", "create", path), ("asker", "list", "default")}
        assert (await post(url, {"pod": "default/p"}, path))[0] == 403
        status, answer = await post(url, {"pod": "default/p"}, path, token="asker")
        assert status == 200 and answer["hidden"] == 1
        assert "secret" not in json.dumps(answer)
        assert [one["hiddenVictims"] for one in answer["helps"] if one["change"] == "priority"] == [1]
        for key in ("hidden/secret", "hidden/absent", "default/absent", "\x1b", ""):
            status, refused = await post(url, {"pod": key}, path, token="asker")
            assert status == 400 and "is not known here" in refused["message"]


async def test_what_would_help_a_group_is_asked_by_the_same_rules(tmp_path: Path) -> None:
    cluster = Gangs()
    cluster.node("n0", cpu="2")
    cluster.show(pod("secret", cpu="1", node="n0", metadata={"namespace": "hidden"}))
    cluster.group(min_count=2)
    cluster.members(2, cpu="1")
    path = "/debug/what-helps"
    async with asking(cluster, tmp_path) as (url, rights):
        rights.allowed = {("asker", "create", path), ("asker", "list", "default"), ("other", "create", path)}
        assert (await post(url, {"pod": "default/g"}, path))[0] == 403
        for key in ("default/g", "default/g1"):
            status, answer = await post(url, {"pod": key}, path, token="asker")
            assert (status, answer["group"], answer["hidden"]) == (200, "default/g", 1)
            assert "secret" not in json.dumps(answer)
            assert [one["hiddenVictims"] for one in answer["helps"] if one["change"] == "priority"] == [1]
        status, refused = await post(url, {"pod": "default/g"}, path, token="other")
        assert status == 400 and "is not known here" in refused["message"]


async def test_capacity_is_shown_to_those_who_may_get_it_without_names_that_they_may_not_see(tmp_path: Path) -> None:
    cluster = small()
    cluster.show(pod("quiet", cpu="1", node="n0", metadata={"namespace": "hidden"}))
    path = "/debug/capacity"
    async with asking(cluster, tmp_path) as (url, rights), aiohttp.ClientSession() as session:
        rights.allowed = {("asker", "get", path), ("asker", "list", "default")}
        async with session.get(url + path) as answer:
            assert answer.status == 403
        headers = {"Authorization": "Bearer asker"}
        async with session.get(url + path + "?pool=a,b", headers=headers) as answer:
            page = await answer.json()
        async with session.get(url + path + "?pool=a,b,c,d,e", headers=headers) as answer:
            assert answer.status == 200
        async with session.get(url + path + "?pool=a,b,c,d,e,f", headers=headers) as answer:
            assert answer.status == 400
            assert "pools by 6 labels: at most 5 name a pool" in await answer.text()
    assert page["poolLabels"] == ["a", "b"]
    assert [shape["name"] for shape in page["shapes"]] == ["default/web", "(hidden 2)"]
    assert page["pools"][0]["fits"][0]["count"] == 6
    assert "quiet" not in json.dumps(page)
