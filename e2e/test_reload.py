"""Promise: a changed configuration is taken up between two pods, without a restart; a wrong one changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import builders
from e2e.client import Client
from e2e.identities import Identities, shipped_rules
from e2e.room import Room, nodes_of_each_pod, placements
from e2e.tandem import Tandem, profile

pytestmark = pytest.mark.tandem_only

WATCHING_CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}


def with_profiles(*names: str) -> dict[str, Any]:
    return {**profile(names[0]), "profiles": [{"schedulerName": name} for name in names]}


def _pods(room: Room, scheduler: str, first: int, count: int) -> list[dict[str, Any]]:
    return [builders.pod(f"p{first + number}", room.name, "1m", "1Mi", scheduler=scheduler) for number in range(count)]


def replace_file(path: Path, text: str) -> None:
    """As a mounted ConfigMap is renewed: all at once."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


def reloads(tandem: Tandem, result: str) -> float:
    for line in tandem.get("/metrics")[1].splitlines():
        if line.startswith(f'tandem_config_reloads_total{{result="{result}"}}'):
            return float(line.rpartition(" ")[2])
    return 0.0


def test_a_changed_file_is_taken_up_under_load_and_a_wrong_one_leaves_the_last_good_one(
    room: Room, new_tandem: Callable[..., Tandem], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAMESPACE", room.name)
    monkeypatch.setenv("POD_NAME", "myself")
    first, second = f"{room.name}-first", f"{room.name}-second"
    room.add_nodes(*(builders.node(f"n{number}", cpu="32", pods=2000) for number in range(3)))
    tandem = new_tandem(scheduler_name=first, config=with_profiles(first))
    with tandem:
        file = tandem.folder / f"{first}.yaml"
        room.add_pods(builders.pod("of-the-second", room.name, cpu="10m", scheduler=second))
        replace_file(file, yaml.safe_dump(with_profiles(first, second)))
        count, deadline = 1, time.monotonic() + 20
        while "of-the-second" not in placements(room.pods.state):
            assert time.monotonic() < deadline, "not taken up"
            room.add_pods(*_pods(room, first, count, 10))
            count += 10
            time.sleep(0.05)
        room.wait_bound(count)
        assert all(len(nodes) == 1 for nodes in nodes_of_each_pod(room.pods.history).values())
        assert reloads(tandem, "applied") == 1.0

        replace_file(file, yaml.safe_dump({**with_profiles(first), "paralelism": 4}))
        (event,) = room.wait_events("myself", "ConfigurationRejected", 20)
        assert event["type"] == "Warning" and "paralelism" in event["note"]
        assert reloads(tandem, "rejected") == 1.0
        room.add_pods(builders.pod("later", room.name, scheduler=second))
        room.wait_bound(count + 1)
        assert "Traceback" not in tandem.log()


def test_a_watched_config_map_is_taken_up(
    room: Room, new_tandem: Callable[..., Tandem], identities: Identities, client: Client
) -> None:
    first, second = f"{room.name}-first", f"{room.name}-second"
    room.add_nodes(builders.node("a"))

    def config_map(*names: str) -> dict[str, Any]:
        data = {"scheduler.yaml": yaml.safe_dump(with_profiles(*names))}
        metadata = {"name": "configuration", "namespace": room.name}
        return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data}

    client.create(config_map(first))
    tandem = new_tandem(
        scheduler_name=first,
        config=with_profiles(first),
        kubeconfig=identities.kubeconfig("reloading", [*shipped_rules(), WATCHING_CONFIG_MAPS]),
        options=[f"--config-map={room.name}/configuration"],
    )
    with tandem:
        room.add_pods(builders.pod("waits", room.name, scheduler=second))
        client.patch("ConfigMap", "configuration", room.name, {"data": config_map(first, second)["data"]})
        room.wait_placed("waits", "a", 20)
        client.patch("ConfigMap", "configuration", room.name, {"data": {"scheduler.yaml": "kind: Nonsense"}})
        tandem.process.wait_until(lambda: reloads(tandem, "rejected") == 1.0, 20)
        room.add_pods(builders.pod("later", room.name, scheduler=second))
        room.wait_placed("later", "a")
