"""Renders the bench's results as a table, as markdown (for docs/performance.md) and as JSON."""

from __future__ import annotations

import datetime
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from e2e.bench.measurement import Pause, Result, least_ratios, ratios
from e2e.controlplane.versions import ETCD, KUBERNETES

COLUMNS = (
    *("scenario", "contender", "nodes", "pods", "start s", "start CPU s", "seconds", "pods/s"),
    *(
        "p50 ms",
        "p99 ms",
        "CPU µs/pod",
        "whole CPU µs/pod",
        "of it API server",
        "etcd",
        "longest pause ms (CPU)",
        "RSS MiB",
        "victims",
        "counts",
    ),
)


def row(result: Result) -> tuple[str, ...]:
    """One result as text, in the order of `COLUMNS`."""
    return (
        result.scenario,
        result.contender,
        str(result.nodes),
        f"{result.bound}/{result.pods}" if result.bound < result.pods else str(result.pods),
        *("–" if seconds is None else f"{seconds:.1f}" for seconds in (result.start, result.start_cpu)),
        *_times(result),
        *_costs(result),
        shown_pause(result.pause),
        f"{result.peak_rss / 2**20:.0f}",
        str(result.victims),
        "yes" if result.counts else "no: " + "; ".join(result.faults),
    )


def _times(result: Result) -> tuple[str, str, str, str]:
    """Seconds, pods a second and the waits; of a run that was cut off bounds of the first two, and no waits, since
    the longest are not known."""
    if result.cut_off is not None:
        most = result.pods / result.cut_off if result.cut_off > 0 else 0.0
        return f"> {result.cut_off:.0f}", f"< {most:.1f}", "–", "–"
    return (
        f"{result.seconds:.1f}",
        f"{result.pods_per_second:.0f}",
        f"{result.p50 * 1e3:.1f}",
        f"{result.p99 * 1e3:.1f}",
    )


def _costs(result: Result) -> tuple[str, str, str, str]:
    """CPU time a bound pod: nothing to say of a run that has bound none."""
    costs = (result.cpu_per_pod, result.whole_cpu_per_pod, result.apiserver_cpu_per_pod, result.etcd_cpu_per_pod)
    first, second, third, last = [f"{cost * 1e6:.0f}" if result.bound else "–" for cost in costs]
    return first, second, third, last


def shown_pause(pause: Pause | None) -> str:
    """The longest step while the clock ran in ms, or that all were shorter than one before, and in brackets the most
    CPU of a step since the start; "–" where it is unknown."""
    if pause is None:
        return "–"
    cpu = "" if pause.cpu_seconds is None else f" ({pause.cpu_seconds * 1e3:.0f})"
    return f"{'< ' * pause.is_from_before}{pause.seconds * 1e3:.0f}{cpu}"


def show(results: Sequence[Result]) -> None:
    table = Table(*COLUMNS)
    for result in results:
        table.add_row(*row(result))
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table)
    for scenario, better in ratios(results).items():
        parts = ", ".join(f"{name} {times:g}x" for name, times in better.items())
        console.print(f"{scenario}: Tandem against kube-scheduler: {parts}")
    for scenario, least in least_ratios(results).items():
        console.print(f"{scenario}: Tandem is at least {least:g} times quicker: kube-scheduler's run was cut off")


def markdown(results: Sequence[Result]) -> str:
    """A markdown table with a row a result, under a line that says where and when."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(row(result)) + " |" for result in results]
    about = circumstances()
    origin = f"{about['date']}, {about['machine']['cpus']} CPUs ({about['machine']['cpu']}), Kubernetes {KUBERNETES}"
    return f"{origin}, `{about['command']}`\n\n" + "\n".join(lines) + "\n"


def as_json(results: Sequence[Result], rounds: Sequence[Result]) -> str:
    """Everything: circumstances, the chosen result of each pair, every round, the ratios."""
    content = {
        **circumstances(),
        "results": [result.as_json() for result in results],
        "rounds": [result.as_json() for result in rounds],
        "ratios": ratios(results),
        "ratios_at_least": least_ratios(results),
    }
    return msgspec.json.format(msgspec.json.encode(content).decode(), indent=1) + "\n"


def circumstances() -> dict[str, Any]:
    """The circumstances of a run: date, machine, versions and command."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": " ".join(["python -m e2e.bench", *sys.argv[1:]]),
        "machine": {
            "cpu": _cpu_model(),
            "cpus": os.cpu_count(),
            "memory_gib": round(memory / 2**30, 1),
            "kernel": platform.release(),
        },
        "versions": {"kubernetes": KUBERNETES, "etcd": ETCD, "python": platform.python_version()},
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
