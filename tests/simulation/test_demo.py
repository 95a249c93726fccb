"""The demo without a terminal."""

import asyncio
import io
import os
import re
import signal
import sys
from pathlib import Path

import aiohttp
import pytest
from rich.console import Console

from scheduler.simulate.demo import DemoFailure, ShippedScheduler, run_demo
from tests.limits import WAIT_SECONDS


async def test_the_demo_shows_all_its_scenes_and_ends_well() -> None:
    file = io.StringIO()
    code = await run_demo(Console(file=file, width=200, force_terminal=False), serve=False, pause_seconds=0.0)
    output = file.getvalue()
    assert code == 0, output
    assert "15/15" in output
    assert "why default/ring: unschedulable, 3 of 4 pods found a node; 0/5 nodes are available" in output
    waiting, starting = output.index("Gang ring"), output.index("A node for the fourth joins")
    assert "ring-" not in output[waiting:starting].replace("default/ring", "")
    assert len(re.findall(r"ring-\d -> node-", output[starting : output.index("The gang is deleted")])) == 4
    assert output.count("-> node-ring") == 1
    assert "trainer -> node-gpu" in output
    assert "huge -> node-big" in output
    assert "3 Insufficient cpu" in output
    assert "preempted default/filler-" in output
    assert "request pair: gpu.example.com/node-gpus-" in output
    assert "2 taken (by default/render-" in output
    assert "What was bound where, and why" in output
    assert "Asked: what if node-big were drained?" in output
    assert re.search(r"pods would move.*; would end for good, since no controller makes them again: .*huge", output)


async def test_a_scheduler_that_does_not_get_ready_says_how_it_ended(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(DemoFailure) as caught:
        async with ShippedScheduler(absent, tmp_path / "log"):
            pass
    assert "the scheduler has ended with code 1:" in str(caught.value)
    assert str(absent) in str(caught.value)


async def test_a_served_demo_that_is_terminated_leaves_no_scheduler_and_no_folder(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", "demo", "--serve"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    output = ""
    try:
        async with asyncio.timeout(2 * WAIT_SECONDS):
            while "tandem why huge" not in output:
                line = await process.stdout.readline()
                assert line, output
                output += line.decode()
            (port,) = set(re.findall(r"http://127\.0\.0\.1:(\d+)", output))
            assert f"The page: http://127.0.0.1:{port}/ui/" in output
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/ui/") as answer:
                assert "<title>Tandem</title>" in await answer.text()
            assert os.listdir(tmp_path)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert os.listdir(tmp_path) == []
    try:
        await asyncio.open_connection("127.0.0.1", int(port))
    except ConnectionRefusedError:
        return
    raise AssertionError("the scheduler still listens")
