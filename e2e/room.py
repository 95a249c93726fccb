"""A place for one test: a namespace and nodes of its own, gone when the test is over."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from e2e import builders
from e2e.client import Client, NotInTime, Object, Seen, State, Watch

_WORKLOADS = ("Deployment", "Job", "ReplicaSet")


class Room:
    """The namespace `name`, with watches on its pods and events. A context manager; every wait has a limit."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self._nodes: list[str] = []
        self._elsewhere: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        self.client.create(builders.namespace(self.name))
        self.pods = self.client.watch("Pod", self.name).__enter__()
        self.events = self.client.watch("Event", self.name).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for workload in _WORKLOADS:
            self._delete_what_is_there(workload)
        # A workload's controller may make another pod before it learns that the workload is gone.
        for _ in range(50):
            self._delete_what_is_there("Pod")
            with contextlib.suppress(NotInTime):
                self.pods.wait_until(lambda state: not state, 1)
                break
        self.client.delete_all("Node", self._nodes)
        for kind_of_it, name in self._elsewhere:
            self.client.delete(kind_of_it, name)
        self.client.delete_all("Namespace", [self.name])
        self.events.__exit__(kind, error, traceback)
        self.pods.__exit__(kind, error, traceback)

    def add_nodes(self, *nodes: Object) -> None:
        """Create nodes and wait until they are Ready and without start-up taints."""
        self._nodes += [node["metadata"]["name"] for node in nodes]
        with self.client.watch("Node") as watch:
            self.client.create_all(nodes)
            watch.wait_until(lambda state: all(_settled(state.get(name)) for name in self._nodes), 30, "ready nodes")

    def add_cluster_object(self, thing: Object) -> None:
        """Create an object that belongs to no namespace; it goes when the test is over."""
        self._elsewhere.append((thing["kind"], thing["metadata"]["name"]))
        self.client.create(thing)

    def add_pods(self, *pods: Object) -> None:
        self.client.create_all(pods)

    def add_pods_meanwhile(self, *pods: Object) -> Future[list[Object]]:
        """Begin to create pods and go on; the result is there when all are created."""
        return self.client.create_all_meanwhile(pods)

    def pod(self, name: str) -> Object:
        return self.pods.state[f"{self.name}/{name}"]

    def wait_bound(self, count: int, seconds: float = 30.0) -> dict[str, str]:
        """Pod name -> node name, as soon as `count` pods have a node."""
        return self.pods.wait_until(
            lambda state: bound if len(bound := placements(state)) >= count else None, seconds, f"{count} bound pods"
        )

    def wait_placed(self, name: str, node: str, seconds: float = 30.0) -> None:
        """Wait until the pod is bound to this very node."""
        hope = f"{name} on {node}"
        self.pods.wait_until(lambda state: placements(state).get(name) == node, seconds, hope)

    def wait_running(self, count: int, seconds: float = 30.0) -> dict[str, str]:
        """Pod name -> node name, as soon as `count` pods run."""
        self.pods.wait_until(
            lambda state: sum(pod["status"].get("phase") == "Running" for pod in state.values()) >= count,
            seconds,
            f"{count} running pods",
        )
        return placements(self.pods.state)

    def wait_nominated(self, name: str, node: str, seconds: float = 30.0) -> None:
        """Wait until the pod's status names this node."""
        key = f"{self.name}/{name}"
        hope = f"{name} nominated to {node}"
        self.pods.wait_until(lambda state: state[key]["status"].get("nominatedNodeName") == node, seconds, hope)

    def wait_refused(self, name: str, seconds: float = 30.0) -> Object:
        """The pod's condition PodScheduled as soon as it is False."""
        return self.pods.wait_until(
            lambda state: refusal(state.get(f"{self.name}/{name}")), seconds, f"a refusal of {name}"
        )

    def wait_events(self, pod: str, reason: str, seconds: float = 30.0) -> list[Object]:
        """The events about a pod with this reason, as soon as there is one."""
        return self.events.wait_until(
            lambda state: _about(state, pod, reason), seconds, f"an event {reason} about {pod}"
        )

    def events_about(self, pod: str, reason: str | None = None) -> list[Object]:
        return _about(self.events.state, pod, reason)

    def _delete_what_is_there(self, kind: str) -> None:
        names = [thing["metadata"]["name"] for thing in self.client.list(kind, self.name)]
        self.client.delete_all(kind, names, self.name)


def placements(state: State) -> dict[str, str]:
    """Pod name -> node name of the pods that have a node."""
    return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in state.values() if p["spec"].get("nodeName")}


def refusal(pod: Object | None) -> Object | None:
    """The pod's condition PodScheduled=False, if it has one that a scheduler wrote."""
    for condition in (pod or {}).get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return dict(condition)
    return None


def most_pods_at_once(watch: Watch) -> Counter[str]:
    """Node -> the largest number of live pods it held at any moment of the recording."""
    held: defaultdict[str, set[str]] = defaultdict(set)
    most: Counter[str] = Counter()
    for seen in watch.history:
        node, uid = seen.thing["spec"].get("nodeName"), seen.thing["metadata"]["uid"]
        if node is None:
            continue
        held[node].discard(uid) if _over(seen) else held[node].add(uid)
        most[node] = max(most[node], len(held[node]))
    return most


def nodes_of_each_pod(history: Iterable[Seen]) -> dict[str, set[str]]:
    """Pod UID -> every node name that it was ever seen with; more than one would be a pod bound twice."""
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for seen in history:
        if node := seen.thing["spec"].get("nodeName"):
            nodes[seen.thing["metadata"]["uid"]].add(node)
    return dict(nodes)


def last_bound(history: Iterable[Seen]) -> str:
    """The name of the pod that was the last to be seen with a node for the first time; IndexError if none was."""
    names = [seen.thing["metadata"]["name"] for seen in history if seen.thing["spec"].get("nodeName")]
    return str(list(dict.fromkeys(names))[-1])


def bindings(audit: Iterable[dict[str, Any]], namespace: str) -> Counter[tuple[str, int]]:
    """(pod name, HTTP status) -> how many binding requests the API server answered so."""
    return Counter(
        (entry["objectRef"]["name"], entry["responseStatus"]["code"])
        for entry in audit
        if entry["objectRef"].get("subresource") == "binding" and entry["objectRef"].get("namespace") == namespace
    )


def _about(events: State, pod: str, reason: str | None) -> list[Object]:
    return [
        event
        for event in events.values()
        if event.get("regarding", {}).get("name") == pod and reason in (None, event.get("reason"))
    ]


def _over(seen: Seen) -> bool:
    return seen.type == "DELETED" or seen.thing.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _settled(node: Object | None) -> bool:
    """Ready, and free of the taint that a cluster with a node life cycle controller puts on a starting node."""
    if node is None:
        return False
    status = node.get("status", {})
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ()))
    starting = [t for t in node["spec"].get("taints") or () if t["key"].startswith("node.kubernetes.io/not-ready")]
    return ready and not starting
