"""An exec plugin of a kubeconfig, run with a limit: kubernetes_asyncio's own run of it has none, and at the start and
after a 401 every request waits for its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import Final

from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.dateutil import parse_rfc3339
from kubernetes_asyncio.config.exec_provider import ExecProvider
from kubernetes_asyncio.config.kube_config import KubeConfigLoader

LIMIT_SECONDS: Final = 60.0
LOGIN_SECONDS: Final = 600.0
"""The limit with a terminal, where a plugin may ask a person to log in."""

MAX_BYTES: Final = 1 << 20
"""Of what a plugin prints; certificates and tokens have a few thousand."""
MAX_SHOWN_BYTES: Final = 4096
"""Of a failed plugin's standard error, in the error about it."""

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
    """Of the exec plugin, and its key, in PEM: the library would keep each version in a file of its own, and that open,
    until the process ends."""
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
        process = await _started(self.args, {**self.env, "KUBERNETES_EXEC_INFO": json.dumps(asked)})
        try:
            async with asyncio.timeout(limit):
                output, errors = await _printed(process)
                await process.wait()
        except TimeoutError as error:
            text = f"exec: {name} has given no credentials within {limit:g} seconds, and was stopped"
            raise ConfigException(text) from error
        finally:
            await _end(process)
        if process.returncode != 0:
            said = errors[:MAX_SHOWN_BYTES].decode(errors="replace").strip()
            raise ConfigException(f"exec: process returned {process.returncode}" + (f". {said}" if said else ""))
        return self._status_of(output)

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


async def _started(arguments: list[str], environment: dict[str, str]) -> asyncio.subprocess.Process:
    """The process, with pipes for what it prints. Raises OSError.

    The start itself waits for nothing and is not cancelled: asyncio would then wait, without a limit, until all
    processes that hold the output have ended.
    """
    pipe = asyncio.subprocess.PIPE
    start = asyncio.create_subprocess_exec(*arguments, env=environment, stdout=pipe, stderr=pipe)
    starting = asyncio.ensure_future(start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            await _end(await starting)
        raise


async def _printed(process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """Standard output and standard error, to their ends; of each no more is kept than shows that it is too long."""
    assert process.stdout is not None and process.stderr is not None
    output, errors = await asyncio.gather(_first_bytes(process.stdout), _first_bytes(process.stderr))
    return output, errors


async def _first_bytes(stream: asyncio.StreamReader) -> bytes:
    kept = bytearray()
    while data := await stream.read(1 << 16):
        kept += data[: MAX_BYTES + 1 - len(kept)]
    return bytes(kept)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the process if it still runs. Children of its own may hold its output open: they are not waited for."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        # process.kill() would first ask for the exit status, and so take it from asyncio's own wait for it.
        os.kill(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _END_SECONDS)
