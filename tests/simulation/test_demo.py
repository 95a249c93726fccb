"""The demo without a terminal."""

import io

from rich.console import Console

from scheduler.simulate.demo import run_demo


async def test_the_demo_shows_all_its_scenes_and_ends_well() -> None:
    file = io.StringIO()
    code = await run_demo(Console(file=file, width=200, force_terminal=False), serve=False, pause_seconds=0.0)
    output = file.getvalue()
    assert code == 0, output
    assert "12/12" in output
    assert "trainer -> node-gpu" in output
    assert "huge -> node-big" in output
    assert "3 Insufficient cpu" in output
    assert "pushed out default/filler-" in output
    assert "request pair: gpu.example.com/node-gpus-" in output
    assert "2 taken (by default/render-" in output
    assert "What was bound where, and why" in output
