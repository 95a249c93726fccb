"""A scheduler whose API server turns it away, as a process: one clear line, and it ends when it is asked to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

import pytest
import yaml

import scheduler
from scheduler.simulate.cluster import EmbeddedCluster
from tests.limits import WAIT_SECONDS


async def _log_until(kubeconfig: Path, sign: str) -> tuple[list[str], int]:
    """The log's lines until one has the sign, and those after SIGTERM; the exit code."""
    command = [sys.executable, "-m", "scheduler", "run", f"--kubeconfig={kubeconfig}", "--leader-elect=false"]
    command += ["--serving-http", "--bind-address=127.0.0.1", "--secure-port=0", "--logging-format=text"]
    root = str(Path(scheduler.__file__).parent.parent)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while not any(sign in line for line in lines):
                line = await process.stdout.readline()
                assert line, "".join(lines)
                lines.append(line.decode())
            process.send_signal(signal.SIGTERM)
            lines += (await process.stdout.read()).decode().splitlines(keepends=True)
            return lines, await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _check(lines: list[str], sign: str) -> None:
    text = "".join(lines)
    assert "Traceback" not in text and "object at 0x" not in text, text
    assert sum(sign in line for line in lines) == 1, text
    assert max(map(len, lines)) < 400, text


async def test_a_wrong_token_is_one_clear_line(tmp_path: Path) -> None:
    async with EmbeddedCluster(token="right") as cluster:
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
        document = yaml.safe_load(kubeconfig.read_text())
        document["users"][0]["user"]["token"] = "wrong"
        kubeconfig.write_text(yaml.safe_dump(document))
        lines, code = await _log_until(kubeconfig, "status=401")
    _check(lines, "status=401")
    assert code == 0, "".join(lines)


@pytest.mark.parametrize("resource", ["/pods"])
async def test_a_right_that_is_missing_is_one_clear_line(tmp_path: Path, resource: str) -> None:
    async with EmbeddedCluster() as cluster:
        cluster.faults.fail("GET", resource, 403, times=1_000_000, reason="Forbidden", message="pods is forbidden")
        lines, code = await _log_until(cluster.kubeconfig(tmp_path / "kubeconfig"), "pods is forbidden")
    _check(lines, "pods is forbidden")
    assert code == 0, "".join(lines)


OBSERVED_SECONDS = 13.0
"""Longer than until the scheduler says which lists it waits for."""
START_SECONDS = 3 * WAIT_SECONDS
"""Three processes start at once."""


async def _observed(kubeconfig: Path, *flags: str) -> tuple[list[str], list[str], int]:
    """The log's lines of some seconds, those after SIGTERM, and the exit code. With the election, as in production."""
    command = [sys.executable, "-m", "scheduler", "run", f"--kubeconfig={kubeconfig}", *flags]
    command += ["--secure-port=0", "--logging-format=text"]
    environment = {**os.environ, "PYTHONPATH": str(Path(scheduler.__file__).parent.parent)}
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=environment
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        async with asyncio.timeout(START_SECONDS):
            while "Attempting to acquire" not in "".join(lines):
                lines.append((await process.stdout.readline()).decode())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OBSERVED_SECONDS):
                while line := await process.stdout.readline():
                    lines.append(line.decode())
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(START_SECONDS):
            rest = (await process.stdout.read()).decode().splitlines()
            return lines, rest, await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_no_server_a_wrong_token_and_no_rights_are_one_line_each_and_nothing_after_the_end(
    tmp_path: Path,
) -> None:
    async with EmbeddedCluster(token="right") as strict, EmbeddedCluster() as mean:
        wrong, closed = (strict.kubeconfig(tmp_path / name) for name in ("wrong", "closed"))
        document = yaml.safe_load(wrong.read_text())
        document["users"][0]["user"]["token"] = "wrong"
        wrong.write_text(yaml.safe_dump(document))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            document["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{taken.getsockname()[1]}"
        closed.write_text(yaml.safe_dump(document))
        for method in ("GET", "POST"):
            mean.faults.fail(method, "/", 403, times=1_000_000, reason="Forbidden", message="it is forbidden")
        forbidden = mean.kubeconfig(tmp_path / "forbidden")
        signs = {closed: "Connect call failed", wrong: "Unauthorized", forbidden: "it is forbidden"}
        found = await asyncio.gather(*map(_observed, signs))
    for sign, (lines, rest, code) in zip(signs.values(), found, strict=True):
        troubles = [line for line in lines if "[info" not in line]
        assert len(troubles) == 1, "".join(lines)
        assert sign in troubles[0]
        assert len(troubles[0]) < 400
        assert "object at 0x" not in "".join(lines)
        assert all("[info" in line for line in rest), rest
        assert code == 0
