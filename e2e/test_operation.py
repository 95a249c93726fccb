"""Promise: an operator's mistake is reported in one clear line; a running scheduler can be observed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e import builders
from e2e.identities import Identities, shipped_rules, without
from e2e.room import Room
from e2e.subject import Scheduler
from e2e.tandem import Tandem


def test_health_and_metrics_are_served(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("a", pods=2))
    room.add_pods(*(builders.pod(f"p{i}", room.name) for i in range(2)), builders.pod("huge", room.name, cpu="99"))
    room.wait_bound(2)
    room.wait_refused("huge")
    for path in ("/healthz", "/livez", "/readyz"):
        assert scheduler.get(path) == (200, "ok")
    # A watch may show a binding before the scheduler has heard the answer to it and counted it.
    scheduler.process.wait_until(lambda: _attempts(scheduler, "scheduled") == 2, 20)
    assert _attempts(scheduler, "unschedulable") >= 1
    status, page = scheduler.get("/metrics")
    assert status == 200
    assert re.search(r'^scheduler_pending_pods\{.*queue="unschedulable".*\} 1(\.0)?$', page, re.MULTILINE)


def _attempts(scheduler: Scheduler, result: str) -> float:
    """The counter's value, whatever the order of its labels."""
    for line in scheduler.get("/metrics")[1].splitlines():
        labels = (f'result="{result}"', f'profile="{scheduler.scheduler_name}"')
        if line.startswith("scheduler_schedule_attempts_total{") and all(label in line for label in labels):
            return float(line.rpartition(" ")[2])
    return 0.0


@pytest.mark.tandem_only
@pytest.mark.parametrize(
    ("content", "hint"),
    [(None, "missing-kubeconfig"), ("{nonsense", "missing-kubeconfig"), ("kind: Config\n", "missing-kubeconfig")],
    ids=["missing", "not-yaml", "empty"],
)
def test_a_kubeconfig_that_is_no_good_ends_the_start_with_one_line(
    new_tandem: Callable[..., Tandem], tmp_path: Path, content: str | None, hint: str
) -> None:
    file = tmp_path / "missing-kubeconfig"
    if content is not None:
        file.write_text(content)
    tandem = new_tandem(kubeconfig=file).start()
    assert tandem.process.wait(20) == 1
    assert hint in tandem.log()
    assert "Traceback" not in tandem.log()


@pytest.mark.tandem_only
def test_a_configuration_with_a_misspelt_field_is_refused_by_its_name(new_tandem: Callable[..., Tandem]) -> None:
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "paralelism": 4}
    tandem = new_tandem(config=config).start()
    assert tandem.process.wait(20) == 1
    assert "paralelism" in tandem.log()
    assert "Traceback" not in tandem.log()


@pytest.mark.tandem_only
@pytest.mark.parametrize(
    ("verb", "resource"),
    [("list", "pods"), ("watch", "nodes"), ("create", "pods/binding"), ("patch", "pods/status"), ("delete", "pods")],
)
def test_a_missing_right_is_named_with_verb_and_resource(
    new_tandem: Callable[..., Tandem], identities: Identities, verb: str, resource: str
) -> None:
    rules = without(shipped_rules(), verb, resource)
    tandem = new_tandem(kubeconfig=identities.kubeconfig(f"may-not-{verb}-{resource.replace('/', '-')}", rules)).start()

    def named() -> bool:
        return any(verb in line and resource in line for line in tandem.log().splitlines())

    try:
        # It may report and exit, or report and wait for the right; both are fine, silence is not.
        while not named() and tandem.process.alive:
            tandem.process.wait_until(lambda: named() or not tandem.process.alive, 20)
        assert named(), tandem.process.tail()
        assert "Traceback" not in tandem.log()
    finally:
        tandem.kill()
