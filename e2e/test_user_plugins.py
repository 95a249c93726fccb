"""Promise: a plugin of the user's own takes part like a built-in one, and a bad one harms only its pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import builders
from e2e.builders import SCHEDULER
from e2e.provider import Cluster
from e2e.room import Room
from e2e.tandem import Tandem, profile

pytestmark = pytest.mark.tandem_only

ROOT = Path(__file__).parents[1]
"""These plugins are not installed: their package is in this folder."""
PLUGINS = {name: f"e2e.sample_plugins:{name}" for name in ("Picky", "Licence")}


def configuration(folder: Path, plugins: dict[str, str]) -> Path:
    """A file that enables these plugins, name -> path, at all their points."""
    enabled = {"multiPoint": {"enabled": [{"name": name, "weight": 50} for name in plugins]}}
    kube = {**profile(SCHEDULER), "profiles": [{"schedulerName": SCHEDULER, "plugins": enabled}]}
    own = {
        "apiVersion": "tandem.scheduling/v1alpha1",
        "kind": "TandemConfiguration",
        "plugins": [{"name": name, "path": path} for name, path in plugins.items()],
    }
    file = folder / "tandem.yaml"
    file.write_text(yaml.safe_dump_all([kube, own]))
    return file


@pytest.fixture
def tandem(new_tandem: Callable[..., Tandem], cluster: Cluster, tmp_path: Path) -> Iterator[Tandem]:
    # As the administrator: these plugins read ConfigMaps and label pods, which the shipped rules do not allow.
    options = [f"--config={configuration(tmp_path, PLUGINS)}", f"--plugin-folder={ROOT}"]
    with new_tandem(options=options, kubeconfig=cluster.kubeconfig) as tandem:
        yield tandem


def config_map(name: str, namespace: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}


def test_a_plugin_s_filter_and_score_choose_the_node(room: Room, tandem: Tandem) -> None:
    room.add_nodes(*(builders.node(name) for name in ("a", "b", "z")))
    room.add_pods(
        builders.pod("only-b", room.name, labels={"wants": "b"}),
        builders.pod("anywhere", room.name),
        builders.pod("nowhere", room.name, labels={"wants": "x"}),
    )
    assert room.wait_bound(2) == {"only-b": "b", "anywhere": "z"}
    message = room.wait_refused("nowhere")["message"]
    assert message.startswith("0/3 nodes are available: 3 node(s) were not wanted.")


def test_a_plugin_that_raises_is_named_in_its_pod_s_event_and_the_others_go_on(room: Room, tandem: Tandem) -> None:
    room.add_nodes(builders.node("a"))
    pods = [builders.pod(f"p{i}", room.name) for i in range(5)]
    room.add_pods(builders.pod("bad", room.name, labels={"break": "oops"}), *pods)
    assert len(room.wait_bound(5)) == 5
    (event,) = room.wait_events("bad", "FailedScheduling")
    assert event["note"] == "running \"Picky\" filter plugin: KeyError: 'oops'"
    assert room.wait_refused("bad")["reason"] == "SchedulerError"


def test_a_coroutine_before_binding_is_awaited_and_its_refusal_is_reported(room: Room, tandem: Tandem) -> None:
    room.add_nodes(builders.node("a"))
    room.add_pods(builders.pod("licensed", room.name, labels={"licence": "gold"}))
    (event,) = room.wait_events("licensed", "FailedScheduling")
    assert event["note"] == "there is no licence gold"
    room.client.create(config_map("gold", room.name))
    # It is tried again after its back-off, without an event.
    room.wait_placed("licensed", "a", 30)
    room.pods.wait_until(
        lambda state: state[f"{room.name}/licensed"]["metadata"]["labels"].get("granted-on") == "a", 10, "a label"
    )


def test_a_coroutine_that_hangs_is_cut_off_while_the_others_go_on(room: Room, tandem: Tandem) -> None:
    room.add_nodes(builders.node("a", cpu="1"))
    room.add_pods(builders.pod("stuck", room.name, cpu="900m", labels={"licence": "hang"}))
    (event,) = room.wait_events("stuck", "FailedScheduling")
    assert event["note"] == 'running PreBind plugin "Licence": TimeoutError: no answer within 1s'
    # Its room is free again for the next pod.
    room.client.delete("Pod", "stuck", room.name)
    room.add_pods(builders.pod("next", room.name, cpu="900m"))
    room.wait_placed("next", "a")


def test_a_plugin_that_can_not_be_loaded_ends_the_start_with_one_line(
    new_tandem: Callable[..., Tandem], tmp_path: Path
) -> None:
    file = configuration(tmp_path, {"Mine": "e2e.sample_plugins:Missing"})
    tandem = new_tandem(options=[f"--config={file}", f"--plugin-folder={ROOT}"]).start()
    assert tandem.process.wait(20) == 1
    expected = 'plugins[0].path: Invalid value: "e2e.sample_plugins:Missing": module e2e.sample_plugins has no Missing'
    assert expected in tandem.log()
    assert "Traceback" not in tandem.log()
