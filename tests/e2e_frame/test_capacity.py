"""The capacity bench: its stub API server, driven by the null scheduler."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from e2e.bench import capacity
from e2e.controlplane import build
from e2e.controlplane.processes import ProcessFailure


@pytest.fixture
def stub() -> None:
    try:
        build.program_of(capacity.STUB)
    except build.BuildError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("stub")
def test_the_stub_counts_each_binding_and_each_event_once() -> None:
    result = capacity.run("plain", "null", nodes=3, pods=40)
    assert (result.bound, result.reported, result.conflicts, result.fault) == (40, 40, 0, "")
    assert result.requests >= 80
    assert result.cpu_per_pod >= 0.0
    assert 0.0 < result.start_seconds < 60.0
    assert result.start_cpu > 0.0
    assert capacity.cells(result)[:4] == ("plain", "null", "3", "40")


@pytest.mark.usefixtures("stub")
def test_a_run_whose_scheduler_dies_at_its_start_ends_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "scheduler" / "__main__.py").write_text("raise SystemExit('it does not start')\n")
    (tmp_path / "scheduler" / "__init__.py").touch()
    began = time.monotonic()
    with pytest.raises(ProcessFailure, match="it does not start"):
        capacity.run("plain", f"tandem@{tmp_path}", nodes=3, pods=40)
    assert time.monotonic() - began < capacity.RUN_SECONDS / 3


def test_a_run_in_which_an_event_is_missing_does_not_count() -> None:
    result = capacity.Capacity(
        row="plain",
        contender="null",
        nodes=3,
        pods=40,
        bound=40,
        reported=39,
        conflicts=0,
        bound_per_second=1.0,
        reported_per_second=1.0,
        cpu_per_pod=1e-3,
        stub_cpu_per_pod=1e-3,
        connections=1,
        requests=79,
        peak_rss=1,
    )
    assert result.fault == "40 bound and 39 reported of 40"
    assert capacity.cells(result)[-1].startswith("no: ")
