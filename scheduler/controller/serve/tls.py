"""The serving certificate: from configured files, from a folder, or self-signed at the start of the process.

Like kube-scheduler 1.36, Tandem creates a self-signed certificate in memory if none is configured: traffic is
encrypted, but clients can verify the server only with configured files. Those are read again when they change
(``refresh``), so that a rotated certificate is served without a restart.

``certificates.py`` and its library are imported only where HTTPS is served: they are 4 % of a start.
"""

from __future__ import annotations

import datetime
import os
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from scheduler.controller.late_imports import ONE_AT_A_TIME
from scheduler.errors import ConfigurationError, Fault

REFRESH_SECONDS: Final = 30.0
"""Interval of checking configured files for changes."""
PAIR_NAME: Final = "tandem-scheduler"
"""The base name of the files in ``--cert-dir``, followed by ``.crt`` and ``.key``."""
RENEWED_DAYS_BEFORE: Final = 30
"""Days before its expiry at which a self-signed certificate is renewed."""
VERSIONS: Final = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}

_FIXED_IN_TLS_13: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
_CIPHER_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""kube-scheduler's flag values → OpenSSL's names."""


class TlsSettings(Struct, frozen=True):
    """The settings of HTTPS. Without files and folder a self-signed certificate is created for this process.

    ``cipher_suites``: kube-scheduler's names, for TLS 1.2; () means the library's defaults, and TLS 1.3 has no choice.
    ``client_authority_file``: the certificate authority that authenticates clients.
    """

    certificate_file: str = ""
    key_file: str = ""
    certificate_folder: str = ""
    minimum_version: str = "VersionTLS12"
    cipher_suites: tuple[str, ...] = ()
    client_authority_file: str = ""

    def faults(self) -> list[Fault]:
        """The faults that can be found without reading a file."""
        found = []
        if self.minimum_version not in VERSIONS:
            text = f'--tls-min-version: unknown tls version "{self.minimum_version}", known: {", ".join(VERSIONS)}'
            found.append(Fault("", text))
        if bool(self.certificate_file) != bool(self.key_file):
            found.append(Fault("", "--tls-cert-file and --tls-private-key-file must be specified together"))
        for name in self.cipher_suites:
            if name not in _CIPHER_SUITES and name not in _FIXED_IN_TLS_13:
                found.append(Fault("", f"--tls-cipher-suites: Cipher suite {name} not supported or doesn't exist"))
        return found


class ServingCertificate:
    """``context`` is the SSL context for new connections; call ``refresh`` and ``renew`` periodically."""

    def __init__(self, settings: TlsSettings, hostname: str, today: datetime.datetime | None = None) -> None:
        """Raises ConfigurationError if a file can't be used."""
        faults = settings.faults()
        if faults:
            raise ConfigurationError(faults)
        self._settings = settings
        self._hostname = hostname
        self._cluster_authority = ""
        self._ends = datetime.datetime.max.replace(tzinfo=datetime.UTC)
        """The expiry of a self-signed certificate."""
        self._today = today or datetime.datetime.now(datetime.UTC)
        self.context = self._new_context()
        self.fingerprint = ""
        """SHA-256 of the serving certificate, in hexadecimal digits."""
        self._fill()
        self._stamps = self._read_stamps()

    def renew(self, now: datetime.datetime) -> bool:
        """Renews a self-signed certificate before its expiry; returns whether it was due. Raises ConfigurationError."""
        if now < self._ends - datetime.timedelta(days=RENEWED_DAYS_BEFORE):
            return False
        self._today = now
        self._begin_again()
        return True

    def refresh(self) -> bool:
        """Loads changed files; returns whether there were any. Open connections are not affected.

        Raises ConfigurationError if the new files can't be used; the old certificate then stays in use, and the same
        files are not tried again.
        """
        stamps = self._read_stamps()
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        self._begin_again()
        return True

    def _begin_again(self) -> None:
        """Builds a new context, so that removed authorities are no longer trusted. Raises ConfigurationError if a file
        can't be used; the old context then stays."""
        old, fingerprint = self.context, self.fingerprint
        self.context = self._new_context()
        try:
            self._fill()
        except ConfigurationError:
            self.context, self.fingerprint = old, fingerprint
            raise

    def _fill(self) -> None:
        pair = self._pair()
        if pair is None:
            self._load_self_made()
        else:
            self._serve(*pair)
        if self._settings.client_authority_file:
            self._trust_clients_of(self._settings.client_authority_file)
        if self._cluster_authority:
            self.trust_clients(self._cluster_authority)

    @property
    def states_clients(self) -> bool:
        """Whether the settings contain a certificate authority for clients."""
        return bool(self._settings.client_authority_file)

    def trust_clients(self, authority: str) -> None:
        """Accepts client certificates of this authority (PEM). Raises ConfigurationError."""
        try:
            self.context.load_verify_locations(cadata=authority)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError([Fault("", f"client certificate authority can't be used: {error}")]) from error
        self.context.verify_mode = ssl.CERT_OPTIONAL

    def trust_cluster(self, authority: str) -> bool:
        """Sets the cluster's client authority (PEM; "" for none); returns whether it has changed.

        Raises ConfigurationError; the former one then stays trusted.
        """
        if authority == self._cluster_authority:
            return False
        former, self._cluster_authority = self._cluster_authority, authority
        try:
            self._begin_again()
        except ConfigurationError:
            self._cluster_authority = former
            raise
        return True

    def _trust_clients_of(self, path: str) -> None:
        try:
            text = Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigurationError([Fault("", f"--client-ca-file {path} can't be used: {reason}")]) from error
        self.trust_clients(text)

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = VERSIONS[self._settings.minimum_version]
        ciphers = [_CIPHER_SUITES[name] for name in self._settings.cipher_suites if name in _CIPHER_SUITES]
        if ciphers:
            context.set_ciphers(":".join(ciphers))
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _pair(self) -> tuple[str, str] | None:
        """The certificate's files; None: create it in memory. Creates the pair in a folder that lacks it."""
        settings = self._settings
        if settings.certificate_file:
            return settings.certificate_file, settings.key_file
        if not settings.certificate_folder:
            return None
        with ONE_AT_A_TIME:
            from scheduler.controller.serve.certificates import end_of, self_made_pair

        folder = Path(settings.certificate_folder)
        certificate, key = folder / f"{PAIR_NAME}.crt", folder / f"{PAIR_NAME}.key"
        is_there = certificate.exists() and key.exists()
        self._ends = end_of(certificate)
        if not is_there or self._today >= self._ends - datetime.timedelta(days=RENEWED_DAYS_BEFORE):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                _write_pair(certificate, key, *self_made_pair(self._hostname, self._today))
            except OSError as error:
                text = f"--cert-dir {folder} can't be written: {error.strerror or error}"
                raise ConfigurationError([Fault("", text)]) from error
            self._ends = end_of(certificate)
        return str(certificate), str(key)

    def _load_self_made(self) -> None:
        """Loads a self-signed pair by way of temporary files, since the library reads certificates only from files."""
        with ONE_AT_A_TIME:
            from scheduler.controller.serve.certificates import SELF_MADE_DAYS, self_made_pair

        try:
            with tempfile.TemporaryDirectory(prefix="tandem-") as folder:
                certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
                _write_pair(certificate, key, *self_made_pair(self._hostname, self._today))
                self._serve(str(certificate), str(key))
        except OSError as error:
            text = f"the self-signed certificate takes a temporary file: {error.strerror or error}"
            raise ConfigurationError([Fault("", f"{text}; name a folder by TMPDIR, or --tls-cert-file")]) from error
        self._ends = self._today + datetime.timedelta(days=SELF_MADE_DAYS)

    def _serve(self, certificate: str, key: str) -> None:
        with ONE_AT_A_TIME:
            from scheduler.controller.serve.certificates import fingerprint_of

        _load_pair(self.context, certificate, key)
        self.fingerprint = fingerprint_of(Path(certificate))

    def _read_stamps(self) -> tuple[object, ...]:
        settings = self._settings
        paths: Sequence[str] = (settings.certificate_file, settings.key_file, settings.client_authority_file)
        return tuple(file_stamp(path) for path in paths if path)


def file_stamp(path: str) -> tuple[int, int, int] | None:
    """A value that changes with the file, or with the target of a link on its path. None if there is no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _write_pair(certificate: Path, key: Path, certificate_text: bytes, key_text: bytes) -> None:
    certificate.write_bytes(certificate_text)
    descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key_text)


def _load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        text = f"--tls-cert-file {certificate} can't be used: {error.strerror or error}"
        raise ConfigurationError([Fault("", text)]) from error
