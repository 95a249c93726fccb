"""What each write looks like on the wire (reference cycle.md §14, preemption.md §7.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from scheduler.controller.settings import WriterSettings
from scheduler.controller.write.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiClient
from scheduler.errors import ApiError
from scheduler.messages.commands import BindPod, DeletePod, EvictPod, PatchPodStatus, UpdateObject
from scheduler.messages.references import PodReference
from scheduler.objects.kinds import decode_as
from scheduler.objects.meta import Condition
from scheduler.objects.pod import Pod

_encode = msgspec.json.Encoder().encode


class WriteRequests:
    """Sends one request per call, without retries. ``wall_time`` answers an RFC 3339 text with whole seconds."""

    def __init__(self, client: ApiClient, settings: WriterSettings, wall_time: Callable[[], str]) -> None:
        self._client = client
        self._bind_seconds = settings.bind_timeout_seconds
        self._write_seconds = settings.write_timeout_seconds
        self._wall_time = wall_time

    async def bind(self, command: BindPod) -> None:
        """Raises ApiError; 409 also where the pod of that name has another UID."""
        await self._client.request(
            "POST",
            f"{pod_path(command.pod)}/binding",
            body=_encode(
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": _identity(command.pod),
                    "target": {"kind": "Node", "name": command.node},
                }
            ),
            timeout_seconds=self._bind_seconds,
        )

    async def node_of(self, pod: PodReference) -> str:
        """Where the pod is bound, "" if nowhere. Raises ApiError: 404 also where the name is another pod's by now."""
        answer = await self._client.request("GET", pod_path(pod), timeout_seconds=self._write_seconds)
        found = decode_as(Pod, answer.body)
        if found.uid != pod.uid:
            raise ApiError(404, "NotFound", f"pod {pod.key} is another one now")
        return found.spec.node_name

    async def send(self, command: PatchPodStatus | DeletePod | EvictPod | UpdateObject) -> int:
        """The HTTP status of the success. Raises ApiError."""
        if isinstance(command, PatchPodStatus):
            return await self._patch_status(command)
        if isinstance(command, DeletePod):
            return await self._delete(command.pod)
        if isinstance(command, EvictPod):
            return await self._evict(command.pod)
        namespace, _, name = command.key.rpartition("/")
        path = command.kind.entry.object_path(name, namespace)
        return await self._send("PATCH", path, command.changes, MERGE_PATCH)

    async def _patch_status(self, command: PatchPodStatus) -> int:
        """Only what changes: never the spec, never the rest of the status."""
        status: dict[str, Any] = {}
        if command.condition is not None:
            status["conditions"] = [self._condition(command.condition)]
        if command.nominated_node_name is not None:
            status["nominatedNodeName"] = command.nominated_node_name or None
        body = {"metadata": {"uid": command.pod.uid}, "status": status}
        return await self._send("PATCH", f"{pod_path(command.pod)}/status", body, STRATEGIC_MERGE_PATCH)

    def _condition(self, condition: Condition) -> dict[str, Any]:
        """As the engine wants it; the time of the change is now unless the engine knows an older one."""
        body: dict[str, Any] = msgspec.to_builtins(condition)
        body["lastTransitionTime"] = condition.last_transition_time or self._wall_time()
        # An absent reason or message would leave the old one standing.
        body["reason"] = condition.reason or None
        body["message"] = condition.message or None
        return body

    async def _delete(self, pod: PodReference) -> int:
        """With the pod's own grace period."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
        return await self._send("DELETE", pod_path(pod), options)

    async def _evict(self, pod: PodReference) -> int:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        return await self._send("POST", f"{pod_path(pod)}/eviction", body)

    async def _send(self, method: str, path: str, body: dict[str, Any], content_type: str = "application/json") -> int:
        answer = await self._client.request(
            method, path, body=_encode(body), content_type=content_type, timeout_seconds=self._write_seconds
        )
        return answer.status


def pod_path(pod: PodReference) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _identity(pod: PodReference) -> dict[str, str]:
    return {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
