"""Access to the pages: tokens, client certificates, rights, and how long an answer is cached."""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.serve.authentication import AUTHORITY_PATH, Authenticator, Unauthenticated
from scheduler.controller.serve.authorization import Authorizer, OpenPaths, guard
from scheduler.controller.serve.certificate_upkeep import keep_up
from scheduler.controller.serve.server import HealthServer
from scheduler.controller.serve.serving_settings import AccessSettings, ServingSettings
from scheduler.controller.serve.tls import ServingCertificate, TlsSettings
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.controller.write.http_exchange import Answer
from scheduler.simulate.cluster import EmbeddedCluster
from tests.limits import WAIT_SECONDS

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{}}}}]
"""


class Reviewer:
    """An API server that answers reviews: token ``good`` is anna, who may see /metrics; others are invalid."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.is_down = False
        self.seconds = 0.0

    async def tokens(self, request: web.Request) -> web.Response:
        spec = (await request.json())["spec"]
        self.asked.append(spec)
        if self.is_down:
            return web.json_response({"message": "down"}, status=503)
        user = {"username": "anna", "uid": "7", "groups": ["scrapers"], "extra": {"scopes": ["a"]}}
        status = {"authenticated": True, "user": user} if spec["token"] == "good" else {"error": "invalid"}
        return web.json_response({"status": status}, status=201)

    async def rights(self, request: web.Request) -> web.Response:
        spec = (await request.json())["spec"]
        self.asked.append(spec)
        asked = spec["nonResourceAttributes"]
        is_allowed = "scrapers" in spec["groups"] and asked == {"path": "/metrics", "verb": "get"}
        return web.json_response({"status": {"allowed": is_allowed}}, status=201)


@asynccontextmanager
async def serving(
    tmp_path: Path, settings: AccessSettings, certificate: ServingCertificate | None = None
) -> AsyncIterator[tuple[Reviewer, aiohttp.ClientSession]]:
    reviewer = Reviewer()
    application = web.Application()
    application.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", reviewer.tokens)
    application.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", reviewer.rights)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(port=runner.addresses[0][1]))
    client = ApiClient(CredentialSource(ConnectionSettings(kubeconfig=str(kubeconfig)), {}))

    def clock() -> float:
        return reviewer.seconds

    authenticator = Authenticator(client, settings.token_life, clock)
    check = guard(authenticator, Authorizer(client, settings, clock), OpenPaths(settings.open_paths))
    server = HealthServer(
        ServingSettings("127.0.0.1", 1, certificate, settings),
        SchedulerMetrics().registry,
        ready_checks={},
        guards=(check,),
    )
    await server.start_on(0)
    scheme = "http" if certificate is None else "https"
    try:
        async with aiohttp.ClientSession(f"{scheme}://127.0.0.1:{server.port}") as session:
            yield reviewer, session
    finally:
        await server.close()
        await client.close()
        await runner.cleanup()


async def get(session: aiohttp.ClientSession, path: str, token: str = "", **options: Any) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with session.get(path, headers=headers, **options) as response:
        return response.status, await response.text()


async def test_probes_need_no_token_and_no_access_review(tmp_path: Path) -> None:
    async with serving(tmp_path, AccessSettings()) as (reviewer, session):
        for path in ("/healthz", "/livez", "/readyz"):
            assert (await get(session, path))[0] == 200
        assert reviewer.asked == []


async def test_a_probe_with_a_wrong_token_is_refused_as_by_kube_scheduler(tmp_path: Path) -> None:
    async with serving(tmp_path, AccessSettings()) as (reviewer, session):
        for path in ("/healthz", "/livez", "/readyz"):
            assert (await get(session, path, "bad"))[0] == 401
            assert (await get(session, path, "good"))[0] == 200
        assert reviewer.asked == [{"token": "bad"}, {"token": "good"}]


async def test_a_page_is_shown_to_users_that_the_cluster_allows_and_refused_to_others(tmp_path: Path) -> None:
    async with serving(tmp_path, AccessSettings()) as (reviewer, session):
        assert (await get(session, "/metrics", "good"))[0] == 200
        token, right = reviewer.asked
        assert token == {"token": "good"}
        assert right == {
            "user": "anna",
            "uid": "7",
            "groups": ["scrapers"],
            "extra": {"scopes": ["a"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }
        status, text = await get(session, "/configz", "good")
        assert status == 403
        assert 'forbidden: User \\"anna\\" cannot get path \\"/configz\\"' in text
        status, text = await get(session, "/metrics")
        assert status == 403
        assert 'User \\"system:anonymous\\" cannot get' in text
        assert (await get(session, "/metrics", "bad"))[0] == 401
        assert (await get(session, "/no/such/page", "bad"))[0] == 401
        async with session.delete("/metrics", headers={"Authorization": "Bearer good"}) as response:
            assert response.status == 403


async def test_answers_good_and_bad_hold_for_their_time_and_no_longer(tmp_path: Path) -> None:
    settings = AccessSettings(token_life=20.0, allowed_life=10.0, refused_life=5.0)
    async with serving(tmp_path, settings) as (reviewer, session):
        for _ in range(3):
            await get(session, "/metrics", "good")
            await get(session, "/configz", "good")
            await get(session, "/metrics", "bad")
        assert len(reviewer.asked) == 4
        reviewer.seconds = 5.0
        await get(session, "/metrics", "good")
        await get(session, "/configz", "good")
        assert [spec.get("nonResourceAttributes", {}).get("path") for spec in reviewer.asked[4:]] == ["/configz"]
        reviewer.seconds = 20.0
        await get(session, "/metrics", "good")
        assert len(reviewer.asked) == 7


async def test_an_api_server_that_can_not_be_asked_shuts_the_pages_but_not_the_probes(tmp_path: Path) -> None:
    async with serving(tmp_path, AccessSettings()) as (reviewer, session):
        reviewer.is_down = True
        assert (await get(session, "/metrics", "good"))[0] == 500
        assert (await get(session, "/livez", "good"))[0] == 200
        reviewer.is_down = False
        assert (await get(session, "/metrics", "good"))[0] == 200


@pytest.mark.parametrize(
    ("pattern", "path", "is_open"),
    [
        ("/metrics", "/metrics", True),
        ("metrics", "/metrics", True),
        ("/healthz", "/healthz/ping", False),
        ("/healthz*", "/healthz/ping", True),
        ("/debug/*", "/debug/queue", True),
        ("/debug/*", "/debug", False),
        ("*", "/anything", True),
    ],
)
def test_open_paths_are_whole_paths_or_beginnings(pattern: str, path: str, is_open: bool) -> None:
    assert (path in OpenPaths([pattern])) is is_open


def client_files(folder: Path) -> tuple[str, str, str]:
    """An authority, and a certificate and key of ``anna``, who is one of the scrapers."""
    now = datetime.datetime.now(datetime.UTC)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    name = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "scrapers"), x509.NameAttribute(NameOID.COMMON_NAME, "anna")]
    )

    def signed(subject: x509.Name, public: Any, is_authority: bool) -> bytes:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(authority_name).public_key(public)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(1))
        builder = builder.not_valid_after(now + datetime.timedelta(1))
        builder = builder.add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    plain = serialization.NoEncryption()
    texts = {
        "ca.crt": signed(authority_name, authority_key.public_key(), True),
        "anna.crt": signed(name, key.public_key(), False),
        "anna.key": key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain),
    }
    for file, text in texts.items():
        (folder / file).write_bytes(text)
    return str(folder / "ca.crt"), str(folder / "anna.crt"), str(folder / "anna.key")


async def test_a_client_certificate_authenticates_a_user(tmp_path: Path) -> None:
    authority, certificate, key = client_files(tmp_path)
    held = ServingCertificate(TlsSettings(client_authority_file=authority), "host")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    without: dict[str, Any] = {"ssl": context}
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(certificate, key)
    async with serving(tmp_path, AccessSettings(), held) as (reviewer, session):
        assert (await get(session, "/metrics", **without))[0] == 403
        assert (await get(session, "/metrics", ssl=context))[0] == 200
        assert (reviewer.asked[-1]["user"], reviewer.asked[-1]["groups"]) == (
            "anna",
            ["scrapers", "system:authenticated"],
        )


async def test_the_cluster_s_client_authority_is_read_again_while_running(tmp_path: Path) -> None:
    """The new authority is trusted without a restart, and the old one no longer."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old, new = client_files(tmp_path / "old"), client_files(tmp_path / "new")
    held = ServingCertificate(TlsSettings(), "host")
    async with (
        serving(tmp_path, AccessSettings(), held) as (_, session),
        EmbeddedCluster(kubelet=None, controllers=False) as cluster,
    ):
        kubeconfig = cluster.kubeconfig(tmp_path / "cluster")
        client = ApiClient(CredentialSource(ConnectionSettings(kubeconfig=str(kubeconfig)), {}))
        upkeep = asyncio.create_task(
            keep_up(held, client, AccessSettings(), refresh_seconds=0.02, authority_seconds=0.02)
        )
        try:
            await publish(client, old[0], "POST")
            await until_seen(session, old, 200)
            assert await seen_by(session, new) != 200
            await publish(client, new[0], "PUT")
            await until_seen(session, new, 200)
            assert await seen_by(session, old) != 200
        finally:
            upkeep.cancel()
            await asyncio.gather(upkeep, return_exceptions=True)
            await client.close()


async def publish(client: ApiClient, file: str, method: str) -> None:
    authority = Path(file).read_text()  # noqa: ASYNC240 - a small file of the test's own
    path = AUTHORITY_PATH if method == "PUT" else AUTHORITY_PATH.rpartition("/")[0]
    metadata = {"name": AUTHORITY_PATH.rpartition("/")[2], "namespace": "kube-system"}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"client-ca-file": authority}}
    await client.request(method, path, body=msgspec.json.encode(document))


async def seen_by(session: aiohttp.ClientSession, files: tuple[str, str, str]) -> int:
    """The status of /metrics for the client of these files; 0 where TLS refuses it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(files[1], files[2])
    try:
        return (await get(session, "/metrics", ssl=context))[0]
    except (aiohttp.ClientError, OSError):
        return 0


async def until_seen(session: aiohttp.ClientSession, files: tuple[str, str, str], status: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while await seen_by(session, files) != status:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)


async def test_a_header_that_is_no_text_is_refused_with_401(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(tmp_path, AccessSettings()) as (reviewer, session):
        url = session._base_url
        assert url is not None
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \xff\xfe\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert reviewer.asked == []
    assert caplog.records == []


# --- tokens for the scheduler's own audience --------------------------------------------------------------------------


def jwt(audience: object) -> str:
    parts: tuple[dict[str, object], ...] = ({"alg": "none"}, {"aud": audience, "sub": "anna"}, {})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


class Audiences:
    """An API server's client: a TokenReview is answered with these audiences."""

    def __init__(self, audiences: list[str] | None) -> None:
        self.audiences = audiences
        self.asked: list[dict[str, Any]] = []

    async def request(self, _method: str, _path: str, *, body: bytes, **_more: object) -> Answer:
        self.asked.append(json.loads(body)["spec"])
        status = {"authenticated": True, "user": {"username": "anna"}, "audiences": self.audiences}
        return Answer(201, json.dumps({"status": status}).encode())


@pytest.mark.parametrize("audience", ["tandem-scheduler", ["other", "tandem-scheduler"]])
async def test_a_token_for_our_audience_is_reviewed_for_it(audience: object) -> None:
    client = Audiences(["tandem-scheduler"])
    who = await Authenticator(client).identify(f"Bearer {jwt(audience)}", None)  # type: ignore[arg-type]
    assert who.name == "anna"
    assert client.asked[0]["audiences"] == ["tandem-scheduler"]


@pytest.mark.parametrize("audiences", [None, [], ["https://kubernetes.default.svc"]])
async def test_an_answer_that_does_not_name_our_audience_is_no_proof(audiences: list[str] | None) -> None:
    with pytest.raises(Unauthenticated):
        await Authenticator(Audiences(audiences)).identify(f"Bearer {jwt('tandem-scheduler')}", None)  # type: ignore[arg-type]


@pytest.mark.parametrize("token", [jwt("https://kubernetes.default.svc"), "opaque", "a.b.c", jwt(7)])
async def test_any_other_token_is_reviewed_for_the_api_server_s_audience(token: str) -> None:
    client = Audiences(["https://kubernetes.default.svc"])
    await Authenticator(client).identify(f"Bearer {token}", None)  # type: ignore[arg-type]
    assert "audiences" not in client.asked[0]
