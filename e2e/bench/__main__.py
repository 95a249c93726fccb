"""``python -m e2e.bench``: Tandem, kube-scheduler and the null scheduler through the same scenarios, side by side.

Each run has a fresh control plane, the same objects and the same driver. What a scheduler can do is measured on pods
that all wait already when it starts, from its first binding on: creating a pod costs the API server as much as binding
it, and on one machine that would be measured, too. Where pods are created meanwhile, the scenario says so.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import msgspec
import uvloop

from e2e.bench import charts, pairs, report
from e2e.bench.contenders import BY_DEFAULT, CONTENDERS, contender, unknown
from e2e.bench.driver import Drive, prepare
from e2e.bench.measurement import Result, Spent, failed, measure, middle
from e2e.bench.metering import Meter
from e2e.bench.provisioning import Provisioning
from e2e.bench.scenarios import SCENARIOS, Scenario
from e2e.client import AsyncClient
from e2e.connection import from_kubeconfig
from e2e.controlplane.build import BuildError
from e2e.controlplane.cluster import ControlPlane
from e2e.controlplane.processes import ProcessFailure

_VOLUME_CONTROLLERS = ("persistentvolume-binder-controller",)
_CLAIM_CONTROLLERS = ("resourceclaim-controller",)


def main() -> int:
    options = _options()
    rounds: list[Result] = []
    results: list[Result] = []
    for name in options.scenario:
        scenario = SCENARIOS[name]
        if options.meanwhile:
            scenario = replace(scenario, meanwhile=True)
        if options.seconds:
            scenario = replace(scenario, seconds=options.seconds)
        for nodes in options.nodes or [scenario.nodes]:
            made = _rounds(scenario, nodes, options.pods or scenario.pods, options)
            rounds += [result for several in made for result in several]
            results += [middle(several) for several in made]
            # After each, so that a run that is broken off leaves what it has.
            _write(results, rounds, options)
    report.show(results)
    for line in pairs.lines((result.scenario, result) for result in rounds):
        print(line)
    return 0 if all(result.counts for result in results) else 1


def _rounds(scenario: Scenario, nodes: int, pods: int, options: argparse.Namespace) -> list[list[Result]]:
    """The rounds of each contender. They take turns, so that a machine that grows slower does so for all of them."""
    made: dict[str, list[Result]] = {name: [] for name in options.contenders}
    for _ in range(options.rounds):
        for name in options.contenders:
            result = _run(scenario, name, nodes, pods)
            made[name].append(result)
            print(" ".join(report.row(result)), file=sys.stderr, flush=True)
    return list(made.values())


def _write(results: Sequence[Result], rounds: Sequence[Result], options: argparse.Namespace) -> None:
    for file in options.out:
        text = report.as_json(results, rounds) if file.suffix == ".json" else report.markdown(results)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    if options.charts is not None:
        charts.write(msgspec.json.decode(report.as_json(results, rounds)), options.charts)


def _run(scenario: Scenario, name: str, nodes: int, pods: int) -> Result:
    try:
        with (
            tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder,
            ControlPlane(
                kwok=False,
                controllers=_controllers(scenario),
                features=scenario.features,
                apis=scenario.apis,
            ) as controlplane,
        ):
            kubeconfig = controlplane.kubeconfig()
            gates = ",".join(f"{name}=true" for name in scenario.features)
            options = [f"--feature-gates={gates}"] if gates else []
            scheduler = contender(name, kubeconfig, Path(folder), controlplane.programs, options)
            result = uvloop.run(_measure(scenario, Meter(scheduler, controlplane), nodes, pods, kubeconfig))
            return replace(result, contender=name)
    except ProcessFailure as error:
        print(error, file=sys.stderr)
        return failed(scenario.name, name, nodes, pods, str(error).splitlines()[0])


def _controllers(scenario: Scenario) -> tuple[str, ...]:
    return (*_VOLUME_CONTROLLERS * scenario.binds_volumes, *_CLAIM_CONTROLLERS * scenario.makes_claims)


async def _measure(scenario: Scenario, meter: Meter, nodes: int, pods: int, kubeconfig: Path) -> Result:
    async with AsyncClient(from_kubeconfig(kubeconfig)) as client:
        await prepare(client, scenario, nodes, pods)
        async with (
            Provisioning(client) if scenario.binds_volumes else nullcontext(),
            Drive(client, scenario, nodes, pods) as drive,
        ):
            run = _created_meanwhile if scenario.meanwhile else _all_waiting
            spent = await run(drive, meter)
    times = drive.times
    return measure(
        scenario=scenario.name,
        contender=meter.scheduler.kind,
        nodes=nodes,
        names=times.names,
        began=times.began,
        created=times.created,
        bound=times.bound,
        reported=times.reported,
        spent=spent,
        ended=drive.ended,
        victims=len(times.removed),
    )


async def _all_waiting(drive: Drive, meter: Meter) -> Spent:
    """Every pod is there before the scheduler starts. What is spent from the first binding on."""
    await drive.create()
    await drive.claims_made()
    started = time.monotonic()
    meter.scheduler.start()
    try:
        await drive.first_binding()
        meter.begin()
        await drive.end()
        return replace(await meter.end(), start=drive.times.began - started, start_cpu=meter.cpu_before)
    finally:
        meter.scheduler.stop()


async def _created_meanwhile(drive: Drive, meter: Meter) -> Spent:
    """The scheduler is ready before the first pod is there. What is spent from then on."""
    with meter.scheduler:
        # Start-up is not what is measured.
        await asyncio.to_thread(meter.scheduler.wait_at_rest)
        meter.begin()
        await drive.create()
        await drive.end()
        return await meter.end()


def _options() -> argparse.Namespace:
    listing = "\n".join(f"  {scenario.name:24} {scenario.about}" for scenario in SCENARIOS.values())
    parser = argparse.ArgumentParser(
        "python -m e2e.bench",
        description=f"{__doc__}\nscenarios:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--scenario", nargs="+", default=["plain"], choices=[*SCENARIOS, "all"], metavar="NAME")
    parser.add_argument(
        "--contenders", default=",".join(BY_DEFAULT), help="comma-separated (default: %(default)s), or tandem@CHECKOUT"
    )
    parser.add_argument(
        "--nodes", type=int, nargs="+", help="instead of the scenario's own number; with several: growth"
    )
    parser.add_argument("--pods", type=int, help="instead of the scenario's own number")
    parser.add_argument(
        "--meanwhile", action="store_true", help="create the pods while the scheduler works, in every scenario"
    )
    parser.add_argument(
        "--seconds", type=float, help="the limit of a run, instead of the scenario's own; a longer one is cut off"
    )
    parser.add_argument("--rounds", type=int, default=1, help="the median round is reported (default: 1)")
    parser.add_argument("--out", type=Path, action="append", default=[], help="FILE.json or FILE.md; may be repeated")
    parser.add_argument("--charts", type=Path, metavar="FOLDER", help="write SVG charts into this folder")
    options = parser.parse_args()
    if "all" in options.scenario:
        options.scenario = list(SCENARIOS)
    options.contenders = options.contenders.split(",")
    if strangers := unknown(options.contenders):
        parser.error(f"no contender is called {', '.join(strangers)}; there are {', '.join(CONTENDERS)}")
    return options


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BuildError as error:
        sys.exit(f"error: {error}")
