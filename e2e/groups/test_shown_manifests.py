"""docs/groups.md: its manifests of Kubernetes' own kinds on a real control plane; test_operators.py has the others."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from e2e import builders
from e2e.groups.objects import wait_condition
from e2e.room import Room, placements
from tests.docs.pages import blocks, section

pytestmark = pytest.mark.tandem_only

GATES = ("GenericWorkload", "GangScheduling")
PAGE = (Path(__file__).parents[2] / "docs" / "groups.md").read_text()
ADMISSION = {"name": "kueue.x-k8s.io/admission"}


def apply(room: Room, title: str) -> None:
    """As Kueue does, pods that name one of its queues get a gate."""
    (text,) = blocks(section(PAGE, title), "yaml")
    for thing in yaml.safe_load_all(text):
        thing["metadata"]["namespace"] = room.name
        if "kueue.x-k8s.io/queue-name" in thing["metadata"].get("labels", {}):
            thing["spec"]["schedulingGates"] = [ADMISSION]
        room.client.create(thing)


def add_node(room: Room, number: int) -> None:
    """It has four CPUs."""
    room.add_nodes(builders.node(f"{room.name}-n{number}", cpu="4"))


def admit(room: Room, pod: str) -> None:
    """As Kueue does."""
    room.client.patch("Pod", pod, room.name, {"spec": {"schedulingGates": [{**ADMISSION, "$patch": "delete"}]}})


@pytest.mark.usefixtures("scheduler")
def test_the_pods_of_the_job_start_together_or_not_at_all(room: Room) -> None:
    for number in range(3):
        add_node(room, number)
    apply(room, "Job")
    wait_condition(room, "False", "Unschedulable", "pod group is unschedulable")
    assert placements(room.pods.state) == {}
    add_node(room, 3)
    assert len(room.wait_bound(4)) == 4
    wait_condition(room, "True", "Scheduled")


@pytest.mark.usefixtures("scheduler")
def test_pods_that_kueue_holds_start_when_the_last_of_them_is_admitted(room: Room) -> None:
    for number in range(2):
        add_node(room, number)
    apply(room, "Kueue in front")
    admit(room, "train-0")
    assert room.pods.holds_for(lambda state: not placements(state), 2)
    admit(room, "train-1")
    assert set(room.wait_bound(2)) == {"train-0", "train-1"}
