"""Promise: people reach the leader's pages by their kubeconfig alone, and hand nothing out that others could use.

The scheduler takes itself for a pod; a kubelet of the test's own forwards the pod's port to it, so that the request
goes the whole way: WebSocket to the API server, WebSocket to the kubelet.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import signal
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from e2e import builders
from e2e.client import ApiError, Client
from e2e.provider import Cluster
from e2e.room import Room
from e2e.tandem import Tandem
from scheduler.cli.leader import READER
from scheduler.cli.main import main
from scheduler.controller.lead.announcement import AUDIENCE
from scheduler.controller.serve.certificates import self_made_pair
from scheduler.simulate.apiserver import connecting

pytestmark = pytest.mark.tandem_only

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
PAGES = Path(__file__).parent.parent / "manifests" / "base" / "reader.yaml"


@contextmanager
def kubelet(folder: Path, port_of_pod: int) -> Iterator[int]:
    """The port of a kubelet, all of whose pods listen on one port of the loopback."""
    certificate, key = self_made_pair("kubelet", datetime.datetime.now(datetime.UTC))
    (folder / "kubelet.crt").write_bytes(certificate)
    (folder / "kubelet.key").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "kubelet.crt", folder / "kubelet.key")

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.path.startswith("/portForward/")
        return await connecting.forward(request, port_of_pod)

    async def start() -> web.ServerRunner:
        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        return runner

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    try:
        yield runner.addresses[0][1]
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def test_a_token_for_the_pages_is_good_for_the_scheduler_and_not_for_the_api_server(room: Room) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": READER, "namespace": room.name}}
    room.client.post(f"/api/v1/namespaces/{room.name}/serviceaccounts", account)
    request = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"audiences": [AUDIENCE]}}
    made = room.client.post(f"/api/v1/namespaces/{room.name}/serviceaccounts/{READER}/token", request)
    spec = {"token": made["status"]["token"]}
    ours = room.client.post(REVIEWS, {"kind": "TokenReview", "spec": {**spec, "audiences": [AUDIENCE]}})["status"]
    assert (ours["authenticated"], ours["audiences"]) == (True, [AUDIENCE])
    plain = room.client.post(REVIEWS, {"kind": "TokenReview", "spec": spec})["status"]
    assert not plain.get("authenticated")


@contextmanager
def leader_with_a_kubelet(
    room: Room, client: Client, cluster: Cluster, new_tandem: Callable[..., Tandem], folder: Path
) -> Iterator[list[str]]:
    """A scheduler that leads, in a pod whose port a kubelet forwards, and a pod that fits nowhere. The options by which
    it is reached."""
    for document in yaml.safe_load_all(PAGES.read_text()):
        document["metadata"] |= {"namespace": room.name} if "namespace" in document["metadata"] else {}
        for subject in document.get("subjects", ()):
            subject["namespace"] = room.name
        if document["kind"] == "ClusterRoleBinding":
            document["metadata"]["name"] += f"-{room.name}"
        # The roles may be there from another test that applied the manifests.
        with contextlib.suppress(ApiError):
            client.create(document)
    flags = ["--leader-elect=true", "--serving-http=false", f"--leader-elect-resource-namespace={room.name}"]
    tandem = new_tandem(options=flags, kubeconfig=cluster.kubeconfig)
    tandem.scheme = "https"
    with tandem, kubelet(folder, tandem.port) as port:
        node = builders.node(f"{room.name}-with-a-kubelet")
        node["status"] |= {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        room.add_nodes(node)
        room.add_pods(
            builders.pod("leader", room.name, nodeName=node["metadata"]["name"]),
            builders.pod("huge", room.name, "99"),
        )
        room.wait_refused("huge")
        yield [f"--kubeconfig={cluster.kubeconfig}", f"--scheduler={room.name}/tandem-scheduler"]


@pytest.fixture
def reaching(
    room: Room,
    client: Client,
    cluster: Cluster,
    new_tandem: Callable[..., Tandem],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[list[str]]:
    monkeypatch.setenv("POD_NAMESPACE", room.name)
    monkeypatch.setenv("POD_NAME", "leader")
    with leader_with_a_kubelet(room, client, cluster, new_tandem, tmp_path) as options:
        yield options


def test_why_goes_the_whole_way_to_the_leader_s_pod(
    room: Room, reaching: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", f"{room.name}/huge", *reaching]) == 0, capfd.readouterr().err
    assert "Insufficient cpu" in capfd.readouterr().out


def test_ui_shows_the_leader_s_page_and_its_data_until_it_is_ended(room: Room, reaching: list[str]) -> None:
    command = [sys.executable, "-m", "scheduler", "ui", *reaching]
    browser = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("The page: ").strip()
            assert address.endswith("/ui/"), process.stderr and process.stderr.read()
            root = address.removesuffix("ui/")
            with browser.open(address, timeout=60) as answer:
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
                assert b"<title>Tandem</title>" in answer.read()
            with browser.open(f"{root}debug/queue", timeout=60) as answer:
                assert f"{room.name}/huge" in {one["pod"] for one in json.load(answer)["pods"]}
            with browser.open(f"{root}debug/live", timeout=60) as answer:
                lines = iter(answer.readline, b"")
                assert any(line.startswith(b"event: queue") for line in lines)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                _, errors = process.communicate(timeout=60)
            finally:
                process.kill()
        assert (process.returncode, errors) == (0, "")
