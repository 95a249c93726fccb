"""Promise: outages, failovers and rotated tokens cost time, never a pod: nothing is lost and nothing bound twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from e2e import builders, paths
from e2e.client import Client
from e2e.exactly_once import check_nothing_was_lost_or_doubled
from e2e.identities import HOME, Identities, shipped_rules
from e2e.provider import Cluster
from e2e.room import Room
from e2e.subject import Scheduler
from e2e.tandem import Tandem

NODES, PODS_PER_NODE, PODS = 20, 60, 1000
LEASE_SECONDS = 3


def _nodes() -> list[dict[str, object]]:
    return [builders.node(f"n{i}", cpu=str(PODS_PER_NODE)) for i in range(NODES)]


def _pods(room: Room, count: int, prefix: str = "p") -> list[dict[str, object]]:
    return [builders.pod(f"{prefix}{i}", room.name, cpu="1") for i in range(count)]


@pytest.mark.parametrize("seconds", [pytest.param(20, id="20s"), pytest.param(120, id="2min", marks=pytest.mark.long)])
def test_an_api_server_that_crashes_under_load_and_comes_back_finds_everything_bound_once(
    room: Room, scheduler: Scheduler, cluster: Cluster, seconds: int
) -> None:
    if cluster.controlplane is None:
        pytest.skip("the API server of a shared cluster is not ours to stop")
    # They wait for room, so that all of the load comes at once and is there when the server goes.
    room.add_pods(*_pods(room, PODS))
    room.wait_refused(f"p{PODS - 1}", 60)
    room.add_nodes(*_nodes())
    bound = len(room.wait_bound(PODS // 10))
    cluster.controlplane.stop_apiserver(0)
    down = time.monotonic()
    assert scheduler.get("/livez")[0] == 200
    time.sleep(seconds - (time.monotonic() - down))
    assert scheduler.process.alive
    cluster.controlplane.start_apiserver()
    assert bound < PODS
    room.add_pods(*_pods(room, 50, "after"))
    check_nothing_was_lost_or_doubled(room, cluster, pods=PODS + 50, pods_per_node=PODS_PER_NODE, seconds=90)
    assert "Traceback" not in scheduler.log()


@pytest.mark.tandem_only
def test_when_the_leader_is_killed_under_load_the_other_goes_on_within_the_lease_and_two_seconds(
    room: Room, new_tandem: Callable[..., Tandem], identities: Identities, cluster: Cluster
) -> None:
    # A Lease of the test's own, where the shipped role names that of the manifests.
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]}
    kubeconfig = identities.kubeconfig("electing", [*shipped_rules(), lease])
    election = [
        "--leader-elect=true",
        f"--leader-elect-lease-duration={LEASE_SECONDS}s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=500ms",
        "--leader-elect-resource-namespace=kube-system",
        f"--leader-elect-resource-name={room.name}",
    ]
    replicas = [new_tandem(options=election, kubeconfig=kubeconfig).start() for _ in range(2)]
    try:
        for replica in replicas:
            replica.wait_ready()
        room.add_nodes(*_nodes())
        creation = room.add_pods_meanwhile(*_pods(room, PODS))
        room.wait_bound(PODS // 10)
        leaders = [replica for replica in replicas if "Successfully acquired lease" in replica.log()]
        assert len(leaders) == 1
        leaders[0].kill()
        killed = time.monotonic()
        # Requests that the leader had sent still arrive.
        time.sleep(0.3)
        bound = len(room.wait_bound(PODS // 10))
        assert bound < PODS, "too late to be in the middle"
        room.wait_bound(bound + 1, LEASE_SECONDS + 2 - (time.monotonic() - killed))
        creation.result(60)
        check_nothing_was_lost_or_doubled(room, cluster, pods=PODS, pods_per_node=PODS_PER_NODE, seconds=90)
    finally:
        for replica in replicas:
            replica.kill()


@pytest.mark.tandem_only
def test_a_token_that_is_rotated_is_taken_up_and_the_old_one_is_not_missed(
    room: Room, new_tandem: Callable[..., Tandem], identities: Identities, client: Client, tmp_path: Path
) -> None:
    kubeconfig = identities.kubeconfig("rotating", shipped_rules())
    file = tmp_path / "token"

    def hand_out(secret: str) -> None:
        """A token that is good for as long as the Secret is there."""
        name = {"name": secret, "namespace": HOME}
        client.create({"kind": "Secret", "apiVersion": "v1", "metadata": name})
        bound_to = {"kind": "Secret", "apiVersion": "v1", "name": secret}
        request = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "spec": {"expirationSeconds": 7200, "boundObjectRef": bound_to},
        }
        answer = client.post(f"{paths.one('ServiceAccount', 'rotating', HOME)}/token", request)
        fresh = tmp_path / "fresh"
        fresh.write_text(answer["status"]["token"])
        fresh.rename(file)

    hand_out(f"{room.name}-first")
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"] = [{"name": "rotating", "user": {"tokenFile": str(file)}}]
    with_file = tmp_path / "kubeconfig"
    with_file.write_text(yaml.safe_dump(config))
    room.add_nodes(builders.node("a", pods=200))
    with new_tandem(kubeconfig=with_file) as tandem:
        room.add_pods(*_small(room, 10, "before"))
        room.wait_bound(10)
        hand_out(f"{room.name}-second")
        client.delete("Secret", f"{room.name}-first", HOME)
        # The API server itself remembers for ten seconds that the old token was good.
        for number in range(15):
            room.add_pods(*_small(room, 2, f"round{number}-"))
            time.sleep(1)
        assert len(room.wait_bound(40, 20)) == 40
        assert tandem.process.alive
        assert "Traceback" not in tandem.log()
    client.delete("Secret", f"{room.name}-second", HOME)


def _small(room: Room, count: int, prefix: str) -> list[dict[str, object]]:
    return [builders.pod(f"{prefix}{i}", room.name) for i in range(count)]
