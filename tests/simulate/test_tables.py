from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.simulate.apiserver.kinds import NODES, PODS, SECRETS
from scheduler.simulate.apiserver.tables import duration, table

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def _cells(kind: Any, obj: dict[str, Any]) -> dict[str, Any]:
    shown = table(kind, [obj], {}, NOW)
    names = [column["name"] for column in shown["columnDefinitions"]]
    return dict(zip(names, shown["rows"][0]["cells"], strict=True))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (5, "5s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (700, "11m"), (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"),
        (30 * 3600, "30h"), (50 * 3600, "2d2h"), (10 * 86_400, "10d"), (800 * 86_400, "2y70d"),
    ],
)  # fmt: skip
def test_ages_read_as_in_kubectl(seconds: int, shown: str) -> None:
    assert duration(seconds) == shown


def test_a_pod_shows_what_people_look_for() -> None:
    created = (NOW - timedelta(seconds=90)).isoformat()
    pod: dict[str, Any] = {
        "metadata": {"name": "p", "creationTimestamp": created},
        "spec": {"nodeName": "n", "containers": [{}, {}]},
        "status": {"phase": "Running", "containerStatuses": [{"ready": True, "restartCount": 2}, {"ready": False}]},
    }
    cells = _cells(PODS, pod)
    assert cells["Ready"] == "1/2"
    assert cells["Status"] == "Running"
    assert cells["Restarts"] == "2"
    assert cells["Age"] == "90s"
    assert cells["Node"] == "n"
    assert cells["Nominated Node"] == "<none>"
    pod["metadata"]["deletionTimestamp"] = created
    assert _cells(PODS, pod)["Status"] == "Terminating"


def test_a_node_shows_its_readiness_and_that_it_is_cordoned() -> None:
    node = {
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    cells = _cells(NODES, node)
    assert (cells["Status"], cells["Roles"]) == ("Ready,SchedulingDisabled", "worker")


def test_other_kinds_show_name_and_age() -> None:
    assert list(_cells(SECRETS, {"metadata": {"name": "s", "creationTimestamp": "x"}})) == ["Name", "Created At"]
