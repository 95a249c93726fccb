"""The demo without a terminal."""

import io
import re

from rich.console import Console

from scheduler.simulate.demo import run_demo


async def test_the_demo_shows_all_its_scenes_and_ends_well() -> None:
    file = io.StringIO()
    code = await run_demo(Console(file=file, width=200, force_terminal=False), serve=False, pause_seconds=0.0)
    output = file.getvalue()
    assert code == 0, output
    assert "13/13" in output
    assert "why default/ring: unschedulable, 3 of 4 pods found a node; 0/5 nodes are available" in output
    waiting, starting = output.index("Gang ring"), output.index("A node for the fourth joins")
    assert "ring-" not in output[waiting:starting].replace("default/ring", "")
    assert len(re.findall(r"ring-\d -> node-", output[starting : output.index("The gang is deleted")])) == 4
    assert output.count("-> node-ring") == 1
    assert "trainer -> node-gpu" in output
    assert "huge -> node-big" in output
    assert "3 Insufficient cpu" in output
    assert "pushed out default/filler-" in output
    assert "What was bound where, and why" in output
