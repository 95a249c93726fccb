"""Ten minutes of churn in a cluster, and a judge of the scheduler's decisions in them.

Nodes come, go and are tainted, pods of two schedulers come and go, some of them urgent enough to preempt, some guarded
by a budget. The judge replays the watch events in the API server's own order.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from e2e import builders
from e2e.builders import SCHEDULER, Object
from e2e.client import Client, Seen, Watch
from e2e.room import Room, placements

PEER = "default-scheduler"
NODE_CPU, NODES, PODS_WANTED = 8000, 30, 350
GRACE_SECONDS = 2.0
"""Seconds before a binding within which the scheduler need not have seen a change."""
LAG_SECONDS = 1.0
TAINT = "churn"
GUARDED = 20
STRICT = {
    "apiVersion": "tandem.scheduling/v1alpha1",
    "kind": "TandemConfiguration",
    "preemption": {"pdbPolicy": "strict"},
    # What is remembered on purpose is full long before the end.
    "limits": {"rememberedAttempts": 500},
}


def taken(nodes: Watch, pods: Watch, until: float) -> list[Seen]:
    """What the watches have recorded since the last time, up to a moment, by time; it is cut off their records.

    A scheduler may hear of a node before we do, and bind at once: what happens to nodes counts as seen a little sooner.
    """
    events = [
        (seen.at - ahead, seen)
        for watch, ahead in ((nodes, LAG_SECONDS), (pods, 0.0))
        for seen in watch.take_history(until + ahead)
    ]
    return [seen for _, seen in sorted(events, key=lambda event: event[0])]


class Churn:
    """``step`` does one random thing of each sort; the seed makes it the same each time.

    With more than the usual `pods_wanted` the nodes are full, so that what is urgent has to preempt.
    """

    def __init__(self, room: Room, client: Client, urgent: str, seed: int, pods_wanted: int = PODS_WANTED) -> None:
        self._room = room
        self._client = client
        self._urgent = urgent
        self._rng = random.Random(seed)
        self._pods_wanted = pods_wanted
        self._made = 0
        self._nodes = [f"{room.name}-n{number}" for number in range(NODES)]
        self._away: str = ""
        self._tainted: set[str] = set()

    def node(self, name: str) -> Object:
        zone = f"z{int(name.rpartition('n')[2]) % 3}"
        return builders.node(name, cpu=f"{NODE_CPU}m", pods=40, labels={"topology.kubernetes.io/zone": zone})

    def begin(self) -> None:
        self._room.add_nodes(*(self.node(name) for name in self._nodes))
        guarded = [self._pod("guarded", SCHEDULER, 500) for _ in range(GUARDED)]
        self._client.create(
            {
                "kind": "PodDisruptionBudget",
                "apiVersion": "policy/v1",
                "metadata": {"name": "guarded", "namespace": self._room.name},
                "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"app": "guarded"}}},
            }
        )
        self._room.add_pods(*guarded)
        self._room.wait_running(GUARDED, 60)

    def fill(self) -> None:
        """All the pods that are wanted, at once."""
        while (lacking := self._pods_wanted - len(self._names())) > 0:
            self._come(lacking)

    def step(self) -> None:
        state = self._room.pods.state
        self._come(self._pods_wanted - len(state))
        self._go(state)
        if self._rng.random() < 0.3:
            self._toggle_taint()
        if self._rng.random() < 0.1:
            self._move_a_node(state)

    def calm(self) -> None:
        """No taints, all nodes, and room for every pod that is left."""
        for name in list(self._tainted):
            self._taint(name, False)
        if self._away:
            self._client.create(self.node(self._away))
            self._away = ""
        names = sorted(name for name in self._names() if not name.startswith("guarded"))
        self._client.delete_all("Pod", names[: len(names) // 2], self._room.name)

    def _names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self._client.list("Pod", self._room.name)]

    def _come(self, lacking: int) -> None:
        pods = []
        for _ in range(min(max(lacking, 0), self._rng.randrange(4, 16))):
            scheduler = self._rng.choice((SCHEDULER, PEER))
            cpu = self._rng.choice((100, 250, 500, 1000, 2000))
            sort = self._rng.choice(("plain", "plain", "spread", "apart", "tolerant", "urgent"))
            pods.append(self._pod(sort, scheduler, cpu))
        self._room.add_pods(*pods)

    def _pod(self, sort: str, scheduler: str, cpu: int) -> Object:
        self._made += 1
        app = sort if sort == "guarded" else f"{sort}-{scheduler}-{self._made % 5}"
        labels = {"matchLabels": {"app": app}}
        spec: Object = {}
        if sort == "spread":
            constraint = {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "labelSelector": labels}
            spec["topologySpreadConstraints"] = [{**constraint, "whenUnsatisfiable": "DoNotSchedule"}]
        elif sort == "apart":
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        elif sort == "tolerant":
            spec["tolerations"] = [{"key": TAINT, "operator": "Exists"}]
        elif sort == "urgent" and scheduler == SCHEDULER:
            spec["priorityClassName"] = self._urgent
        name = f"{sort}-{self._made}"
        return builders.pod(name, self._room.name, f"{cpu}m", "10Mi", {"app": app}, scheduler=scheduler, **spec)

    def _go(self, state: dict[str, Object]) -> None:
        names = [pod["metadata"]["name"] for pod in state.values()]
        names = sorted(name for name in names if not name.startswith("guarded"))
        some = self._rng.sample(names, min(len(names), self._rng.randrange(2, 14)))
        self._client.delete_all("Pod", some, self._room.name)

    def _toggle_taint(self) -> None:
        name = self._rng.choice(self._nodes)
        if name != self._away:
            self._taint(name, name not in self._tainted and len(self._tainted) < NODES // 3)

    def _taint(self, name: str, is_on: bool) -> None:
        taints = [builders.taint(TAINT)] if is_on else []
        self._client.patch("Node", name, None, {"spec": {"taints": taints}})
        (self._tainted.add if is_on else self._tainted.discard)(name)

    def _move_a_node(self, state: dict[str, Object]) -> None:
        """One that is away comes back; else an empty one, or one without guarded pods, goes with its pods."""
        if self._away:
            self._client.create(self.node(self._away))
            self._away = ""
            return
        on_node = defaultdict(list)
        for pod, node in placements(state).items():
            on_node[node].append(pod)
        free = [
            name
            for name in self._nodes
            if name not in self._tainted and not any(pod.startswith("guarded") for pod in on_node[name])
        ]
        if free:
            self._away = self._rng.choice(free)
            self._client.delete("Node", self._away)
            self._client.delete_all("Pod", on_node[self._away], self._room.name)


@dataclass(slots=True)
class _Bound:
    name: str
    node: str
    cpu: int
    at: float
    app: str
    is_ours: bool
    is_apart: bool


@dataclass(slots=True)
class _NodeState:
    """``until``: when this state ended; the newest has none."""

    is_there: bool
    is_tainted: bool
    until: float = float("inf")


@dataclass(slots=True)
class Judge:
    """``see`` the watch events, oldest first, and read ``faults``: Tandem's violations of the rules.

    ``grace_seconds``: what others did so shortly before a binding does not count against it.
    """

    grace_seconds: float = GRACE_SECONDS
    faults: list[str] = field(default_factory=list)
    placed: dict[str, int] = field(default_factory=lambda: {SCHEDULER: 0, PEER: 0})
    _bound: dict[str, _Bound] = field(default_factory=dict)
    _nodes: defaultdict[str, list[_NodeState]] = field(default_factory=lambda: defaultdict(list))

    def see(self, events: Iterable[Seen]) -> None:
        """Events of nodes and pods together, by time."""
        for seen in events:
            if seen.thing["kind"] == "Node":
                self._node(seen)
            else:
                self._pod(seen)

    def _node(self, seen: Seen) -> None:
        states = self._nodes[seen.thing["metadata"]["name"]]
        tainted = any(taint["key"] == TAINT for taint in seen.thing["spec"].get("taints", ()))
        new = _NodeState(seen.type != "DELETED", tainted)
        if states and (states[-1].is_there, states[-1].is_tainted) == (new.is_there, new.is_tainted):
            return
        if states:
            states[-1].until = seen.at
        states[:] = [*(state for state in states if state.until > seen.at - self.grace_seconds - LAG_SECONDS), new]

    def _pod(self, seen: Seen) -> None:
        pod = seen.thing
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if seen.type == "DELETED" or pod["status"].get("phase") in ("Failed", "Succeeded"):
            self._bound.pop(uid, None)
            return
        node = pod["spec"].get("nodeName")
        if not node:
            return
        if uid in self._bound:
            if self._bound[uid].node != node:
                self.faults.append(f"{name} was bound twice")
            return
        bound = _Bound(
            name,
            node,
            _millicores(pod),
            seen.at,
            pod["metadata"]["labels"]["app"],
            pod["spec"]["schedulerName"] == SCHEDULER,
            name.startswith("apart-"),
        )
        self._bound[uid] = bound
        self.placed[pod["spec"]["schedulerName"]] += 1
        if bound.is_ours:
            self._check(name, bound)

    def _check(self, name: str, bound: _Bound) -> None:
        """Check a binding against what the scheduler must have known: its own bindings, and older changes by others."""
        known = [
            other
            for other in self._bound.values()
            if other.node == bound.node and (other.is_ours or other.at < bound.at - self.grace_seconds)
        ]
        if (total := sum(other.cpu for other in known)) > NODE_CPU:
            self.faults.append(f"{bound.node} has {total}m of {NODE_CPU}m with {name}: {_described(known, bound.at)}")
        if bound.is_apart and sum(other.app == bound.app for other in known) > 1:
            self.faults.append(f"{name} is on {bound.node} with one of its own sort")
        recent = [state for state in self._nodes[bound.node] if state.until > bound.at - self.grace_seconds]
        if not any(state.is_there for state in recent):
            self.faults.append(f"{name} is on {bound.node}, which was not there")
        elif not name.startswith("tolerant-") and all(state.is_tainted for state in recent if state.is_there):
            self.faults.append(f"{name} is on {bound.node} in spite of its taint")


def _described(pods: Iterable[_Bound], now: float) -> str:
    return ", ".join(
        f"{pod.name} {'ours' if pod.is_ours else 'of others'} {pod.cpu}m {now - pod.at:.1f} s before" for pod in pods
    )


def _millicores(pod: Object) -> int:
    """The API server writes whole cores without the m."""
    text = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000
