"""docs/groups.md: its manifests on a real control plane.

The Job's pods are made by kube-controller-manager. So are those of a JobSet and of a TrainJob, from the Jobs into which
their controllers turn them; these controllers, KubeRay's and Kueue are not run: what they make is written down here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e import builders
from e2e.builders import Object
from e2e.groups.objects import wait_condition
from e2e.room import Room, placements
from tests.docs.pages import blocks, section

pytestmark = pytest.mark.tandem_only

GATES = ("GenericWorkload", "GangScheduling")
PAGE = (Path(__file__).parents[2] / "docs" / "groups.md").read_text()
NODES_NEEDED = {"Job": 4, "JobSet": 3, "KubeRay": 4, "Kubeflow Trainer": 4}
"""Of four CPUs each."""


def made_from(documents: list[Object]) -> Iterator[Object]:
    """What the controllers of the custom resources make of these; other objects as they are."""
    runtimes = {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == "TrainingRuntime"}
    for document in documents:
        name, spec = document["metadata"]["name"], document.get("spec", {})
        match document["kind"]:
            case "JobSet":
                for job in spec["replicatedJobs"]:
                    yield from [_job(f"{name}-{job['name']}-{at}", job["template"]) for at in range(job["replicas"])]
            case "TrainJob":
                nodes = spec["trainer"]["numNodes"]
                for job in runtimes[spec["runtimeRef"]["name"]]["template"]["spec"]["replicatedJobs"]:
                    yield _job(f"{name}-{job['name']}-0", job["template"], completions=nodes, parallelism=nodes)
            case "RayCluster":
                yield _pod(f"{name}-head", spec["headGroupSpec"]["template"])
                for group in spec["workerGroupSpecs"]:
                    for number in range(group["replicas"]):
                        yield _pod(f"{name}-{group['groupName']}-{number}", group["template"])
            case "TrainingRuntime":
                pass
            case _:
                yield document


def _job(name: str, template: Object, **counts: int) -> Object:
    spec = {"completionMode": "Indexed", **template["spec"], **counts}
    spec["template"]["spec"].setdefault("restartPolicy", "OnFailure")
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def _pod(name: str, template: Object) -> Object:
    metadata = {**template.get("metadata", {}), "name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def apply(room: Room, title: str) -> None:
    (text,) = blocks(section(PAGE, title), "yaml")
    for thing in made_from(list(yaml.safe_load_all(text))):
        thing["metadata"]["namespace"] = room.name
        room.client.create(thing)


def add_node(room: Room, number: int) -> None:
    room.add_nodes(builders.node(f"shown-n{number}", cpu="4"))


def admit(room: Room, pod: str) -> None:
    """As Kueue does."""
    gate = {"name": "kueue.x-k8s.io/admission", "$patch": "delete"}
    room.client.patch("Pod", pod, room.name, {"spec": {"schedulingGates": [gate]}})


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("title", NODES_NEEDED)
def test_the_pods_of_a_manifest_start_together_or_not_at_all(room: Room, title: str) -> None:
    for number in range(NODES_NEEDED[title] - 1):
        add_node(room, number)
    apply(room, title)
    wait_condition(room, "False", "Unschedulable", "pod group is unschedulable")
    assert placements(room.pods.state) == {}
    add_node(room, NODES_NEEDED[title])
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
