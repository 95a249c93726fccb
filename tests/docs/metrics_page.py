"""``python -m tests.docs.metrics_page`` writes docs/metrics.md from what a running scheduler serves."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from pathlib import Path

import aiohttp

from scheduler.cli.prepare import prepare
from scheduler.compose import build_engine
from scheduler.controller.parts import Parts
from scheduler.controller.reload import Build
from scheduler.controller.report.engine_gauges import GaugesOfEngine
from scheduler.controller.run import Shell
from scheduler.errors import ConfigurationError
from scheduler.messages.now import Now
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.demo import ShippedScheduler
from tests.docs.pages import DOCS
from tests.manifests.documents import deployed_flags

PAGE = DOCS / "metrics.md"
GROUPS = "--feature-gates=GenericWorkload=true,GangScheduling=true"
"""Each part that has metrics of its own is on: a page that lists every metric has theirs."""
HEAD = """# Metrics

Every metric of `/metrics`, as a running scheduler serves it: `python -m tests.docs.metrics_page` writes this table, and
a test compares it with a process. The names of kube-scheduler 1.36 have its labels and buckets; what is Tandem's own
starts with `tandem_`. A series with labels appears with the first event that it counts.
`tandem_journal_lines_dropped_total` is there with `--journal` only, `tandem_inputs_not_recorded_total` and
`tandem_recorded_…` with `--record` only, `scheduler_podgroup_…` where [groups of pods](groups.md) are on.
[Operations](operations.md#observe) says which to watch, [the runbooks](runbooks.md) what to do.

| Name | Type | Labels | What it counts |
|---|---|---|---|
"""

_FAMILY = re.compile(r"^# HELP (\S+) (.*)\n# TYPE \S+ (\w+)$", re.MULTILINE)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="')


async def served() -> str:
    """The text of ``/metrics`` of a scheduler's process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with EmbeddedCluster() as cluster:
            kubeconfig = cluster.kubeconfig(folder / "kubeconfig")
            flags = (f"--journal={folder / 'journal'}", f"--record={folder / 'recording'}", GROUPS)
            async with (
                ShippedScheduler(kubeconfig, folder / "log", *flags) as shipped,
                aiohttp.ClientSession() as client,
                client.get(f"{shipped.url}/metrics") as response,
            ):
                return await response.text()


def rows(page: str) -> list[str]:
    """The table's rows for a page of metrics, in the order of names; Tandem's own last."""
    declared = _declared_labels()
    found = []
    for name, text, kind in _FAMILY.findall(page):
        labels = declared.get(name.removesuffix("_total"), declared.get(name, _labels_on(page, name)))
        shown = ", ".join(f"`{label}`" for label in labels)
        found.append((name.startswith("tandem_"), name, f"| `{name}` | {kind} | {shown} | {text.replace('|', '/')} |"))
    return [row for _, _, row in sorted(found)]


def _labels_on(page: str, name: str) -> tuple[str, ...]:
    samples = re.findall(rf"^{name}(?:_bucket|_count|_sum)?\{{(.*)\}} ", page, re.MULTILINE)
    return tuple(sorted({label for sample in samples for label in _LABEL.findall(sample)} - {"le"}))


def _declared_labels() -> dict[str, tuple[str, ...]]:
    """By name without ``_total``: of the same parts in this process, since a page shows the labels of series alone."""
    prepared = prepare(deployed_flags(GROUPS))
    started = Now(time.monotonic(), time.time_ns())
    engine = build_engine(prepared.configuration, started=started, seed=1, profiles=prepared.profiles)
    shell = Shell(prepared.settings, Parts(engine, GaugesOfEngine(engine), prepare=_refuse), {})
    return {name.removesuffix("_total"): labels for name, labels in shell.metrics.instruments.labels().items()}


def _refuse(_: bytes) -> Build:
    raise ConfigurationError(())


async def written() -> str:
    """The whole page."""
    return HEAD + "\n".join(rows(await served())) + "\n"


if __name__ == "__main__":
    PAGE.write_text(asyncio.run(written()))
