"""Promise: after a restore of etcd the scheduler goes on from what is there: nothing waits, nothing is doubled."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import builders
from e2e.client import Client
from e2e.controlplane.cluster import ControlPlane
from e2e.room import bindings
from e2e.tandem import Tandem

pytestmark = [pytest.mark.tandem_only, pytest.mark.long]

CPUS = 4
ROOM = "restored"
LATER = {"later": "yes"}
REPAIRS = "tandem_cache_repairs_total"


@pytest.fixture
def controlplane() -> Iterator[ControlPlane]:
    """Without controllers or a kubelet, so that versions grow by what the test does."""
    with ControlPlane(kwok=False, controllers=(), audit=True) as controlplane:
        yield controlplane


@pytest.fixture
def admin(controlplane: ControlPlane) -> Iterator[Client]:
    with Client(controlplane.kubeconfig()) as made:
        yield made


@pytest.mark.parametrize("versions_ahead", [pytest.param(0, id="passed again soon"), pytest.param(500, id="far ahead")])
def test_after_a_restore_what_is_bound_no_more_is_placed_again_and_what_is_back_keeps_its_room(
    controlplane: ControlPlane, admin: Client, tmp_path: Path, versions_ahead: int
) -> None:
    """``versions_ahead``: what the watches have seen before the restore. Once the versions have passed that again, a
    watch goes on as if nothing had been; before that it is silent."""
    admin.create(builders.namespace(ROOM))
    admin.create_all([builders.node(f"n{number}", cpu=str(CPUS)) for number in range(3)])
    with Tandem(controlplane.kubeconfig(), tmp_path, options=("--cache-reconcile-period=20s",)) as tandem:
        admin.create_all([builders.pod(f"before{number}", ROOM, cpu="2") for number in range(4)])
        admin.create_all([builders.pod(f"waits{number}", ROOM, cpu="3", nodeSelector=LATER) for number in range(2)])
        _wait_bound(admin, 4, 30)
        controlplane.save_state()
        # From here on nothing will have been.
        admin.create_all([builders.node(f"later{number}", cpu=str(CPUS), labels=LATER) for number in range(2)])
        admin.delete("Pod", "before0", ROOM)
        admin.create_all([builders.pod(f"after{number}", ROOM, cpu="2") for number in range(2)])
        _wait_bound(admin, 7, 60)
        for number in range(versions_ahead):
            admin.patch("Pod", "waits0", ROOM, {"metadata": {"annotations": {"count": str(number)}}})
        controlplane.restore_state()
        placed = _placed(admin)
        assert len(placed) == 6 and len([node for node in placed.values() if node]) == 4
        names = ("again0", "again1")
        admin.create_all([builders.node(name, cpu=str(CPUS), labels=LATER) for name in names])
        _wait_bound(admin, 6, 240)
        # Not before the scheduler has noticed: until then it may take room that is taken again.
        admin.create_all([builders.pod(f"new{number}", ROOM, cpu="2") for number in range(2)])
        placed = _wait_bound(admin, 8, 60)
        assert placed["waits0"] != placed["waits1"]
        cpus = Counter[str]()
        for name, node in placed.items():
            cpus[node] += 3 if name.startswith("waits") else 2
        assert max(cpus.values()) <= CPUS
        repairs = _rested(tandem)
        assert repairs <= 20, "only what was lost was repaired"
        answers = bindings(controlplane.audit(), ROOM)
        assert not [pod for pod, status in answers if status == 409]
    assert "Traceback" not in tandem.log()


def _placed(admin: Client) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in admin.list("Pod", ROOM)}


def _wait_bound(admin: Client, count: int, seconds: float) -> dict[str, str]:
    """By lists: a watch of the test's own would be as blind as any other after a restore."""
    deadline = time.monotonic() + seconds
    while True:
        placed = _placed(admin)
        if len([node for node in placed.values() if node]) >= count:
            return placed
        assert time.monotonic() < deadline, placed
        time.sleep(0.5)


def _rested(tandem: Tandem) -> float:
    """The number of repairs once a comparison has found nothing more."""
    deadline, before = time.monotonic() + 180, -1.0
    while (now := _repairs(tandem)) != before:
        assert time.monotonic() < deadline, "there is always something to repair"
        before = now
        time.sleep(30)
    return now


def _repairs(tandem: Tandem) -> float:
    lines = tandem.get("/metrics")[1].splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(REPAIRS + "{"))
