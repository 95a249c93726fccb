"""The serving certificate: generated, stated, stored, rotated; and client certificates."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from yarl import URL

from scheduler.controller.report.metrics import SchedulerMetrics
from scheduler.controller.serve.certificates import self_made_pair
from scheduler.controller.serve.server import HealthServer
from scheduler.controller.serve.serving_settings import ServingSettings
from scheduler.controller.serve.tls import PAIR_NAME, ServingCertificate, TlsSettings
from scheduler.errors import ConfigurationError

NOW = datetime.datetime.now(datetime.UTC)


def files(folder: Path, name: str, *, with_key: bool = True) -> tuple[str, str]:
    certificate, key = folder / "tls.crt", folder / "tls.key"
    texts = self_made_pair(name, NOW)
    certificate.write_bytes(texts[0])
    if with_key:
        key.write_bytes(texts[1])
    return str(certificate), str(key)


@asynccontextmanager
async def serving(certificate: ServingCertificate) -> AsyncIterator[str]:
    server = HealthServer(
        ServingSettings("127.0.0.1", 1, certificate),
        SchedulerMetrics().registry,
        ready_checks={},
    )
    await server.start_on(0)
    try:
        yield f"https://127.0.0.1:{server.port}"
    finally:
        await server.close()


async def served_to(url: str, context: ssl.SSLContext) -> x509.Certificate:
    """The certificate that the server presents. Raises ssl.SSLError if the handshake fails."""
    host, port = URL(url).host, URL(url).port
    _, writer = await asyncio.open_connection(host, port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return x509.load_der_x509_certificate(shown)


def trusting_all() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def test_without_files_it_makes_itself_a_certificate_for_its_host_and_the_loopback() -> None:
    async with serving(ServingCertificate(TlsSettings(), "host-7")) as url:
        shown = await served_to(url, trusting_all())
    names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == {"localhost", "host-7"}
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert shown.not_valid_before_utc < NOW < shown.not_valid_after_utc


async def test_who_trusts_the_stated_certificate_needs_no_more_to_trust_the_server(tmp_path: Path) -> None:
    certificate, key = files(tmp_path, "a")
    context = ssl.create_default_context(cafile=certificate)
    async with serving(ServingCertificate(TlsSettings(certificate, key), "host")) as url:
        assert "a" in (await served_to(url, context)).subject.rfc4514_string()


async def test_a_rotated_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    certificate, key = files(tmp_path, "first")
    held = ServingCertificate(TlsSettings(certificate, key), "host")
    async with serving(held) as url:
        assert not held.refresh()
        files(tmp_path, "second")
        assert held.refresh()
        assert "@second" in (await served_to(url, trusting_all())).subject.rfc4514_string()


async def test_a_pair_that_does_not_match_leaves_the_old_one_served(tmp_path: Path) -> None:
    certificate, key = files(tmp_path, "first")
    held = ServingCertificate(TlsSettings(certificate, key), "host")
    files(tmp_path, "other", with_key=False)
    async with serving(held) as url:
        with pytest.raises(ConfigurationError, match="can't be used"):
            held.refresh()
        assert not held.refresh()
        assert "@first" in (await served_to(url, trusting_all())).subject.rfc4514_string()


def test_a_folder_without_a_certificate_gets_one_that_the_next_start_finds_again(tmp_path: Path) -> None:
    settings = TlsSettings(certificate_folder=str(tmp_path / "certs"))
    ServingCertificate(settings, "host")
    made = (tmp_path / "certs" / f"{PAIR_NAME}.crt").read_bytes()
    assert stat.S_IMODE((tmp_path / "certs" / f"{PAIR_NAME}.key").stat().st_mode) == 0o600
    ServingCertificate(settings, "host")
    assert (tmp_path / "certs" / f"{PAIR_NAME}.crt").read_bytes() == made


async def test_a_self_made_certificate_is_made_again_before_it_ends_in_a_running_server(tmp_path: Path) -> None:
    for settings in (TlsSettings(), TlsSettings(certificate_folder=str(tmp_path))):
        held = ServingCertificate(settings, "host", NOW)
        async with serving(held) as url:
            first = await served_to(url, trusting_all())
            assert not held.renew(NOW + datetime.timedelta(days=300))
            assert held.renew(NOW + datetime.timedelta(days=340))
            second = await served_to(url, trusting_all())
            assert second.not_valid_after_utc - first.not_valid_after_utc == datetime.timedelta(days=340)
            assert not held.renew(NOW + datetime.timedelta(days=341))


def test_a_stated_certificate_is_never_made_again(tmp_path: Path) -> None:
    certificate, key = files(tmp_path, "stated")
    held = ServingCertificate(TlsSettings(certificate, key), "host", NOW)
    before = Path(certificate).read_bytes()
    assert not held.renew(NOW + datetime.timedelta(days=1000))
    assert Path(certificate).read_bytes() == before


def test_an_authority_of_the_cluster_that_can_not_be_used_leaves_the_one_before_trusted() -> None:
    held = ServingCertificate(TlsSettings(), "host")
    authority = self_made_pair("authority", NOW)[0].decode()
    assert held.trust_cluster(authority)
    before = held.context, held.fingerprint
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="client certificate authority can't be used"):
            held.trust_cluster("no certificate")
        assert (held.context, held.fingerprint) == before
    assert held.context.verify_mode.name == "CERT_OPTIONAL"
    assert not held.trust_cluster(authority), "nothing has changed"
    assert held.trust_cluster("")
    assert held.context.verify_mode.name == "CERT_NONE"


async def test_version_and_suites_are_as_stated() -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    held = ServingCertificate(TlsSettings(cipher_suites=(suite, "TLS_AES_128_GCM_SHA256")), "host")
    old = [one["name"] for one in held.context.get_ciphers() if one["protocol"] != "TLSv1.3"]
    assert old == ["ECDHE-ECDSA-AES256-GCM-SHA384"]
    only_new = ServingCertificate(TlsSettings(minimum_version="VersionTLS13"), "host")
    client = trusting_all()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    async with serving(only_new) as url:
        with pytest.raises(OSError):
            await served_to(url, client)


def test_every_wrong_flag_is_reported_at_once(tmp_path: Path) -> None:
    wrong = TlsSettings("a.crt", "", "", "VersionSSL3", ("TLS_NONSENSE",))
    with pytest.raises(ConfigurationError) as caught:
        ServingCertificate(wrong, "host")
    assert [str(fault) for fault in caught.value.faults] == [
        '--tls-min-version: unknown tls version "VersionSSL3", known: VersionTLS12, VersionTLS13',
        "--tls-cert-file and --tls-private-key-file must be specified together",
        "--tls-cipher-suites: Cipher suite TLS_NONSENSE not supported or doesn't exist",
    ]
    with pytest.raises(ConfigurationError, match="--client-ca-file"):
        ServingCertificate(TlsSettings(client_authority_file=str(tmp_path / "none")), "host")


def test_without_a_place_for_temporary_files_the_fault_says_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(ConfigurationError, match=r"temporary file.*No such file or directory.*TMPDIR"):
        ServingCertificate(TlsSettings(), "host")
