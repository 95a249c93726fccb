"""An exec plugin of a kubeconfig, run with a limit: kubernetes_asyncio's own run of it has none, and at the start and
after a 401 every request waits for its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import Final, cast

from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.dateutil import parse_rfc3339
from kubernetes_asyncio.config.exec_provider import ExecProvider
from kubernetes_asyncio.config.kube_config import KubeConfigLoader

LIMIT_SECONDS: Final = 60.0
LOGIN_SECONDS: Final = 600.0
"""Seconds that a plugin may take with a terminal, where it may ask a person to log in."""

MAX_BYTES: Final = 1 << 20
"""Bytes that a plugin may print; certificates and tokens have a few thousand."""
MAX_SHOWN_BYTES: Final = 4096
"""Bytes of a failed plugin's standard error that are shown in the error about it."""

_END_SECONDS: Final = 1.0
"""Seconds to wait for the end of a plugin that is killed."""


def default_limit() -> float:
    """Seconds that a plugin may take."""
    return LOGIN_SECONDS if _has_terminal() else LIMIT_SECONDS


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


class LimitedLoader(KubeConfigLoader):
    """The library's reader, whose exec plugin has ``limit`` seconds."""

    limit: float
    certificate: bytes = b""
    """The certificate of the exec plugin, and its key, in PEM: the library would keep each version in a file of its
    own, and that open, until the process ends."""
    key: bytes = b""
    cert_file: str | None
    key_file: str | None

    async def load_from_exec_plugin(self) -> bool:
        """Raises ConfigException."""
        assert self._user is not None
        status = await _Plugin(self._user["exec"]).credential(self.limit)
        token, certificate, key = (status.get(each) for each in ("token", "clientCertificateData", "clientKeyData"))
        if token:
            self.token = f"Bearer {token}"
        elif not (certificate and key):
            raise ConfigException("exec: the plugin gave neither a token nor a certificate with its key")
        if certificate and key:
            self.certificate, self.key = str(certificate).encode(), str(key).encode()
            # Stated, so that those of the kubeconfig's user are not taken.
            self.cert_file = self.key_file = None
        if status.get("expirationTimestamp"):
            self.exec_plugin_expiry = parse_rfc3339(str(status["expirationTimestamp"]))
        return True


class _Plugin(ExecProvider):
    """The plugin's command with its arguments and environment."""

    async def credential(self, limit: float) -> dict[str, object]:
        """The ``status`` of what the plugin answers. Raises ConfigException."""
        name = self.args[0]
        asked = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": {"interactive": _has_terminal()}}
        try:
            run = await _start(self.args, {**self.env, "KUBERNETES_EXEC_INFO": json.dumps(asked)})
        except OSError as error:
            raise ConfigException(f"exec: {name} can't be run: {error.strerror}") from error
        try:
            async with asyncio.timeout(limit):
                await run.ended.wait()
        except TimeoutError as error:
            text = f"exec: {name} has given no credentials within {limit:g} seconds, and was stopped"
            raise ConfigException(text) from error
        finally:
            await run.end()
        if (code := run.transport.get_returncode()) != 0:
            said = run.errors[:MAX_SHOWN_BYTES].decode(errors="replace").strip()
            raise ConfigException(f"exec: process returned {code}" + (f". {said}" if said else ""))
        return self._status_of(bytes(run.output))

    def _status_of(self, output: bytes) -> dict[str, object]:
        if len(output) > MAX_BYTES:
            raise ConfigException(f"exec: the answer has more than {MAX_BYTES} bytes")
        try:
            answer = json.loads(output)
        except ValueError as error:
            raise ConfigException(f"exec: failed to decode process output: {error}") from error
        for key in ("apiVersion", "kind", "status"):
            if not isinstance(answer, dict) or key not in answer:
                raise ConfigException(f"exec: malformed response. missing key '{key}'")
        if answer["apiVersion"] != self.api_version:
            raise ConfigException(f"exec: plugin api version {answer['apiVersion']} does not match {self.api_version}")
        status = answer["status"]
        if not isinstance(status, dict):
            raise ConfigException("exec: malformed response. status is no object")
        return status


class _Run(asyncio.SubprocessProtocol):
    """A process and what it prints: of each stream no more is kept than shows that it is too long."""

    transport: asyncio.SubprocessTransport

    def __init__(self) -> None:
        self.output, self.errors = bytearray(), bytearray()
        self.ended = asyncio.Event()
        """The process has ended, and so have all children of its own that held its output open."""
        self._exited = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's.
        self.transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self.output if fd == 1 else self.errors
        kept += data[: MAX_BYTES + 1 - len(kept)]

    def process_exited(self) -> None:
        self._exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    async def end(self) -> None:
        """Kill the process if it still runs, and close its output. Children of its own are not waited for."""
        if not self._exited.is_set():
            with contextlib.suppress(ProcessLookupError):
                # transport.kill() would first ask for the exit status, and so take it from the loop's own wait for it;
                # and so would close() before that wait is over.
                os.kill(self.transport.get_pid(), signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._exited.wait(), _END_SECONDS)
        self.transport.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ended.wait(), _END_SECONDS)


async def _start(arguments: list[str], environment: dict[str, str]) -> _Run:
    """A process that reads this one's standard input. Raises OSError.

    The start itself waits for nothing and is not cancelled: asyncio would then wait, without a limit, until all
    processes that hold the output have ended.
    """
    loop = asyncio.get_running_loop()
    starting = asyncio.ensure_future(loop.subprocess_exec(_Run, *arguments, env=environment, stdin=None))
    try:
        _transport, run = await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            _transport, run = await starting
            await run.end()
        raise
    return run
