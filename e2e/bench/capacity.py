"""``python -m e2e.bench.capacity``: what a scheduler can do where the API server is not the limit.

The same scenarios as ``e2e.bench`` against a stub API server in Go (``apistub/``), which costs 0.3 to 0.5 ms a pod.
Times are the stub's: from the first binding to the last one, and to the last Scheduled event. CPU is the scheduler's
own from the first binding on; the start, from the process to its first binding, is stated by itself. kube-scheduler
speaks JSON here, as every other client does: the stub knows no protobuf, its default, and JSON costs it more.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from e2e import paths
from e2e.bench import charts, pairs, report
from e2e.bench.contenders import BY_DEFAULT, Null, of_checkout, unknown
from e2e.bench.measurement import Pause
from e2e.bench.metering import longest_step_of, pause_since
from e2e.bench.scenarios import SCENARIOS, Scenario
from e2e.builders import SCHEDULER, Object
from e2e.connection import Connection, from_kubeconfig
from e2e.controlplane import build
from e2e.controlplane.processes import Process, ProcessFailure
from e2e.peer import KubeScheduler
from e2e.subject import Scheduler
from e2e.tandem import Tandem

STUB = Path(__file__).with_name("apistub")
RUN_SECONDS = 180
NODES, PODS = 5000, 10_000

ROWS = {
    "plain": "plain",
    "spread": "zone-host-spread",
    "affinity": "zone-affinity",
    "anti-affinity": "host-anti-affinity",
    "mixed": "mix-300-deployments",
    "daemon-sets": "daemon-sets",
    "arrival": "arrival",
}
"""Row → the scenario of ``e2e.bench`` whose objects it has."""
ROWS_BY_DEFAULT = ("plain", "spread", "affinity", "mixed", "arrival")


@dataclass(frozen=True, slots=True)
class Capacity:
    """The result of one run. CPU in seconds a pod; ``connections`` and ``requests`` of scheduler and bench together.

    ``start_seconds`` and ``start_cpu``: from the start of the process to the first binding; 0.0 where the pods come
    later.
    """

    row: str
    contender: str
    nodes: int
    pods: int
    bound: int
    reported: int
    conflicts: int
    bound_per_second: float
    reported_per_second: float
    cpu_per_pod: float
    stub_cpu_per_pod: float
    connections: int
    requests: int
    peak_rss: int
    start_seconds: float = 0.0
    start_cpu: float = 0.0
    pause: Pause | None = None
    """None where the scheduler does not say. The clock begins with the first binding."""

    @property
    def pods_per_second(self) -> float:
        """Pods bound and reported."""
        return self.reported_per_second

    @property
    def fault(self) -> str:
        """Why the run does not count; "" if it does."""
        if self.bound < self.pods or self.reported < self.pods:
            return f"{self.bound} bound and {self.reported} reported of {self.pods}"
        return f"{self.conflicts} conflicts" if self.conflicts else ""


class Stub:
    """The stub API server with the objects of one run. A context manager."""

    def __init__(self, folder: Path, things: Iterable[tuple[Object, bool]], options: Sequence[str]) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.objects = folder / "objects.jsonl"
        with self.objects.open("wb") as file:
            for number, (thing, is_measured) in enumerate(things):
                path = paths.collection(thing["kind"])
                line = {"path": path, "measured": is_measured, "object": as_stored(thing, number)}
                file.write(msgspec.json.encode(line) + b"\n")
        command = [str(build.program_of(STUB)), f"-objects={self.objects}", f"-kubeconfig={self.kubeconfig}"]
        command += [f"-seconds={RUN_SECONDS}", *options]
        self._process = Process("apistub", command, folder / "apistub.log")

    def __enter__(self) -> Stub:
        self._process.start().wait_until(self.kubeconfig.exists, 60)
        self._connection: Connection = from_kubeconfig(self.kubeconfig)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    def ask(self, page: str) -> dict[str, Any]:
        """A page of the stub's own: some of them answer only when something has happened."""
        handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._connection.tls))
        opener = urllib.request.build_opener(*handlers)
        with opener.open(f"{self._connection.url}/bench/{page}", timeout=RUN_SECONDS) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found

    def end_with(self, scheduler: Process) -> None:
        """Stop when this process ends: ``ask`` raises OSError then, and does not wait for what can't happen."""

        def stop_after() -> None:
            with suppress(ProcessFailure):
                scheduler.wait(RUN_SECONDS)
            self._process.stop()

        threading.Thread(target=stop_after, name="end of the scheduler", daemon=True).start()


def as_stored(thing: Object, number: int) -> Object:
    """The object as an API server returns it: with the fields that it adds, and about as long."""
    fields: dict[str, Any] = {
        "f:metadata": {"f:labels": {}},
        "f:spec": {f"f:{name}": {} for name in thing.get("spec", {})},
    }
    managed = {"manager": "bench", "operation": "Update", "apiVersion": thing["apiVersion"], "fieldsType": "FieldsV1"}
    metadata = {
        **thing["metadata"],
        "uid": f"00000000-0000-4000-8000-{number:012x}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{**managed, "time": "2026-01-01T00:00:00Z", "fieldsV1": fields}],
    }
    stored = {**thing, "metadata": metadata}
    if thing["kind"] != "Pod":
        return stored
    added = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "tolerations": [
            {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for why in ("not-ready", "unreachable")
        ],
    }
    container = {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
    }
    containers = [{**one, **container} for one in thing["spec"]["containers"]]
    spec = {**added, **thing["spec"], "containers": containers}
    return {**stored, "spec": spec, "status": {"phase": "Pending", "qosClass": "Burstable"}}


def _things(scenario: Scenario, nodes: int, pods: int) -> Iterator[tuple[Object, bool]]:
    for thing in scenario.existing(nodes, pods):
        yield thing, False
    for thing in scenario.arriving(nodes, pods):
        yield thing, True


def run(row: str, contender: str, nodes: int, pods: int) -> Capacity:
    """One run. Raises `ProcessFailure` if it can't be carried out."""
    scenario = SCENARIOS[ROWS[row]]
    options = ["-held", f"-rate={scenario.rate or 0}"] if scenario.meanwhile else []
    with tempfile.TemporaryDirectory(prefix="tandem-capacity-") as name:
        folder = Path(name)
        with Stub(folder, _things(scenario, nodes, pods), options) as stub:
            scheduler = _scheduler(contender, stub.kubeconfig, folder)
            started = time.monotonic()
            scheduler.start()
            stub.end_with(scheduler.process)
            try:
                if scenario.meanwhile:
                    scheduler.wait_ready().wait_at_rest()
                    stub.ask("release")
                stub.ask("first")
                before, first, first_at = scheduler.usage(), time.monotonic(), time.time()
                totals = stub.ask("end")
                after = scheduler.usage()
                pause = pause_since(longest_step_of(scheduler), first_at)
            except OSError as error:
                raise ProcessFailure(f"the run did not end: {error}\n{scheduler.process.tail()}") from error
            finally:
                scheduler.stop()
    bound = totals["bound"]
    return Capacity(
        row=row,
        contender=contender,
        nodes=nodes,
        pods=pods,
        bound=bound,
        reported=totals["reported"],
        conflicts=totals["conflicts"],
        bound_per_second=bound / totals["bound_seconds"] if totals["bound_seconds"] else 0.0,
        reported_per_second=totals["reported"] / totals["reported_seconds"] if totals["reported_seconds"] else 0.0,
        cpu_per_pod=(after.cpu_seconds - before.cpu_seconds) / max(bound, 1),
        stub_cpu_per_pod=totals["cpu_seconds"] / max(bound, 1),
        connections=totals["connections"],
        requests=totals["requests"],
        peak_rss=after.peak_rss_bytes,
        start_seconds=0.0 if scenario.meanwhile else first - started,
        start_cpu=0.0 if scenario.meanwhile else before.cpu_seconds,
        pause=pause,
    )


def _scheduler(contender: str, kubeconfig: Path, folder: Path) -> Scheduler:
    """``tandem@FOLDER`` is the Tandem of another checkout: before and after a change, in one run."""
    made: dict[str, Callable[[], Scheduler]] = {
        "tandem": partial(Tandem, kubeconfig, folder, journal=False),
        "null": partial(Null, kubeconfig, folder, SCHEDULER),
        "kube-scheduler": lambda: KubeScheduler(
            kubeconfig, folder, SCHEDULER, programs=build.programs(), content_type="application/json"
        ),
    }
    return of_checkout(contender, lambda kind: made[kind]())


COLUMNS = (
    *("row", "contender", "nodes", "pods", "bound/s", "reported/s", "CPU µs/pod", "stub µs/pod", "connections"),
    *("requests", "RSS MiB", "start s", "start CPU s", "longest pause ms (CPU)", "counts"),
)


def cells(result: Capacity) -> tuple[str, ...]:
    return (
        result.row,
        result.contender,
        str(result.nodes),
        str(result.pods),
        f"{result.bound_per_second:.0f}",
        f"{result.reported_per_second:.0f}",
        f"{result.cpu_per_pod * 1e6:.0f}",
        f"{result.stub_cpu_per_pod * 1e6:.0f}",
        str(result.connections),
        str(result.requests),
        f"{result.peak_rss / 2**20:.0f}",
        f"{result.start_seconds:.1f}",
        f"{result.start_cpu:.1f}",
        report.shown_pause(result.pause),
        f"no: {result.fault}" if result.fault else "yes",
    )


def middle(results: Sequence[Capacity]) -> Capacity:
    """The round with the median CPU a pod, of those that count if there are any."""
    rounds = sorted([r for r in results if not r.fault] or results, key=lambda r: r.cpu_per_pod)
    return rounds[(len(rounds) - 1) // 2]


def main() -> int:
    options = _options()
    rounds: list[Capacity] = []
    chosen: list[Capacity] = []
    for row in options.row:
        scenario = SCENARIOS[ROWS[row]]
        pods = options.pods or (scenario.pods if scenario.rate else PODS)
        for nodes in options.nodes or [scenario.nodes if scenario.rate else NODES]:
            made = _rounds(row, nodes, pods, options)
            rounds += [result for several in made for result in several]
            chosen += [middle(several) for several in made]
            # After each, so that a run that is broken off leaves what it has.
            _write(chosen, rounds, options)
    table = Table(*COLUMNS)
    for result in chosen:
        table.add_row(*cells(result))
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    for line in pairs.lines((result.row, result) for result in rounds):
        print(line)
    return 0 if all(not result.fault for result in chosen) else 1


def _rounds(row: str, nodes: int, pods: int, options: argparse.Namespace) -> list[list[Capacity]]:
    """The rounds of each contender. They take turns, so that a machine that grows slower does so for all of them."""
    made: dict[str, list[Capacity]] = {contender: [] for contender in options.contenders}
    for _ in range(options.rounds):
        for contender in options.contenders:
            result = run(row, contender, nodes, pods)
            made[contender].append(result)
            print(" ".join(cells(result)), file=sys.stderr, flush=True)
    return list(made.values())


def _write(chosen: Sequence[Capacity], rounds: Sequence[Capacity], options: argparse.Namespace) -> None:
    content = {**report.circumstances(), "results": list(map(asdict, chosen)), "rounds": list(map(asdict, rounds))}
    if options.out:
        options.out.write_text(json.dumps(content, indent=1) + "\n")
    if options.charts is not None:
        charts.write_growth(content, options.charts)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m e2e.bench.capacity", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", nargs="+", default=ROWS_BY_DEFAULT, choices=ROWS)
    parser.add_argument("--contenders", default=",".join(BY_DEFAULT), help="default: %(default)s; or tandem@CHECKOUT")
    parser.add_argument(
        "--nodes", type=int, nargs="+", help=f"default: {NODES}, for arrival its own; with several: growth"
    )
    parser.add_argument("--pods", type=int, help=f"default: {PODS}, for arrival its own")
    parser.add_argument("--rounds", type=int, default=1, help="the one with the median CPU is reported (default: 1)")
    parser.add_argument("--out", type=Path, help="FILE.json: every round")
    parser.add_argument(
        "--charts", metavar="FOLDER", type=Path, help="write the growth as an SVG chart into this folder"
    )
    options = parser.parse_args()
    options.contenders = options.contenders.split(",")
    if strange := unknown(options.contenders, BY_DEFAULT):
        parser.error(f"no contender is called {', '.join(strange)}; there are {', '.join(BY_DEFAULT)}")
    return options


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (build.BuildError, ProcessFailure) as error:
        sys.exit(f"error: {error}")
