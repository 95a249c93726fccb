"""docs/groups.md: its manifests of custom resources, applied as they stand while their own controllers run.

The first run builds each controller from its Go module: ten minutes on two cores for all of them, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from e2e.builders import Object
from e2e.client import Client, State
from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from e2e.fixtures import administrator, rooms
from e2e.groups.control import serving_groups, subject_with
from e2e.groups.objects import wait_condition
from e2e.groups.operators import Operator
from e2e.groups.test_shown_manifests import GATES, PAGE, add_node
from e2e.identities import Identities, shipped_rules
from e2e.room import Room, placements
from e2e.tandem import Tandem
from tests.docs.pages import blocks, section

CONFIGURATION_PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()

pytestmark = [pytest.mark.tandem_only, pytest.mark.long]


@pytest.fixture(scope="module")
def controlplane() -> Iterator[ControlPlane]:
    """One of its own: the custom resources stay."""
    with serving_groups() as made:
        yield made


client = administrator("module")
room = rooms("operators")


@pytest.fixture
def running(controlplane: ControlPlane, tmp_path: Path) -> Iterator[Callable[[str], Operator]]:
    """Starts one of the controllers."""
    with ExitStack() as stack:

        def start(name: str) -> Operator:
            try:
                return stack.enter_context(Operator(name, controlplane, tmp_path))
            except build.BuildError as missing:
                pytest.skip(f"no controller {name}: {missing}")

        yield start


@pytest.fixture
def tandem(controlplane: ControlPlane, client: Client, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Starts Tandem: with these feature gates, or with these documents of configuration and no gates."""
    with ExitStack() as stack:

        def start(documents: list[Object] | None = None) -> None:
            if documents is None:
                stack.enter_context(subject_with(GATES, controlplane, client, tmp_path))
                return
            kubeconfig = Identities(client, controlplane.kubeconfig(), tmp_path).kubeconfig("tandem", shipped_rules())
            subject = Tandem(kubeconfig, tmp_path, config=documents)
            stack.callback(subject.kill)
            stack.enter_context(subject)

        yield start


@contextmanager
def applied(room: Room, controlplane: ControlPlane, title: str, folder: Path) -> Iterator[None]:
    """Within the block the cluster has the objects of this section's manifest."""
    (text,) = blocks(section(PAGE, title), "yaml")
    file = folder / "shown.yaml"
    file.write_text(text)
    controlplane.kubectl("apply", "-n", room.name, "-f", str(file))
    try:
        yield
    finally:
        controlplane.kubectl("delete", "-n", room.name, "-f", str(file), "--wait=false")


@contextmanager
def without_finalizers(room: Room, controlplane: ControlPlane) -> Iterator[None]:
    """At the end of the block pods may go before Kueue lets go of them: it keeps those of a group for each other."""
    try:
        yield
    finally:
        pods = [f"pod/{pod['metadata']['name']}" for pod in room.pods.state.values()]
        patch = '{"metadata": {"finalizers": null}}'
        if pods:
            controlplane.kubectl("patch", "-n", room.name, *pods, "--type=merge", "-p", patch)


def wait_created(room: Room, count: int) -> None:
    def are_there(state: State) -> bool:
        return len(state) == count

    room.pods.wait_until(are_there, 60, f"{count} pods")


def names_of_groups(room: Room) -> set[str]:
    return {pod["spec"].get("schedulingGroup", {}).get("podGroupName", "") for pod in room.pods.state.values()}


@pytest.mark.parametrize(
    ("title", "controllers", "nodes_needed"),
    [("JobSet", ["jobset"], 3), ("Kubeflow Trainer", ["jobset", "trainer"], 4)],
)
def test_what_a_controller_makes_of_a_manifest_starts_together_or_not_at_all(
    controlplane: ControlPlane,
    room: Room,
    running: Callable[[str], Operator],
    tandem: Callable[..., None],
    tmp_path: Path,
    title: str,
    controllers: list[str],
    nodes_needed: int,
) -> None:
    for name in controllers:
        running(name)
    tandem()
    for number in range(nodes_needed - 1):
        add_node(room, number)
    with applied(room, controlplane, title, tmp_path):
        wait_created(room, 4)
        assert names_of_groups(room) == {"train"}
        wait_condition(room, "False", "Unschedulable", "pod group is unschedulable")
        assert placements(room.pods.state) == {}
        add_node(room, nodes_needed)
        assert len(room.wait_bound(4)) == 4
        wait_condition(room, "True", "Scheduled")


def test_a_ray_cluster_of_kuberay_starts_together_or_not_at_all(
    controlplane: ControlPlane,
    room: Room,
    running: Callable[[str], Operator],
    tandem: Callable[..., None],
    tmp_path: Path,
) -> None:
    running("kuberay")
    definition = controlplane.kubectl("get", "crd", "rayclusters.ray.io", "-o", "json")
    assert "schedulingGroup" not in definition, "docs/groups.md says that KubeRay loses it"
    (text,) = blocks(section(CONFIGURATION_PAGE, "Groups of pods"), "yaml")
    tandem(list(yaml.safe_load_all(text)))
    for number in range(3):
        add_node(room, number)
    with applied(room, controlplane, "KubeRay", tmp_path):
        wait_created(room, 4)
        assert room.pods.holds_for(lambda state: not placements(state), 2)
        add_node(room, 3)
        assert len(room.wait_bound(4)) == 4
        assert len(room.wait_running(4)) == 4


def test_pods_that_kueue_admits_start_together(
    controlplane: ControlPlane,
    room: Room,
    running: Callable[[str], Operator],
    tandem: Callable[..., None],
    tmp_path: Path,
) -> None:
    running("kueue")
    tandem()
    for number in range(2):
        add_node(room, number)
    add_queue(room, controlplane, tmp_path, cpus=3)
    with applied(room, controlplane, "Kueue in front", tmp_path), without_finalizers(room, controlplane):
        wait_created(room, 2)
        assert all(pod["spec"]["schedulingGates"] for pod in room.pods.state.values())
        assert room.pods.holds_for(lambda state: not placements(state), 2)
        add_queue(room, controlplane, tmp_path, cpus=6)
        assert set(room.wait_bound(2)) == {"train-0", "train-1"}
        wait_condition(room, "True", "Scheduled")


def add_queue(room: Room, controlplane: ControlPlane, folder: Path, cpus: int) -> None:
    """The queue ``research`` of Kueue, with this quota; one that is there gets it."""
    quota = [{"name": "cpu", "nominalQuota": cpus}, {"name": "memory", "nominalQuota": "64Gi"}]
    flavors = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": room.name, "resources": quota}]}
    things = [
        ("ResourceFlavor", room.name, {}),
        ("ClusterQueue", room.name, {"namespaceSelector": {}, "resourceGroups": [flavors]}),
        ("LocalQueue", "research", {"clusterQueue": room.name}),
    ]
    file = folder / "queue.yaml"
    made = [
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}
        for kind, name, spec in things
    ]
    file.write_text(yaml.safe_dump_all(made))
    controlplane.kubectl("apply", "-n", room.name, "-f", str(file))
