"""The watched configuration file: what changes it, and what becomes of one that is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.controller.conftest import until
from tests.controller.test_reload import Target, reloading


@pytest.mark.parametrize(("text", "expected"), [("good 0", {"applied": 0.0}), ("good 1", {"applied": 1.0})])
async def test_a_file_that_changed_between_the_start_and_its_watch_is_taken(
    tmp_path: Path, text: str, expected: dict[str, float]
) -> None:
    target = Target()
    file = tmp_path / "config.yaml"
    file.write_text(text)
    async with reloading(target) as reloader:
        watching = asyncio.create_task(reloader.watch(str(file), seconds=0.005))
        await until(lambda: target.counts()["applied"] == expected["applied"])
        file.write_text("good two")
        await until(lambda: target.in_force == "good two")
        watching.cancel()
    applied = expected["applied"] + 1.0
    assert target.counts() == {"applied": applied, "rejected": 0.0, "unchanged": 0.0}


async def test_a_deleted_file_is_a_warning_once_and_changes_nothing(
    tmp_path: Path, log_lines: list[dict[str, Any]]
) -> None:
    target = Target()
    file = tmp_path / "config.yaml"
    file.write_text("good 0")
    async with reloading(target) as reloader:
        watching = asyncio.create_task(reloader.watch(str(file), seconds=0.01))
        await asyncio.sleep(0)
        file.unlink()
        await until(lambda: bool(target.events))
        file.write_text("good 2")
        await until(lambda: target.in_force == "good 2")
        watching.cancel()
    gone = [event for event in target.events if event[1] == "ConfigurationGone"]
    assert gone == [("Warning", "ConfigurationGone", f"{file} is gone, the configuration stays as it is")]
    assert len([line for line in log_lines if "is gone" in line["event"]]) == 1
