"""``python -m tests.benchmarks``: what one step costs. Measurements, not checks: times depend on the machine."""

from __future__ import annotations

import sys

from tests.benchmarks import cycle

BENCHMARKS = {
    "cycle, plain pods, 5,000 nodes": cycle.plain,
    "cycle, spread and affinity, 5,000 nodes, 10,000 pods": cycle.spread_and_affinity,
}


def main(wanted: list[str]) -> None:
    for name, benchmark in BENCHMARKS.items():
        if wanted and not any(word in name for word in wanted):
            continue
        for label, microseconds in benchmark().items():
            print(f"{name}: {label}: {microseconds:,.0f} µs")


if __name__ == "__main__":
    main(sys.argv[1:])
