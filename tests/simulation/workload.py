"""A random workload: pods of many shapes come and go, nodes appear, vanish and change, watches break; from one seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from scheduler.objects.kinds import Kind
from scheduler.simulate.changes import BreakWatch, Change, Create, Delete, Merge, Reload, Restart
from scheduler.simulate.world import World
from scheduler.simulate.world_facts import Document, is_over
from scheduler.simulate.world_volumes import HOST, NO_PROVISIONER, volume_document
from scheduler.testing.documents import node_json, pod_json
from scheduler.testing.fragments import affinity_json, pod_term, spread_json
from tests.simulation.workload_devices import DeviceActions, free_gpus
from tests.simulation.workload_gangs import GangActions, group_of

ZONE: Final = "topology.kubernetes.io/zone"
GATE: Final = "example.com/wait"
ZONES: Final = ("a", "b", "c")
APPS: Final = ("web", "db", "batch")
PRIORITIES: Final = (0, 0, 0, 0, 100, 1000)
LOCAL, MADE = "local", "made"
"""Storage classes: volumes that are there on one node each, and volumes that are provisioned for a claim."""


_CONSTRAINTS: Final = (
    "topologySpreadConstraints",
    "affinity",
    "schedulingGates",
    "volumes",
    "schedulingGroup",
    "resourceClaims",
)

OPEN_GATES: Final[Document] = {"spec": {"schedulingGates": None}}


class RandomWorkload:
    """``step`` draws one random change that fits the present state of the world and does not carry it out."""

    def __init__(
        self,
        world: World,
        *,
        nodes: int = 5,
        volumes: bool = False,
        gangs: bool = False,
        devices: bool = False,
        configurations: int = 1,
    ) -> None:
        self._world = world
        self._nodes = nodes
        self._configurations = configurations
        self._random = Random(world.seed)
        self._made = 0
        self._volumes = volumes
        self._actions: dict[Callable[[], Iterator[Change]], int] = {
            self._add_pod: 50,
            self._delete_pod: 20,
            self._finish_pod: 10,
            self._open_gate: 5,
            self._add_node: 2,
            self._remove_node: 2,
            self._cordon_or_not: 4,
            self._taint_or_not: 4,
            self._grow_node: 2,
            self._break_a_watch: 2,
            self._restart: 1,
        }
        if volumes:
            self._actions |= {self._add_pod_with_claim: 20, self._add_volume: 8, self._delete_claim: 5}
        self._gangs = gangs
        if gangs:
            self._actions |= GangActions(self._random, lambda: world.facts, PRIORITIES).weights()
        self._devices = DeviceActions(self._random, lambda: world.facts, self._pod) if devices else None
        if self._devices is not None:
            self._actions |= self._devices.weights()
        if configurations > 1:
            self._actions[self._reload] = 3

    def begin(self) -> Iterator[Change]:
        """What is there at the start."""
        for _ in range(self._nodes):
            yield from self._add_node()
        for app in APPS:
            budget = {
                "metadata": {"name": app, "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": app}}},
                "status": {"disruptionsAllowed": self._random.randrange(3)},
            }
            yield Create(Kind.POD_DISRUPTION_BUDGET, budget)
        if self._volumes:
            for name, provisioner in ((LOCAL, NO_PROVISIONER), (MADE, "csi.example.com")):
                mode = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
                yield Create(Kind.STORAGE_CLASS, {"metadata": {"name": name}, **mode})
        if self._devices is not None:
            yield from self._devices.begin()

    def step(self) -> list[Change]:
        """One random action: the changes that it consists of, none if nothing is there for it."""
        return list(self._random.choices(list(self._actions), list(self._actions.values()))[0]())

    def settle(self) -> Iterator[Change]:
        """Revert what would keep pods waiting for ever: cordons, taints, gates, and the first configuration is back."""
        for name, _ in self._world.facts.of(Kind.NODE):
            yield Merge(Kind.NODE, name, {"spec": {"unschedulable": None, "taints": None}})
        for key, _ in self._world.facts.of(Kind.POD):
            yield Merge(Kind.POD, key, OPEN_GATES)
        if self._devices is not None:
            yield from self._devices.settle()
        if self._configurations > 1:
            yield Reload(0)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _add_pod(self) -> Iterator[Change]:
        yield Create(Kind.POD, self._pod())

    def _pod(self) -> Document:
        random = self._random
        app = random.choice(APPS)
        spec: Document = {}
        if random.random() < 0.15:
            spec["nodeSelector"] = {ZONE: random.choice(ZONES)}
        if random.random() < 0.3:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if random.random() < 0.2:
            spec["topologySpreadConstraints"] = [spread_json(random.choice((ZONE, HOST)), {"app": app}, max_skew=2)]
        if random.random() < 0.1:
            spec["affinity"] = affinity_json(anti_required=[pod_term({"app": app})])
        elif random.random() < 0.1:
            spec["affinity"] = affinity_json(required=[pod_term({"app": app})])
        if random.random() < 0.05:
            spec["schedulingGates"] = [{"name": GATE}]
        if random.random() < 0.1:
            spec["preemptionPolicy"] = "Never"
        self._made += 1
        document = pod_json(
            f"{app}-{self._made}",
            labels={"app": app},
            cpu=f"{random.choice((100, 250, 500, 1000, 2000))}m",
            memory=f"{random.choice((64, 256, 1024))}Mi",
            priority=random.choice(PRIORITIES),
            spec=spec,
        )
        if random.random() < 0.1:
            document["spec"]["containers"][0]["ports"] = [
                {"containerPort": 80, "hostPort": random.choice((8080, 8081))}
            ]
        return document

    def _delete_pod(self) -> Iterator[Change]:
        if key := self._any(Kind.POD, lambda pod: "deletionTimestamp" not in pod["metadata"]):
            yield Delete(Kind.POD, key)

    def _finish_pod(self) -> Iterator[Change]:
        if key := self._any(Kind.POD, lambda pod: pod["status"]["phase"] == "Running"):
            yield Merge(Kind.POD, key, {"status": {"phase": "Succeeded"}})

    def _open_gate(self) -> Iterator[Change]:
        if key := self._any(Kind.POD, lambda pod: bool(pod["spec"].get("schedulingGates"))):
            yield Merge(Kind.POD, key, OPEN_GATES)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _add_node(self) -> Iterator[Change]:
        self._made += 1
        zone = self._random.choice(ZONES)
        cpu = self._random.choice((2, 4, 8))
        node = node_json(f"node-{self._made}", cpu=str(cpu), memory=f"{2 * cpu}Gi", pods=20, zone=zone)
        yield Create(Kind.NODE, node)

    def _remove_node(self) -> Iterator[Change]:
        if len(list(self._world.facts.of(Kind.NODE))) > 2 and (name := self._any(Kind.NODE)):
            yield Delete(Kind.NODE, name)

    def _cordon_or_not(self) -> Iterator[Change]:
        if name := self._any(Kind.NODE):
            yield Merge(Kind.NODE, name, {"spec": {"unschedulable": self._random.random() < 0.5}})

    def _taint_or_not(self) -> Iterator[Change]:
        if name := self._any(Kind.NODE):
            taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if self._random.random() < 0.5 else []
            yield Merge(Kind.NODE, name, {"spec": {"taints": taints}})

    def _grow_node(self) -> Iterator[Change]:
        if name := self._any(Kind.NODE):
            node = self._world.facts.get(Kind.NODE, name) or {}
            more = {"cpu": str(int(node["status"]["allocatable"]["cpu"]) + 1)}
            yield Merge(Kind.NODE, name, {"status": {"allocatable": more, "capacity": more}})

    # --- volumes ------------------------------------------------------------------------------------------------------

    def _add_pod_with_claim(self) -> Iterator[Change]:
        pod = self._pod()
        name = pod["metadata"]["name"]
        storage_class = self._random.choice((LOCAL, MADE))
        claim = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "storageClassName": storage_class,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": self._random.choice(("1Gi", "5Gi"))}},
            },
            "status": {"phase": "Pending"},
        }
        pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        changes = [Create(Kind.PERSISTENT_VOLUME_CLAIM, claim), Create(Kind.POD, pod)]
        # A pod may be there before its claim.
        yield from changes if self._random.random() < 0.8 else reversed(changes)

    def _add_volume(self) -> Iterator[Change]:
        if host := self._any(Kind.NODE):
            self._made += 1
            size = self._random.choice(("1Gi", "10Gi"))
            yield Create(Kind.PERSISTENT_VOLUME, volume_document(f"local-{self._made}", host, LOCAL, size))

    def _delete_claim(self) -> Iterator[Change]:
        """As the protection of claims has it, only those whose pod is gone."""
        used = {key for key, _ in self._world.facts.of(Kind.POD)}
        for key, _ in self._world.facts.of(Kind.PERSISTENT_VOLUME_CLAIM):
            if key not in used:
                yield Delete(Kind.PERSISTENT_VOLUME_CLAIM, key)

    # --- the network and the scheduler itself -------------------------------------------------------------------------

    def _break_a_watch(self) -> Iterator[Change]:
        kinds = [Kind.POD, Kind.NODE, Kind.POD_DISRUPTION_BUDGET]
        if self._volumes:
            kinds += [Kind.PERSISTENT_VOLUME, Kind.PERSISTENT_VOLUME_CLAIM]
        if self._gangs:
            kinds.append(Kind.POD_GROUP)
        if self._devices is not None:
            kinds += [Kind.RESOURCE_CLAIM, Kind.RESOURCE_SLICE]
        yield BreakWatch(self._random.choice(kinds))

    def _restart(self) -> Iterator[Change]:
        yield Restart()

    def _reload(self) -> Iterator[Change]:
        yield Reload(self._random.randrange(self._configurations))

    def _any(self, kind: Kind, wanted: Callable[[Document], bool] = lambda _: True) -> str:
        """The key of a random matching object, "" if there is none."""
        keys = [key for key, document in self._world.facts.of(kind) if wanted(document)]
        return self._random.choice(keys) if keys else ""


def plain_pods_that_fit(world: World) -> list[str]:
    """Pending pods for which some node has room, computed from the facts alone, as a check on the engine.

    Only pods without constraints on other pods are checked: requests, node selector, tolerations, and whether a pod
    on the node has anti-affinity to them. Those of a gang are left to ``gangs_that_fit``. Of those with claims the
    plain ones are checked: one GPU, which they have not got yet."""
    free = {name: _free(world, name, node) for name, node in world.facts.of(Kind.NODE)}
    gpus = free_gpus(world.facts)
    found = []
    for key in world.pending():
        pod = world.facts.get(Kind.POD, key) or {}
        spec = pod["spec"]
        wants_gpu = _wants_one_gpu(world, pod)
        if any(spec.get(field) for field in _CONSTRAINTS if not (field == "resourceClaims" and wants_gpu)):
            continue
        container = spec["containers"][0]
        if container.get("ports") or "deletionTimestamp" in pod["metadata"]:
            continue
        cpu, memory = _amounts(container)
        for name, node in world.facts.of(Kind.NODE):
            has_room = free[name][0] >= cpu and free[name][1] >= memory and free[name][2] >= 1
            has_room = has_room and (not wants_gpu or gpus.get(name, 0) > 0)
            if has_room and _lets_in(node, spec) and not _is_shunned(world, name, pod):
                found.append(key)
                break
    return found


def _wants_one_gpu(world: World, pod: Document) -> bool:
    """Whether all it claims is a GPU, in a claim made for it that has none yet."""
    if [entry.get("resourceClaimTemplateName") for entry in pod["spec"].get("resourceClaims", ())] != ["gpus-1"]:
        return False
    if world.facts.get(Kind.DEVICE_CLASS, "gpus") is None:
        return False
    made = pod["status"].get("resourceClaimStatuses", ())
    claims = [world.facts.get(Kind.RESOURCE_CLAIM, f"default/{one['resourceClaimName']}") or {} for one in made]
    return bool(claims) and not any(claim.get("status", {}).get("allocation") for claim in claims)


def gangs_that_fit(world: World) -> list[str]:
    """Gangs with pending members of which enough would fit, computed from the facts alone. A gang whose name was taken
    again, so that its members are not alike, is left out."""
    found = []
    for key, group in world.facts.of(Kind.POD_GROUP):
        members = [pod for _, pod in world.facts.of(Kind.POD) if group_of(pod) == key and not is_over(pod)]
        pending = [pod for pod in members if not pod["spec"].get("nodeName")]
        if not pending or any(pod["spec"]["containers"] != pending[0]["spec"]["containers"] for pod in pending):
            continue
        fitting = min(len(pending), sum(_how_many(world, pending[0], *node) for node in world.facts.of(Kind.NODE)))
        quorum = group["spec"]["schedulingPolicy"]["gang"]["minCount"]
        if fitting and len(members) - len(pending) + fitting >= quorum and len(members) >= quorum:
            found.append(key)
    return found


def _how_many(world: World, pod: Document, name: str, node: Document) -> int:
    """How many pods like this one fit on the node."""
    if not _lets_in(node, pod["spec"]) or _is_shunned(world, name, pod):
        return 0
    cpu, memory = _amounts(pod["spec"]["containers"][0])
    free_cpu, free_memory, pods = _free(world, name, node)
    return max(min(free_cpu // cpu, free_memory // memory, pods), 0)


def _free(world: World, name: str, node: Document) -> tuple[int, int, int]:
    allocatable = node["status"]["allocatable"]
    cpu, memory, pods = int(allocatable["cpu"]) * 1000, _mebi(allocatable["memory"]), int(allocatable["pods"])
    for _, pod in world.facts.of(Kind.POD):
        if pod["spec"].get("nodeName") == name and not is_over(pod):
            used_cpu, used_memory = _amounts(pod["spec"]["containers"][0])
            cpu, memory, pods = cpu - used_cpu, memory - used_memory, pods - 1
    return cpu, memory, pods


def _lets_in(node: Document, spec: Document) -> bool:
    labels = node["metadata"]["labels"]
    if node["spec"].get("unschedulable") or not spec.get("nodeSelector", {}).items() <= labels.items():
        return False
    return not node["spec"].get("taints") or bool(spec.get("tolerations"))


def _is_shunned(world: World, name: str, pod: Document) -> bool:
    for _, other in world.facts.of(Kind.POD):
        is_there = other["spec"].get("nodeName") == name and not is_over(other)
        is_alike = other["metadata"]["labels"]["app"] == pod["metadata"]["labels"]["app"]
        if is_there and is_alike and "podAntiAffinity" in other["spec"].get("affinity", {}):
            return True
    return False


def _amounts(container: Document) -> tuple[int, int]:
    requests = container["resources"]["requests"]
    return int(requests["cpu"].removesuffix("m")), _mebi(requests["memory"])


def _mebi(text: str) -> int:
    return int(text[:-2]) * (1024 if text.endswith("Gi") else 1)
