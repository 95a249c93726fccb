"""``python -m tests.conformance PATH...``: run vector files or folders; a line a family, differences in full."""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.conformance import queue_scenario
from tests.conformance.comparison import differences
from tests.conformance.scenario import run

SHOWN = 5
QUEUE_FAMILY = "queue"


def files(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        found.extend(sorted(path.glob("*.jsonl*")) if path.is_dir() else [path])
    return found


def scenarios(path: Path) -> Iterator[dict[str, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as lines:
        for line in lines:
            if line.strip():
                yield msgspec.json.decode(line)


def check(scenario: dict[str, Any]) -> list[str]:
    """What differs; an exception is a difference."""
    try:
        if scenario["family"] == QUEUE_FAMILY:
            return queue_scenario.run(scenario)
        return differences(scenario["expect"], run(scenario))
    except Exception as error:  # noqa: BLE001 - a crash is one scenario's difference, the others go on
        return [f"raised {type(error).__name__}: {error}"]


def main(arguments: list[str]) -> int:
    """The exit code: 0 where all are as expected, and there is at least one. Raises SystemExit for a missing file."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description="Run vector files.")
    parser.add_argument("path", nargs="+", type=Path, help="a file of vectors, or a folder of them")
    paths: list[Path] = parser.parse_args(arguments).path
    for path in paths:
        if not path.exists():
            parser.error(f"there is no {path}")
    passed: dict[str, int] = {}
    failed: dict[str, list[tuple[str, list[str]]]] = {}
    started = time.perf_counter()
    for path in files(paths):
        for scenario in scenarios(path):
            family = scenario["family"]
            passed.setdefault(family, 0)
            lines = check(scenario)
            if lines:
                failed.setdefault(family, []).append((scenario["id"], lines))
            else:
                passed[family] += 1
    for family in sorted(passed):
        count = len(failed.get(family, ()))
        print(f"{family:20} {passed[family]:5} passed {count:5} failed")
    shown = [entry for entries in failed.values() for entry in entries][:SHOWN]
    for identity, lines in shown:
        print(f"\n{identity}")
        for line in lines:
            print(f"  {line}")
    total = sum(map(len, failed.values()))
    print(f"\nin {time.perf_counter() - started:.1f} s")
    print(f"{sum(passed.values())} passed, {total} failed")
    return 1 if total or not sum(passed.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
