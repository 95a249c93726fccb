"""Simulates the kubelets of all nodes in one task: bound pods are admitted, run, finish and are removed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from scheduler.objects.kinds import decode_as
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.resources import allocatable_of, requests_of
from scheduler.simulate.apiserver import DeleteOptions, Failure, Follower, Registry, Stored
from scheduler.simulate.apiserver.kinds import NODES, PODS
from scheduler.simulate.apiserver.pods import with_condition

Object = dict[str, Any]

_OVER: Final = ("Succeeded", "Failed")
_RUNNING_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
_Amounts = dict[str, int]


class KubeletSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the kubelets; durations in seconds.

    `run_seconds` returns how long a pod runs until it succeeds, None for ever; by default a Job's pods run for
    `job_seconds`.
    """

    start_seconds: float = 0.0
    stop_seconds: float = 0.05
    job_seconds: float = 1.0
    rejects: bool = True
    """Whether a pod that does not fit on its node fails with OutOfcpu and the like, as on a real kubelet."""
    run_seconds: Callable[[Object], float | None] | None = None
    renews_leases: bool = False
    """Whether nodes renew Leases, which `kubectl describe node` shows."""

    def duration(self, pod: Object) -> float | None:
        if self.run_seconds is not None:
            return self.run_seconds(pod)
        owners = pod["metadata"].get("ownerReferences") or ()
        return self.job_seconds if any(one["kind"] == "Job" for one in owners) else None


class Kubelet:
    """Updates the store's pods until cancelled."""

    def __init__(self, registry: Registry, settings: KubeletSettings | None = None) -> None:
        self._registry = registry
        self._settings = settings or KubeletSettings()
        self._used: dict[str, dict[str, _Amounts]] = {}
        """The requests of admitted pods, by node and then by the pod's UID."""
        self._node_of: dict[str, str] = {}
        self._under_way: set[tuple[str, str]] = set()
        """(UID, action) of all running timers."""
        self._addresses = 0

    async def run(self) -> None:
        """Handles the present pods and then follows their changes, until cancelled."""
        follower = Follower(self._registry.store, PODS)
        try:
            for stored in list(self._registry.store.collection(PODS).every()):
                self._look_at(stored)
            while True:
                for _, change in await follower.changes():
                    if change.type == "DELETED":
                        self._release(change.current.object["metadata"]["uid"])
                    else:
                        self._look_at(change.current)
        finally:
            follower.close()

    def _look_at(self, stored: Stored) -> None:
        pod = stored.object
        status = pod.get("status", {})
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if not node:
            return
        if status.get("phase") in _OVER:
            self._release(uid)
        if "deletionTimestamp" in pod["metadata"]:
            grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            self._later(stored, "stop", min(grace, self._settings.stop_seconds), self._stop)
        elif status.get("phase") == "Pending" and not status.get("startTime"):
            self._later(stored, "start", self._settings.start_seconds, self._start)
        elif status.get("phase") == "Running":
            duration = self._settings.duration(pod)
            if duration is not None:
                self._later(stored, "finish", duration, self._finish)

    def _later(self, stored: Stored, what: str, seconds: float, act: Callable[[str, str, str], None]) -> None:
        uid = stored.object["metadata"]["uid"]
        if (uid, what) in self._under_way:
            return
        self._under_way.add((uid, what))

        def due() -> None:
            self._under_way.discard((uid, what))
            act(stored.namespace, stored.name, uid)

        if seconds > 0:
            asyncio.get_running_loop().call_later(seconds, due)
        else:
            due()

    def _current(self, namespace: str, name: str, uid: str) -> Object | None:
        pod = self._registry.store.get(PODS, namespace, name)
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None

    # -- what happens to a pod ------------------------------------------------------------------------------------

    def _start(self, namespace: str, name: str, uid: str) -> None:
        pod = self._current(namespace, name, uid)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        node = self._registry.store.collection(NODES).get("", pod["spec"]["nodeName"])
        if node is None:
            return
        stored = self._registry.stored(PODS, namespace, name)
        lacking = self._admit(stored, node) if self._settings.rejects else None
        if lacking is None:
            self._registry.change(PODS, namespace, name, self._running)
        else:
            self._registry.change(PODS, namespace, name, lambda old: self._rejected(old, *lacking))

    def _running(self, pod: Object) -> Object:
        now = self._registry.timestamp()
        self._addresses += 1
        address = f"10.{244 + self._addresses // 65536 % 8}.{self._addresses // 256 % 256}.{self._addresses % 256}"
        conditions = pod["status"].get("conditions") or []
        for name in _RUNNING_CONDITIONS:
            conditions = with_condition(conditions, {"type": name, "status": "True"}, now)
        containers = [
            {
                "name": one["name"], "image": one["image"], "imageID": one["image"], "ready": True, "started": True,
                "restartCount": 0, "containerID": f"tandem://{one['name']}", "state": {"running": {"startedAt": now}},
            }
            for one in pod["spec"]["containers"]
        ]  # fmt: skip
        status = {
            **pod["status"], "phase": "Running", "conditions": conditions, "startTime": now, "hostIP": "127.0.0.1",
            "podIP": address, "podIPs": [{"ip": address}], "containerStatuses": containers,
        }  # fmt: skip
        return {**pod, "status": status}

    def _rejected(self, pod: Object, resource: str, asked: int, used: int, capacity: int) -> Object:
        text = f"Pod was rejected: Node didn't have enough resource: {resource}, requested: {asked}, used: {used}, "
        status = {
            **pod["status"], "phase": "Failed", "reason": f"OutOf{resource}",
            "message": f"{text}capacity: {capacity}", "startTime": self._registry.timestamp(),
        }  # fmt: skip
        return {**pod, "status": status}

    def _finish(self, namespace: str, name: str, uid: str) -> None:
        pod = self._current(namespace, name, uid)
        if pod is None or pod["status"].get("phase") != "Running":
            return
        now = self._registry.timestamp()
        conditions = pod["status"].get("conditions") or []
        for kind in ("Ready", "ContainersReady"):
            done = {"type": kind, "status": "False", "reason": "PodCompleted"}
            conditions = with_condition(conditions, done, now)
        over = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": now}}
        containers = [
            {**one, "ready": False, "started": False, "state": over}
            for one in pod["status"].get("containerStatuses") or ()
        ]
        status = {**pod["status"], "phase": "Succeeded", "conditions": conditions, "containerStatuses": containers}
        self._registry.change(PODS, namespace, name, lambda old: {**old, "status": status})

    def _stop(self, namespace: str, name: str, uid: str) -> None:
        pod = self._current(namespace, name, uid)
        if pod is None:
            return
        self._release(uid)
        try:
            self._registry.delete(PODS, namespace, name, DeleteOptions(grace_seconds=0, uid=uid))
        except Failure:
            return

    # -- admission ------------------------------------------------------------------------------------------------

    def _admit(self, stored: Stored, node: Stored) -> tuple[str, int, int, int] | None:
        """Reserves the pod's requests; returns the insufficient resource, if any: name, requested, used, capacity."""
        asked = requests_of(decode_as(Pod, stored.body))
        offered = allocatable_of(decode_as(Node, node.body))
        amounts: _Amounts = {
            "pods": 1, "cpu": asked.milli_cpu, "memory": asked.memory, "ephemeral-storage": asked.ephemeral_storage,
            **asked.scalars,
        }  # fmt: skip
        admitted = self._used.setdefault(node.name, {})
        for resource, amount in amounts.items():
            used = sum(one.get(resource, 0) for one in admitted.values())
            capacity = offered.amount(resource)
            if amount and used + amount > capacity and (resource != "pods" or capacity):
                return resource, amount, used, capacity
        uid = stored.object["metadata"]["uid"]
        admitted[uid] = amounts
        self._node_of[uid] = node.name
        return None

    def _release(self, uid: str) -> None:
        node = self._node_of.pop(uid, None)
        if node is not None:
            self._used[node].pop(uid, None)
