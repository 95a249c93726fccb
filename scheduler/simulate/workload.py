"""A random workload: pods of many shapes come and go, nodes appear, vanish and change, watches break; from one seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from scheduler.objects.kinds import Kind
from scheduler.simulate.world import World
from scheduler.simulate.world_facts import Document, is_over

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
GATE: Final = "example.com/wait"
ZONES: Final = ("a", "b", "c")
APPS: Final = ("web", "db", "batch")
PRIORITIES: Final = (0, 0, 0, 0, 100, 1000)


def node_document(name: str, *, cpu: int = 4, zone: str = "a", pods: int = 20) -> Document:
    """A node with ``cpu`` CPUs and 2 GiB for each of them."""
    amounts = {"cpu": str(cpu), "memory": f"{2 * cpu}Gi", "pods": str(pods)}
    return {
        "metadata": {"name": name, "labels": {HOST: name, ZONE: zone}},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": dict(amounts)},
    }


def pod_document(name: str, *, cpu: str = "500m", memory: str = "256Mi", priority: int = 0, **spec: Any) -> Document:
    """A pod with one container; ``spec`` is merged into its specification."""
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name.partition("-")[0]}},
        "spec": {
            "schedulerName": "tandem-scheduler",
            "priority": priority,
            "containers": [
                {"name": "main", "image": "app:v1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
            ],
            **spec,
        },
    }


class RandomWorkload:
    """``step`` makes one random change; ``settle`` reverts what would keep pods waiting for ever."""

    def __init__(self, world: World, nodes: int = 5) -> None:
        self._world = world
        self._random = world.random
        self._made = 0
        for _ in range(nodes):
            self._add_node()
        for app in APPS:
            self._world.create(
                Kind.POD_DISRUPTION_BUDGET,
                {
                    "metadata": {"name": app, "namespace": "default"},
                    "spec": {"selector": {"matchLabels": {"app": app}}},
                    "status": {"disruptionsAllowed": self._random.randrange(3)},
                },
            )

    def step(self) -> None:
        actions: tuple[tuple[Callable[[], None], int], ...] = (
            (self._add_pod, 50),
            (self._delete_pod, 20),
            (self._finish_pod, 10),
            (self._open_gate, 5),
            (self._add_node, 2),
            (self._remove_node, 2),
            (self._cordon_or_not, 4),
            (self._taint_or_not, 4),
            (self._grow_node, 2),
            (self._break_a_watch, 2),
            (self._world.restart, 1),
        )
        self._random.choices([do for do, _ in actions], [weight for _, weight in actions])[0]()

    def settle(self) -> None:
        """Uncordons nodes and opens gates."""
        for name, _ in list(self._world.facts.of(Kind.NODE)):
            self._world.change(Kind.NODE, name, _open_node)
        for key, _ in list(self._world.facts.of(Kind.POD)):
            self._world.change(Kind.POD, key, _open_gates)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _add_pod(self) -> None:
        random = self._random
        app = random.choice(APPS)
        spec: Document = {}
        if random.random() < 0.15:
            spec["nodeSelector"] = {ZONE: random.choice(ZONES)}
        if random.random() < 0.3:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if random.random() < 0.2:
            spec["topologySpreadConstraints"] = [_spread(app, random.choice((ZONE, HOST)))]
        if random.random() < 0.1:
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(app)]}}
        elif random.random() < 0.1:
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term(app)]}}
        if random.random() < 0.05:
            spec["schedulingGates"] = [{"name": GATE}]
        if random.random() < 0.1:
            spec["preemptionPolicy"] = "Never"
        self._made += 1
        document = pod_document(
            f"{app}-{self._made}",
            cpu=f"{random.choice((100, 250, 500, 1000, 2000))}m",
            memory=f"{random.choice((64, 256, 1024))}Mi",
            priority=random.choice(PRIORITIES),
            **spec,
        )
        if random.random() < 0.1:
            document["spec"]["containers"][0]["ports"] = [
                {"containerPort": 80, "hostPort": random.choice((8080, 8081))}
            ]
        self._world.create(Kind.POD, document)

    def _delete_pod(self) -> None:
        if key := self._any(Kind.POD, lambda pod: "deletionTimestamp" not in pod["metadata"]):
            self._world.delete(Kind.POD, key)

    def _finish_pod(self) -> None:
        if key := self._any(Kind.POD, lambda pod: pod["status"]["phase"] == "Running"):
            self._world.change(Kind.POD, key, lambda pod: pod["status"].update(phase="Succeeded"))

    def _open_gate(self) -> None:
        if key := self._any(Kind.POD, lambda pod: bool(pod["spec"].get("schedulingGates"))):
            self._world.change(Kind.POD, key, _open_gates)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _add_node(self) -> None:
        self._made += 1
        zone = self._random.choice(ZONES)
        self._world.create(
            Kind.NODE, node_document(f"node-{self._made}", cpu=self._random.choice((2, 4, 8)), zone=zone)
        )

    def _remove_node(self) -> None:
        if len(list(self._world.facts.of(Kind.NODE))) > 2 and (name := self._any(Kind.NODE)):
            self._world.delete(Kind.NODE, name)

    def _cordon_or_not(self) -> None:
        if name := self._any(Kind.NODE):
            is_open = self._random.random() < 0.5
            self._world.change(Kind.NODE, name, lambda node: node["spec"].update(unschedulable=is_open))

    def _taint_or_not(self) -> None:
        if name := self._any(Kind.NODE):
            taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if self._random.random() < 0.5 else []
            self._world.change(Kind.NODE, name, lambda node: node["spec"].update(taints=taints))

    def _grow_node(self) -> None:
        if name := self._any(Kind.NODE):
            self._world.change(Kind.NODE, name, _grow)

    def _break_a_watch(self) -> None:
        self._world.break_watch(self._random.choice((Kind.POD, Kind.NODE, Kind.POD_DISRUPTION_BUDGET)))

    def _any(self, kind: Kind, wanted: Callable[[Document], bool] = lambda _: True) -> str:
        """The key of a random matching object, "" if there is none."""
        keys = [key for key, document in self._world.facts.of(kind) if wanted(document)]
        return self._random.choice(keys) if keys else ""


def plain_pods_that_fit(world: World) -> list[str]:
    """Pending pods for which some node has room, computed from the facts alone, as a check on the engine.

    Only pods without constraints on other pods are checked: requests, node selector, tolerations, and whether a pod
    on the node has anti-affinity to them."""
    free = {name: _free(world, name, node) for name, node in world.facts.of(Kind.NODE)}
    found = []
    for key in world.pending():
        pod = world.facts.get(Kind.POD, key) or {}
        spec = pod["spec"]
        if any(spec.get(field) for field in ("topologySpreadConstraints", "affinity", "schedulingGates")):
            continue
        container = spec["containers"][0]
        if container.get("ports") or "deletionTimestamp" in pod["metadata"]:
            continue
        cpu, memory = _amounts(container)
        for name, node in world.facts.of(Kind.NODE):
            has_room = free[name][0] >= cpu and free[name][1] >= memory and free[name][2] >= 1
            if has_room and _lets_in(node, spec) and not _is_shunned(world, name, pod):
                found.append(key)
                break
    return found


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


def _open_node(node: Document) -> None:
    node["spec"].pop("unschedulable", None)
    node["spec"].pop("taints", None)


def _open_gates(pod: Document) -> None:
    pod["spec"].pop("schedulingGates", None)


def _grow(node: Document) -> None:
    for amounts in (node["status"]["allocatable"], node["status"]["capacity"]):
        amounts["cpu"] = str(int(amounts["cpu"]) + 1)


def _spread(app: str, key: str) -> Document:
    return {
        "maxSkew": 2,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _term(app: str) -> Document:
    return {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
