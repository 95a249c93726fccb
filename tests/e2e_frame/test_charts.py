"""The bench's charts: what is in them, and what is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from e2e.bench import charts

ROOT = Path(__file__).parents[2]


def result(scenario: str, contender: str, nodes: int = 5000, *, counts: bool = True, **fields: Any) -> dict[str, Any]:
    values = {"pods_per_second": 100.0, "cpu_per_pod": 1e-3, "whole_cpu_per_pod": 3e-3, "start": 1.5}
    return {"scenario": scenario, "contender": contender, "nodes": nodes, "counts": counts, **values, **fields}


def document(*results: dict[str, Any]) -> dict[str, Any]:
    return {"date": "2026-11-22", "machine": {"cpus": 2, "cpu": "Xeon"}, "results": list(results)}


def texts(file: Path) -> list[str]:
    """What a reader sees."""
    return [text.strip() for text in ElementTree.parse(file).getroot().itertext() if text.strip()]


def test_each_scenario_has_a_bar_of_each_contender(tmp_path: Path) -> None:
    rows = [result(scenario, name) for scenario in ("plain", "spread") for name in ("null", "tandem", "kube-scheduler")]
    rows[1]["pods_per_second"] = 1234.5
    files = {file.stem: file for file in charts.write(document(*rows), tmp_path)}
    assert set(files) == {"throughput", "cpu", "whole-cpu", "start"}
    shown = texts(files["throughput"])
    assert {"plain", "spread", "tandem", "kube-scheduler", "null", "1234.5"} <= set(shown)
    assert "Pods a second (2026-11-22, 2 CPUs (Xeon))" in shown
    assert shown.index("tandem") < shown.index("kube-scheduler") < shown.index("null")


def test_a_run_that_does_not_count_is_not_drawn(tmp_path: Path) -> None:
    (file, *_) = charts.write(document(result("plain", "tandem"), result("other", "tandem", counts=False)), tmp_path)
    assert "other" not in texts(file)


def test_growth_is_drawn_of_what_was_run_at_several_sizes(tmp_path: Path) -> None:
    rows = [result("plain", "tandem", nodes, cpu_per_pod=nodes / 1e6) for nodes in (1000, 10_000)]
    files = {file.stem: file for file in charts.write(document(*rows, result("spread", "tandem")), tmp_path)}
    shown = texts(files["growth"])
    assert any("tandem, plain" in text for text in shown)
    assert not any("spread" in text for text in shown)
    assert "spread" in texts(files["cpu"])


def test_growth_of_the_capacity_bench_is_drawn_of_runs_that_bound_every_pod(tmp_path: Path) -> None:
    rows = [
        {"row": row, "contender": "tandem", "nodes": nodes, "pods": 9, "bound": bound, "cpu_per_pod": nodes / 1e6}
        for row, bound in (("plain", 9), ("mixed", 8))
        for nodes in (1000, 100_000)
    ]
    (file,) = charts.write_growth(document(*rows), tmp_path)
    shown = texts(file)
    assert any("tandem, plain" in text for text in shown)
    assert not any("mixed" in text for text in shown)


def test_the_same_results_make_the_same_files_without_script_or_host(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        charts.write(document(result("plain", "tandem")), tmp_path / folder)
    for file in (tmp_path / "one").iterdir():
        text = file.read_text()
        assert text == (tmp_path / "two" / file.name).read_text()
        assert "<script" not in text
        assert set(re.findall(r"https?://([^/\"]+)", text)) <= {"www.w3.org"}


@pytest.mark.parametrize("name", ["throughput", "cpu", "growth"])
def test_the_charts_of_the_documentation_are_there_and_are_read_by_browsers(name: str) -> None:
    file = ROOT / "docs" / "pictures" / "bench" / f"{name}.svg"
    assert ElementTree.parse(file).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert f"pictures/bench/{name}.svg" in (ROOT / "docs" / "performance.md").read_text()
