"""Promise: kubectl works with the embedded cluster of `tandem demo`: what it can't answer, it says in one line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e import builders
from e2e.controlplane import build
from scheduler.simulate.apiserver import Follower
from scheduler.simulate.apiserver.kinds import NODES, PODS
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.kubelet import KubeletSettings

pytestmark = pytest.mark.tandem_only

SECONDS = 30
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Printed:
    code: int
    out: str
    err: str


Kubectl = Callable[..., Awaitable[Printed]]


@pytest.fixture
async def embedded() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(kubelet=KubeletSettings(renews_leases=True)) as running:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        for name in ("n", "m"):
            body = {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}
            running.registry.create(NODES, "", body)
        yield running


@pytest.fixture
def kubectl(embedded: EmbeddedCluster, tmp_path: Path) -> Kubectl:
    program = build.programs() / "kubectl"
    kubeconfig = embedded.kubeconfig(tmp_path / "kubeconfig")

    async def run(*words: str, document: Json | None = None) -> Printed:
        process = await asyncio.create_subprocess_exec(
            str(program), f"--kubeconfig={kubeconfig}", f"--cache-dir={tmp_path}", *words,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        sent = json.dumps(document or {}).encode()
        out, err = await asyncio.wait_for(process.communicate(sent), SECONDS)
        assert process.returncode is not None
        return Printed(process.returncode, out.decode(), err.decode())

    return run


async def _until(embedded: EmbeddedCluster, condition: Callable[[], bool]) -> None:
    follower = Follower(embedded.store, PODS)
    try:
        async with asyncio.timeout(SECONDS):
            while not condition():
                await follower.changes()
    finally:
        follower.close()


async def test_auth_shows_the_user_and_its_rights(kubectl: Kubectl) -> None:
    assert (await kubectl("auth", "can-i", "create", "pods")).out == "yes\n"
    assert (await kubectl("auth", "can-i", "get", "/metrics")).out == "yes\n"
    assert "*.*" in (await kubectl("auth", "can-i", "--list")).out
    assert "admin" in (await kubectl("auth", "whoami")).out


async def test_explain_lists_the_fields_that_are_read_and_says_that_these_are_not_all(kubectl: Kubectl) -> None:
    for kind in ("pod", "nodes", "deploy", "cm", "pdb", "resourceclaims", "pvc", "podgroups"):
        shown = await kubectl("explain", kind)
        assert shown.code == 0 and "embedded API server" in shown.out, (kind, shown)
    assert "tolerationSeconds\t<integer>" in (await kubectl("explain", "pod.spec.tolerations")).out
    assert "<[]Taint>" in (await kubectl("explain", "node.spec")).out
    assert "kept as it was sent" in " ".join((await kubectl("explain", "deploy.spec")).out.split())
    assert (await kubectl("explain", "pod", "--recursive")).code == 0
    nothing = await kubectl("explain", "pod.spec.nothing")
    assert nothing.code == 1 and 'field "nothing" does not exist' in nothing.err


async def test_apply_server_side_creates_merges_and_names_conflicts(kubectl: Kubectl) -> None:
    labels = {"app": "web"}
    pod_spec = {"containers": [{"name": "c", "image": "i:1"}], "nodeName": "n"}
    document: Json = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": pod_spec}},
    }  # fmt: skip
    apply = ("apply", "--server-side", "-f", "-")
    for _ in range(2):
        assert (await kubectl(*apply, document=document)).out == "deployment.apps/web serverside-applied\n"
    assert (await kubectl("diff", "--server-side", "-f", "-", document=document)).code == 0
    assert (await kubectl("scale", "deploy/web", "--replicas=3")).code == 0
    refused = await kubectl(*apply, document=document)
    assert refused.code == 1
    assert 'with subresource "scale" using apps/v1: .spec.replicas' in refused.err
    forced = await kubectl(*apply, "--force-conflicts", document=document)
    assert forced.out == "deployment.apps/web serverside-applied\n"
    shown = json.loads((await kubectl("get", "deploy/web", "-o", "json", "--show-managed-fields")).out)
    assert shown["spec"]["replicas"] == 1
    assert ("kubectl", "Apply") in {(one["manager"], one["operation"]) for one in shown["metadata"]["managedFields"]}


async def test_one_may_change_from_client_side_to_server_side_apply(kubectl: Kubectl) -> None:
    document: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}
    assert (await kubectl("apply", "-f", "-", document=document)).out == "configmap/m created\n"
    changed = {**document, "data": {"a": "1", "b": "2"}}
    moved = await kubectl("apply", "--server-side", "-f", "-", document=changed)
    assert moved.out == "configmap/m serverside-applied\n", moved


async def test_a_taint_evicts_what_does_not_tolerate_it(embedded: EmbeddedCluster, kubectl: Kubectl) -> None:
    tolerates = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
    pods = {"fragile": [], "brief": [{**tolerates, "tolerationSeconds": 1}], "hardy": [tolerates]}
    for name, tolerations in pods.items():
        pod = builders.pod(name, "default", nodeName="n", tolerations=tolerations)
        await kubectl("create", "-f", "-", document=pod)
    assert (await kubectl("taint", "node", "n", "broken=yes:NoExecute")).out == "node/n tainted\n"
    await _until(embedded, lambda: {one["metadata"]["name"] for one in embedded.store.list(PODS)} == {"hardy"})
    events = (await kubectl("events")).out
    assert "TaintManagerEviction" in events and "Marking for deletion Pod default/fragile" in events


async def test_describe_node_shows_its_lease_and_what_its_pods_request(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", document=builders.pod("p", "default", "500m", "1Gi", nodeName="n"))
    shown = " ".join((await kubectl("describe", "node", "n")).out.split())
    assert "HolderIdentity: n" in shown and "RenewTime:" in shown and "Failed" not in shown
    assert "default p 500m (12%) 0 (0%) 1Gi (12%) 0 (0%)" in shown


async def test_logs_and_exec_say_in_one_line_what_this_cluster_is(embedded: EmbeddedCluster, kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", document=builders.pod("p", "default", "500m", "1Gi", nodeName="n"))
    await _until(embedded, lambda: embedded.store.list(PODS)[0]["status"].get("phase") == "Running")
    for words in (("logs", "p"), ("logs", "-f", "p", "-c", "main")):
        log = await kubectl(*words)
        assert log.code == 0 and log.out.count("\n") == 1 and "runs no containers" in log.out
    for refusing in (("exec", "p", "--", "ls"), ("attach", "p")):
        refused = await kubectl(*refusing)
        assert refused.code == 1 and "runs no containers" in refused.err, refused
