"""The page for operators: what it names is there."""

from __future__ import annotations

import re

from scheduler.cli.completion import candidates
from scheduler.cli.reload import AT_START_ONLY
from scheduler.config.tandem import Limits
from scheduler.controller.assembly import LEASE_OVERDUE_SECONDS
from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.run import EVENT_SETTLE_SECONDS
from scheduler.controller.settings import ShellSettings
from scheduler.controller.write.pacing import MAX_WAIT_SECONDS, SHARE
from scheduler.controller.write.writer_settings import WriterSettings
from tests.manifests.documents import BASE, MANIFESTS, ROOT, pod_spec, the

TEXT = (ROOT / "docs" / "operations.md").read_text()


def commands() -> set[str]:
    """Every command of ours that a line of code or a span of it runs."""
    return set(re.findall(r"(?:^|`)tandem ([a-z][a-z-]+)", TEXT, re.MULTILINE))


def test_each_command_on_the_page_exists() -> None:
    assert commands() and commands() <= dict(candidates()[""]).keys()


def test_each_flag_of_ours_on_the_page_exists() -> None:
    known = {flag.removeprefix("--") for flags in candidates().values() for flag, _ in flags}
    ours = set(re.findall(r"`--([a-z-]+)[` ]", TEXT)) - {"previous"}
    assert ours and ours <= known


def test_each_path_and_each_file_of_the_base_exists() -> None:
    for path in re.findall(r"\bmanifests/[a-z./-]*[a-z]", TEXT):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"`([a-z-]+\.(?:yaml|json))`", TEXT):
        assert (BASE / name).exists() or (MANIFESTS / "overlays" / "monitoring" / name).exists(), name


def test_each_link_within_the_page_leads_to_a_heading() -> None:
    anchors = {heading.lower().replace(" ", "-") for heading in re.findall(r"^##+ (.+)$", TEXT, re.MULTILINE)}
    targets = set(re.findall(r"\]\(#([^)]+)\)", TEXT))
    assert targets and targets <= anchors


async def test_each_series_that_is_named_is_on_the_metrics_page(series: dict[str, frozenset[str]]) -> None:
    """Or in docs/metrics.md, which a test compares with a process that has plugins and a journal."""
    named = set(re.findall(r"`((?:scheduler|tandem|process)_[a-z_]+)", TEXT))
    bases = {re.sub(r"_(?:bucket|sum|count)$", "", name) for name in series}
    described = set(re.findall(r"`((?:scheduler|tandem|process)_[a-z_]+)", (ROOT / "docs" / "metrics.md").read_text()))
    assert named and named <= series.keys() | bases | described


def test_every_alert_has_its_advice() -> None:
    folder = MANIFESTS / "overlays" / "monitoring"
    alerts = {rule["alert"] for group in the("PrometheusRule", folder)["spec"]["groups"] for rule in group["rules"]}
    assert set(re.findall(r"^\| `(Tandem\w+)` \|", TEXT, re.MULTILINE)) == alerts


def test_what_only_a_start_can_change_is_named() -> None:
    for name, _ in AT_START_ONLY:
        assert f"`{name}`" in TEXT


def test_numbers_are_those_of_the_code() -> None:
    election, settings, limits, writer = LeaderElectionSettings(), ShellSettings("host"), Limits(), WriterSettings()
    for documented in (
        f"retry period ({election.retry_period:g} s)",
        f"has run out: {election.lease_duration:g} s",
        f"renewed for {LEASE_OVERDUE_SECONDS:g} s",
        f"{settings.settle_seconds:g} s for bindings, {EVENT_SETTLE_SECONDS:g} s for events",
        f"allows {pod_spec()['terminationGracePeriodSeconds']} s",
        f"`limits.requestsInFlight` ({limits.requests_in_flight}), of which {SHARE} for each class",
        f"{limits.queued_writes} (`limits.queuedWrites`):",
        f"for a condition or a `Scheduled` event that has waited for {MAX_WAIT_SECONDS:g} s",
        f"`limits.rememberedAttempts` ({limits.remembered_attempts:,})",
        f"{writer.events_queued:,} `Scheduled` and as many others;",
    ):
        assert documented in TEXT, documented


def test_log_lines_that_are_quoted_are_written_by_the_scheduler() -> None:
    source = "".join(file.read_text() for file in (ROOT / "scheduler").rglob("*.py"))
    quoted = re.findall(r"`((?:[A-Z][a-z]+|certificate)(?: [a-z]+){1,6})`", TEXT)
    assert {"Missing rights", "Leaderelection lost"} <= set(quoted)
    for line in quoted:
        assert line in source, line
