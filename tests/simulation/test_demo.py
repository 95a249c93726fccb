"""The demo, as it runs where nobody watches."""

import io

from rich.console import Console

from scheduler.simulate.demo import run_demo


async def test_the_demo_shows_all_its_scenes_and_ends_well() -> None:
    file = io.StringIO()
    code = await run_demo(Console(file=file, width=200, force_terminal=False), serve=False, pause_seconds=0.0)
    told = file.getvalue()
    assert code == 0, told
    assert "10/10" in told
    assert "trainer -> node-gpu" in told
    assert "huge -> node-big" in told
    assert "3 Insufficient cpu" in told
    assert "pushed out default/filler-" in told
    assert "What was bound where, and why" in told
