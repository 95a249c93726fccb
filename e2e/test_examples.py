"""Promise: the examples do what their pages say, with the configuration that they show."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import builders
from e2e.client import Client
from e2e.room import Room
from e2e.tandem import Tandem

pytestmark = pytest.mark.tandem_only

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples" / "tandem-plugin-example" / "src"
NewTandem = Callable[..., Tandem]


def shown(page: str, kind: str) -> list[dict[str, Any]]:
    """The documents of the page's block in which this kind is."""
    text = (ROOT / "docs" / "examples" / page).read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (block,) = (block for block in blocks if f"kind: {kind}\n" in block)
    return list(yaml.safe_load_all(block))


def scheduler_of(page: str, new_tandem: NewTandem) -> Tandem:
    config = shown(page, "KubeSchedulerConfiguration")
    return new_tandem(config=config, options=(f"--plugin-folder={FOLDER}",))


def test_pods_go_to_the_cheap_nodes_and_follow_the_prices(room: Room, client: Client, new_tandem: NewTandem) -> None:
    (prices,) = shown("prices.md", "Namespace")
    room.add_cluster_object(prices)
    for name in ("small", "big"):
        node = builders.node(name)
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"] = f"m.{name}"
        room.add_nodes(node)
    with scheduler_of("prices.md", new_tandem):
        room.add_pods(builders.pod("first", room.name))
        room.wait_placed("first", "small")
        client.patch("Namespace", "prices", None, {"metadata": {"labels": {"price.example.com/m.small": "90"}}})
        # The change reaches the scheduler by another watch than pods do, within moments.
        for number in range(20):
            name = f"later-{number}"
            room.add_pods(builders.pod(name, room.name))
            if room.wait_bound(2 + number)[name] == "big":
                return
        raise AssertionError("twenty pods were placed by the old prices")


def test_the_third_pod_waits_for_a_token_and_gets_it_when_another_ends(
    room: Room, client: Client, new_tandem: NewTandem
) -> None:
    room.add_nodes(builders.node("a"), builders.node("b"))
    with scheduler_of("licences.md", new_tandem):
        room.add_pods(*(_labelled(name, room.name, "licence", "matlab") for name in ("x", "y")))
        room.wait_bound(2)
        room.add_pods(_labelled("z", room.name, "licence", "matlab"), builders.pod("free", room.name))
        room.wait_bound(3)
        assert "node(s) had no licence token left in the cluster" in room.wait_refused("z")["message"]
        client.delete("Pod", "x", room.name)
        room.pods.wait_until(lambda state: state[f"{room.name}/z"]["spec"].get("nodeName"), 30, "z has the token")


def test_a_pod_keeps_its_room_until_it_is_approved(room: Room, client: Client, new_tandem: NewTandem) -> None:
    room.add_nodes(builders.node("a", cpu="1"))
    with scheduler_of("approval.md", new_tandem):
        asks = builders.pod("asks", room.name, cpu="600m")
        asks["metadata"].setdefault("labels", {})["example.com/approval"] = "required"
        room.add_pods(asks)
        room.add_pods(builders.pod("other", room.name, cpu="600m"))
        assert "Insufficient cpu" in room.wait_refused("other")["message"]
        assert not room.pod("asks")["spec"].get("nodeName")
        client.patch("Pod", "asks", room.name, {"metadata": {"annotations": {"example.com/approved": "yes"}}})
        room.wait_placed("asks", "a")


def _labelled(name: str, namespace: str, key: str, value: str) -> dict[str, Any]:
    pod = builders.pod(name, namespace)
    pod["metadata"].setdefault("labels", {})[f"example.com/{key}"] = value
    return pod
