"""``python -m tests.benchmarks``: what one step costs. Measurements, not checks: times depend on the machine."""

from __future__ import annotations

import argparse
import sys

from tests.benchmarks import (
    answers,
    cycle,
    device_steps,
    devices,
    events,
    evidence,
    forks,
    gang_steps,
    gangs,
    hostile,
    kinds,
    node_changes,
    pages,
    preemption,
    preemptors,
    questions,
    queue,
    recording,
    scale,
    start,
    sync,
)

BENCHMARKS = {
    "start, CPU time to that of importing numpy and aiohttp": (start.starts, "x"),
    "answers of a running scheduler, 5,000 nodes, 5,000 waiting pods, process start included": (answers.answers, "s"),
    "sync, 5,000 nodes, 150,000 pods": (sync.sync, ""),
    "queue, 10,000 waiting pods of 100 classes": (queue.waiting, ""),
    "cycle, plain pods, 5,000 nodes": (cycle.plain, "µs"),
    "cycle, spread and affinity, 5,000 nodes, 10,000 pods": (cycle.spread_and_affinity, "µs"),
    "scale, 10,000 nodes, 100,000 pods; more by python -m tests.benchmarks.scale": (scale.on_10_000_nodes, ""),
    "node changes, 5,000 nodes, 60 deployments": (node_changes.on_5_000_nodes, "µs"),
    "preemption, 5,000 nodes, 150,000 pods": (preemption.dry_runs, "ms"),
    "preemptors, 1,000 on 1,000 full nodes, three victims each": (preemptors.all_waiting, ""),
    "preemptors, 400 with a claim each on 400 full nodes, all waiting": (preemptors.each_unlike_the_others, ""),
    "preemptors, one after the other, 100 victims each": (preemptors.of_a_hundred_victims, ""),
    "events, 1,000 waiting pods": (events.handling, "µs"),
    "preempting gang of 100, 1,000 full nodes": (gangs.preempting_gang, ""),
    "requests unlike all others, 1,000 nodes": (kinds.on_1_000_nodes, "x"),
    "requests unlike all others, 5,000 nodes": (kinds.on_5_000_nodes, "x"),
    "requests unlike all others, none fits, 1,000 full nodes": (kinds.none_fits, "x"),
    "requests unlike all others, none fits, 1,000 full nodes whose pods have claims": (
        kinds.none_fits_beside_claims,
        "x",
    ),
    "forks, 5,000 nodes": (forks.forks, "µs"),
    "gangs, 500 pods, 1,000 nodes": (gang_steps.gangs, "ms"),
    "gangs, 500 pods, 100 placements of 10 nodes": (gang_steps.placements, ""),
    "gangs, 100 pods that preempt on 1,000 full nodes": (gangs.whole_nodes, ""),
    "questions, 5,000 nodes, 30,000 running and 5,000 waiting pods": (questions.questions, "ms"),
    "pages, 5,000 nodes, 10,000 running and 10,000 waiting pods, longest step": (pages.pages, "ms"),
    "recording, 5,000 nodes": (recording.pods, "µs a pod"),
    "checkpoint, 5,000 nodes": (recording.checkpoints, ""),
    "devices, the whole way of a pod, 5,000 nodes": (devices.claims, "µs"),
    "device search, its steps": (device_steps.steps, ""),
    "hostile objects, 5,000 nodes": (hostile.hostile, ""),
    "memory of attempts, 5,000 nodes, 10,000 pods of as many kinds that fit nowhere": (evidence.unschedulable_pods, ""),
}

_NAMES = "; ".join(BENCHMARKS)


def main(arguments: list[str]) -> None:
    """Run the named benchmarks. Raises SystemExit for an unknown name."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="What one step costs.")
    parser.add_argument("word", nargs="*", help=f"run those with one of these words in their names: {_NAMES}")
    wanted = parser.parse_args(arguments).word
    for word in wanted:
        if not any(word in name for name in BENCHMARKS):
            parser.error(f"no benchmark has {word!r} in its name: {_NAMES}")
    for name, (benchmark, unit) in BENCHMARKS.items():
        if wanted and not any(word in name for word in wanted):
            continue
        for label, value in benchmark().items():
            print(f"{name}: {label}: {value:,.2f} {unit}".rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])
