"""Groups of pods over real HTTP, with volumes, devices, Permit plugins and nominated nodes.

The shipped shell beside an embedded cluster with its controllers and kubelets.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.shell_settings import kinds_read
from scheduler.compose import build_engine, build_profiles
from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.loading import load
from scheduler.controller.loop import read_clock
from scheduler.controller.parts import Parts
from scheduler.controller.run import Shell
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.engine.engine import Engine
from scheduler.framework.plugin import Plugin, Wait
from scheduler.messages.status import unschedulable
from scheduler.plugins.registry import registry
from scheduler.simulate.apiserver import kinds as served
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.testing.documents import node_json, pod_json
from tests import device_documents
from tests.controller.conftest import until
from tests.controller.running import quiet_settings, running
from tests.engine.scripted import scripted

GATES = parse_feature_gates(
    "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true,DRAWorkloadResourceClaims=true"
)
HOSTNAME = "kubernetes.io/hostname"
Document = dict[str, Any]


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster() as made:
        yield made


@pytest.fixture
def connection(cluster: EmbeddedCluster, tmp_path: Path) -> ConnectionSettings:
    return ConnectionSettings(kubeconfig=str(cluster.kubeconfig(tmp_path / "kubeconfig")))


@asynccontextmanager
async def scheduling(connection: ConnectionSettings, *plugins: type[Plugin]) -> AsyncIterator[Engine]:
    enabled = ", ".join(f"{{name: {plugin.name}}}" for plugin in plugins)
    configuration = load(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{schedulerName: tandem-scheduler, plugins: {{multiPoint: {{enabled: [{enabled}]}}}}}}]\n",
        gates=GATES,
    )
    profiles = build_profiles(configuration, registry(plugins, gates=GATES))
    engine = build_engine(configuration, started=read_clock(), seed=1, profiles=profiles)
    settings = quiet_settings(connection, kinds=kinds_read(GATES))
    async with running(Shell(settings, Parts(engine), {})) as shell:
        await until(lambda: engine.is_synced)
        yield engine
        assert shell.loop.counts.errors == 0


class Scene:
    """What tests put into the cluster, and what they ask of it."""

    def __init__(self, cluster: EmbeddedCluster, nodes: int = 3) -> None:
        self.cluster = cluster
        for number in range(nodes):
            document = node_json(f"n{number}", cpu="2")
            document["metadata"]["labels"] = {HOSTNAME: f"n{number}"}
            self.put(served.NODES, document, "")

    def put(self, kind: served.Kind, document: Document, namespace: str = "default") -> Document:
        return self.cluster.registry.create(kind, namespace, document).object

    def gang(self, min_count: int, **spec: Any) -> None:
        policy = {"gang": {"minCount": min_count}}
        self.put(served.POD_GROUPS, {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy, **spec}})

    def member(self, name: str, cpu: str = "1", **spec: Any) -> None:
        self.put(served.PODS, pod_json(name, cpu=cpu, spec={"schedulingGroup": {"podGroupName": "g"}, **spec}))

    def pods(self) -> dict[str, Document]:
        return {pod["metadata"]["name"]: pod for pod in self.cluster.store.list(served.PODS, "default")}

    def node_of(self, name: str) -> str:
        return str(self.pods()[name]["spec"].get("nodeName", ""))

    def refused(self, *names: str) -> bool:
        """Whether each of these pods is said to be unschedulable."""
        pods = self.pods()
        return all(
            any(one.get("reason") == "Unschedulable" for one in pods[name]["status"].get("conditions", ()))
            for name in names
        )


# --- volumes ----------------------------------------------------------------------------------------------------------


def local_volumes(scene: Scene, count: int) -> None:
    """A claim for each of three members; as many volumes, each on a node of its own, as there are to be."""
    storage = {"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"}
    scene.put(served.STORAGE_CLASSES, storage | {"volumeBindingMode": "WaitForFirstConsumer"}, "")
    shape: Document = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]}
    for number in range(count):
        here = {"key": HOSTNAME, "operator": "In", "values": [f"n{number}"]}
        spec = {
            **shape,
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        scene.put(served.PERSISTENT_VOLUMES, {"metadata": {"name": f"v{number}"}, "spec": spec}, "")
    for number in range(3):
        spec = {**shape, "resources": {"requests": {"storage": "1Gi"}}}
        scene.put(served.PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": f"c{number}"}, "spec": spec})
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"c{number}"}}
        scene.member(f"g{number}", volumes=[volume])


async def test_a_gang_gets_the_volumes_that_wait_for_their_first_consumer(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    scene = Scene(cluster)
    async with scheduling(connection):
        scene.gang(3)
        local_volumes(scene, 3)
        await until(lambda: {scene.node_of(f"g{number}") for number in range(3)} == {"n0", "n1", "n2"})
        claims = cluster.store.list(served.PERSISTENT_VOLUME_CLAIMS, "default")
        assert {claim["spec"]["volumeName"] for claim in claims} == {"v0", "v1", "v2"}


async def test_a_gang_with_too_few_volumes_has_none_bound(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    scene = Scene(cluster)
    async with scheduling(connection):
        scene.gang(3)
        local_volumes(scene, 2)
        await until(lambda: scene.refused("g0", "g1", "g2"))
        assert not any("claimRef" in one["spec"] for one in cluster.store.list(served.PERSISTENT_VOLUMES, ""))
        here = {"key": HOSTNAME, "operator": "In", "values": ["n2"]}
        spec = {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        scene.put(served.PERSISTENT_VOLUMES, {"metadata": {"name": "late"}, "spec": spec}, "")
        await until(lambda: all(scene.node_of(f"g{number}") for number in range(3)))


# --- devices ----------------------------------------------------------------------------------------------------------


async def test_a_claim_of_the_group_is_shared_by_its_pods_and_reserved_for_the_group(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    scene = Scene(cluster)
    scene.put(served.DEVICE_CLASSES, device_documents.device_class("gpu"), "")
    scene.put(served.RESOURCE_SLICES, device_documents.resource_slice("n1", device_documents.gpu("d0")), "")
    scene.put(served.RESOURCE_CLAIMS, device_documents.claim("shared", "gpu"))
    async with scheduling(connection):
        entry = {"name": "accelerator", "resourceClaimName": "shared"}
        scene.gang(2, resourceClaims=[entry])
        for name in ("a", "b"):
            scene.member(name, resourceClaims=[entry])
        await until(lambda: {scene.node_of("a"), scene.node_of("b")} == {"n1"})
        (claim,) = cluster.store.list(served.RESOURCE_CLAIMS, "default")
        assert [(one["resource"], one["name"]) for one in claim["status"]["reservedFor"]] == [("podgroups", "g")]


# --- Permit plugins ---------------------------------------------------------------------------------------------------


async def test_a_permit_plugin_that_refuses_a_member_holds_the_whole_gang_back(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    is_shut = True

    def permit(pod: str, _node: str) -> Any:
        return unschedulable("the licence is taken") if pod == "b" and is_shut else None

    scene = Scene(cluster)
    async with scheduling(connection, scripted("Licence", permit=permit)):
        scene.gang(2)
        scene.member("a")
        scene.member("b")
        await until(lambda: scene.refused("a", "b"))
        assert not scene.node_of("a") and not scene.node_of("b")
        is_shut = False
        scene.put(served.NODES, node_json("n9", cpu="2"), "")
        await until(lambda: bool(scene.node_of("a")) and bool(scene.node_of("b")))


async def test_a_member_that_another_permit_plugin_lets_wait_is_bound_when_it_may(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    scene = Scene(cluster)
    plugin = scripted("Slow", permit=lambda pod, _node: Wait(600) if pod == "a" else None)
    async with scheduling(connection, plugin) as engine:
        scene.gang(3)
        # The last that is tried must not wait, or the gang does not fit: that is b or c, whatever is seen first.
        for name in "abc":
            scene.member(name)
        await until(lambda: bool(scene.node_of("b")) and bool(scene.node_of("c")))
        assert not scene.node_of("a")
        (waiting,) = engine.waiting_pods("Slow")
        assert waiting.pod.name == "a"


# --- nominated nodes --------------------------------------------------------------------------------------------------


async def test_members_are_nominated_to_the_room_that_is_made_and_get_it(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    scene = Scene(cluster, nodes=2)
    scene.put(served.PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100}, "")
    for number in range(2):
        spec = {"terminationGracePeriodSeconds": 0, "nodeName": f"n{number}"}
        scene.put(served.PODS, pod_json(f"low{number}", cpu="2", spec=spec))
    nominated: dict[str, str] = {}

    def note() -> bool:
        for name, pod in scene.pods().items():
            if pod["status"].get("nominatedNodeName"):
                nominated[name] = pod["status"]["nominatedNodeName"]
        return all(scene.pods()[name]["spec"].get("nodeName") for name in ("a", "b"))

    async with scheduling(connection):
        scene.gang(2, priorityClassName="high")
        for name in ("a", "b"):
            scene.member(name, cpu="2", priorityClassName="high")
        await until(note)
    assert nominated == {name: scene.node_of(name) for name in ("a", "b")}
    assert not scene.pods().keys() & {"low0", "low1"}


async def test_the_room_of_a_more_urgent_nominated_pod_is_not_the_gangs(
    cluster: EmbeddedCluster, connection: ConnectionSettings
) -> None:
    scene = Scene(cluster, nodes=0)
    for name, cpu in (("n0", "4"), ("n1", "1")):
        scene.put(served.NODES, node_json(name, cpu=cpu), "")
    scene.put(served.PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100}, "")
    leaving = pod_json("low", cpu="3", node="n0")
    leaving["metadata"]["finalizers"] = ["example.com/stays"]
    scene.put(served.PODS, leaving)
    async with scheduling(connection):
        scene.put(served.PODS, pod_json("first", cpu="3", spec={"priorityClassName": "high"}))
        await until(lambda: scene.pods()["first"]["status"].get("nominatedNodeName") == "n0")
        scene.gang(2)
        for name in ("a", "b"):
            scene.member(name)
        await until(lambda: scene.refused("a", "b"))
        cluster.store.remove(served.PODS, "default", "low")
        await until(lambda: scene.node_of("first") == "n0")
        scene.put(served.NODES, node_json("n2", cpu="1"), "")
        await until(lambda: all(scene.node_of(name) for name in ("a", "b")))
