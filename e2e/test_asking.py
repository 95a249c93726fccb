"""Promise: people reach the leader's pages by their kubeconfig alone, and hand nothing out that others could use.

The scheduler takes itself for a pod; a kubelet of the test's own forwards the pod's port to it, so that the request
goes the whole way: WebSocket to the API server, WebSocket to the kubelet.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
import threading
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
from scheduler.controller.serve.tls import self_made_pair
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


def test_why_goes_the_whole_way_to_the_leader_s_pod(
    room: Room,
    client: Client,
    cluster: Cluster,
    new_tandem: Callable[..., Tandem],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("POD_NAMESPACE", room.name)
    monkeypatch.setenv("POD_NAME", "leader")
    for document in yaml.safe_load_all(PAGES.read_text()):
        document["metadata"] |= {"namespace": room.name} if "namespace" in document["metadata"] else {}
        for subject in document.get("subjects", ()):
            subject["namespace"] = room.name
        # The roles may be there from another test that applied the manifests.
        with contextlib.suppress(ApiError):
            client.create(document)
    flags = ["--leader-elect=true", "--serving-http=false", f"--leader-elect-resource-namespace={room.name}"]
    tandem = new_tandem(options=flags, kubeconfig=cluster.kubeconfig)
    tandem.scheme = "https"
    with (
        tandem,
        kubelet(tmp_path, tandem.port) as port,
    ):
        node = builders.node("with-a-kubelet")
        node["status"] |= {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        room.add_nodes(node)
        room.add_pods(
            builders.pod("leader", room.name, nodeName="with-a-kubelet"), builders.pod("huge", room.name, "99")
        )
        room.wait_refused("huge")
        asked = [
            "why",
            f"{room.name}/huge",
            f"--kubeconfig={cluster.kubeconfig}",
            f"--scheduler={room.name}/tandem-scheduler",
        ]
        assert main(asked) == 0, capfd.readouterr().err
        assert "Insufficient cpu" in capfd.readouterr().out
