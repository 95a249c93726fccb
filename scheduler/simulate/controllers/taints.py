"""Eviction by taints of effect NoExecute: deletes pods that do not tolerate them, or whose time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from scheduler.objects.kinds import decode_as
from scheduler.objects.node import Node, Taint
from scheduler.objects.pod import Pod
from scheduler.objects.taints import NO_EXECUTE, tolerates
from scheduler.simulate.apiserver import DeleteOptions, Failure, Follower, Registry, Stored
from scheduler.simulate.apiserver.kinds import CORE_EVENTS, NODES, PODS
from scheduler.simulate.apiserver.pods import with_condition

Object = dict[str, Any]

FOR_EVER: Final = float("inf")
_CONDITION: Final = {
    "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
}  # fmt: skip


def seconds_left(pod: Pod, taints: Iterable[Taint]) -> float:
    """How long the pod may stay on a node with these taints: 0 if it does not tolerate one, `FOR_EVER` without a limit.

    For each taint the first toleration that matches counts, and of these the smallest tolerationSeconds.
    """
    left = FOR_EVER
    for taint in taints:
        used = next((one for one in pod.spec.tolerations if tolerates(one, taint)), None)
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            left = min(left, max(float(used.toleration_seconds), 0.0))
    return left


class TaintEviction:
    """Follows nodes and pods until cancelled. A running time is not prolonged; it ends with the node's taints."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._tainted: dict[str, tuple[Taint, ...]] = {}
        """By node: its taints of effect NoExecute; nodes without one are absent."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """The timers by the pod's UID."""

    async def run(self) -> None:
        """Looks at the present nodes and then follows all changes, until cancelled."""
        follower = Follower(self._registry.store, NODES, PODS)
        try:
            for node in list(self._registry.store.collection(NODES).every()):
                self._look_at_node(node)
            while True:
                for kind, change in await follower.changes():
                    if kind is not NODES:
                        self._look_at_pod(change.current, gone=change.type == "DELETED")
                    elif change.type == "DELETED":
                        self._tainted.pop(change.current.name, None)
                    else:
                        self._look_at_node(change.current)
        finally:
            follower.close()
            for timer in self._timers.values():
                timer.cancel()

    def _look_at_node(self, stored: Stored) -> None:
        taints: tuple[Taint, ...] = ()
        if stored.object["spec"].get("taints"):
            taints = tuple(one for one in decode_as(Node, stored.body).spec.taints if one.effect == NO_EXECUTE)
        if taints == self._tainted.get(stored.name, ()):
            return
        if taints:
            self._tainted[stored.name] = taints
        else:
            del self._tainted[stored.name]
        for pod in list(self._registry.store.collection(PODS).every()):
            if pod.object["spec"].get("nodeName") == stored.name:
                self._look_at_pod(pod)

    def _look_at_pod(self, stored: Stored, *, gone: bool = False) -> None:
        uid = stored.object["metadata"]["uid"]
        taints = self._tainted.get(stored.object["spec"].get("nodeName", ""), ())
        if gone or not taints or "deletionTimestamp" in stored.object["metadata"]:
            self._cancel(uid)
            return
        left = seconds_left(decode_as(Pod, stored.body), taints)
        if left == FOR_EVER:
            self._cancel(uid)
        elif left == 0:
            self._cancel(uid)
            self._evict(stored.namespace, stored.name, uid)
        elif uid not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[uid] = loop.call_later(left, self._evict, stored.namespace, stored.name, uid)

    def _cancel(self, uid: str) -> None:
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()

    def _evict(self, namespace: str, name: str, uid: str) -> None:
        self._timers.pop(uid, None)
        pod = self._registry.store.get(PODS, namespace, name)
        if pod is None or pod["metadata"]["uid"] != uid or "deletionTimestamp" in pod["metadata"]:
            return
        self._registry.change(PODS, namespace, name, self._condemned)
        try:
            self._registry.delete(PODS, namespace, name, DeleteOptions(uid=uid))
        except Failure:
            # Another client has deleted it.
            return
        self._tell(namespace, name, uid)

    def _condemned(self, pod: Object) -> Object:
        conditions = with_condition(pod["status"].get("conditions") or [], _CONDITION, self._registry.timestamp())
        return {**pod, "status": {**pod["status"], "conditions": conditions}}

    def _tell(self, namespace: str, name: str, uid: str) -> None:
        now = self._registry.timestamp()
        event = {
            "metadata": {"generateName": f"{name}.", "namespace": namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid},
            "type": "Normal", "reason": "TaintManagerEviction",
            "message": f"Marking for deletion Pod {namespace}/{name}", "count": 1,
            "firstTimestamp": now, "lastTimestamp": now, "source": {"component": "taint-eviction-controller"},
        }  # fmt: skip
        try:
            self._registry.create(CORE_EVENTS, namespace, event)
        except Failure:
            # The namespace is being deleted: the pod goes with it, without an event.
            return
