"""The bench's results as SVG charts: ``python -m e2e.bench.charts RESULTS.json FOLDER``, or ``--charts`` of the bench.

Throughput and CPU of all contenders by scenario, the start, and the growth with the number of nodes where a scenario
was run at several; of the capacity bench's results only that growth. The files hold no script and name no host, and the
same results make the same files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pygal
from pygal.style import Style

# pygal puts a finder for its maps, which are not used here, on the path of all imports; pytest's importer breaks on it.
sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("pygal")]

CONTENDERS: Final = ("tandem", "kube-scheduler", "null")
STYLE: Final = Style(
    background="white",
    plot_background="white",
    font_family="sans-serif",
    colors=("#1f6feb", "#d29922", "#8b949e", "#2da44e", "#cf222e", "#8250df"),
)

_LEFT_OUT: Final = re.compile(r"<!--.*?-->|<script.*?</script>", re.DOTALL)

Row = dict[str, Any]
Value = Callable[[Row], float | None]


def write(document: dict[str, Any], folder: Path) -> list[Path]:
    """Write the charts of the bench's JSON ``document``; those without data are left out. Returns the files."""
    rows = [row for row in document["results"] if row["counts"]]
    subtitle = _subtitle(document)
    largest = _of_most_nodes(rows)
    charts = {
        "throughput": _bars(f"Pods a second ({subtitle})", largest, lambda row: row["pods_per_second"]),
        "cpu": _bars(f"CPU of the scheduler, µs a pod ({subtitle})", largest, _micro("cpu_per_pod")),
        "whole-cpu": _bars(
            f"CPU of scheduler, API server and etcd, µs a pod ({subtitle})", largest, _micro("whole_cpu_per_pod")
        ),
        "start": _bars(f"Seconds from the start to the first binding ({subtitle})", largest, lambda row: row["start"]),
        "growth": _growth(f"CPU of the scheduler, µs a pod, by nodes ({subtitle})", rows),
    }
    return _files(charts, folder)


def write_growth(document: dict[str, Any], folder: Path) -> list[Path]:
    """Write the growth in the capacity bench's JSON ``document``, where rows were run at several sizes. Returns the
    files."""
    rows = [row | {"scenario": row["row"]} for row in document["results"] if row["bound"] == row["pods"]]
    title = f"CPU of the scheduler, µs a pod, by nodes, on a stub API server ({_subtitle(document)})"
    return _files({"capacity-growth": _growth(title, rows)}, folder)


def _subtitle(document: dict[str, Any]) -> str:
    return f"{document['date']}, {document['machine']['cpus']} CPUs ({document['machine']['cpu']})"


def _files(charts: Mapping[str, Any | None], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, chart in charts.items():
        if chart is not None:
            file = folder / f"{name}.svg"
            chart.uuid = name  # Chance otherwise.
            file.write_text(_LEFT_OUT.sub("", chart.render(is_unicode=True)))
            files.append(file)
    return files


def _micro(field: str) -> Value:
    return lambda row: float(row[field]) * 1e6


def _of_most_nodes(rows: Sequence[Row]) -> list[Row]:
    """Of each scenario and contender the run with the most nodes."""
    chosen: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: row["nodes"]):
        chosen[row["scenario"], row["contender"]] = row
    return list(chosen.values())


def _bars(title: str, rows: Sequence[Row], value: Value) -> Any | None:
    """A group of bars for each scenario, one bar a contender."""
    values = {(row["scenario"], row["contender"]): value(row) for row in rows}
    scenarios = list(dict.fromkeys(scenario for (scenario, _), found in values.items() if found is not None))
    if not scenarios:
        return None
    chart = pygal.HorizontalBar(title=title, height=120 + 60 * len(scenarios), **_options())
    chart.x_labels = scenarios
    for contender in _contenders(name for _, name in values):
        chart.add(contender, [_rounded(values.get((scenario, contender))) for scenario in scenarios])
    return chart


def _growth(title: str, rows: Sequence[Row]) -> Any | None:
    """A line for each scenario and contender that were run at several numbers of nodes."""
    points: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        points.setdefault((row["contender"], row["scenario"]), {})[row["nodes"]] = row["cpu_per_pod"] * 1e6
    lines = {key: found for key, found in points.items() if len(found) > 1}
    if not lines:
        return None
    chart = pygal.XY(title=title, height=480, logarithmic=True, x_title="nodes", **_options() | {"print_values": False})
    for (contender, scenario), found in sorted(lines.items()):
        chart.add(f"{contender}, {scenario}", [(nodes, round(cpu, 1)) for nodes, cpu in sorted(found.items())])
    return chart


def _contenders(names: Iterable[str]) -> list[str]:
    """Those that took part, in the usual order; others follow."""
    found = set(names)
    return [*(name for name in CONTENDERS if name in found), *sorted(found - set(CONTENDERS))]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _options() -> dict[str, Any]:
    """No script and no link; the same for all charts."""
    return {"js": (), "style": STYLE, "width": 900, "legend_at_bottom": True, "print_values": True, "no_prefix": True}


def main() -> int:
    if len(sys.argv) != 3:
        sys.exit("usage: python -m e2e.bench.charts RESULTS.json FOLDER")
    document = msgspec.json.decode(Path(sys.argv[1]).read_bytes())
    is_of_capacity = any("row" in result for result in document["results"])
    for file in (write_growth if is_of_capacity else write)(document, Path(sys.argv[2])):
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
