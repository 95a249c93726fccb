"""HTTP requests of the writes (docs/kube-scheduler/cycle.md §14, docs/kube-scheduler/preemption.md §7.1)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from scheduler.controller.write.begun import BegunWrite, WriteEnd
from scheduler.controller.write.claims import ClaimRequests
from scheduler.controller.write.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiClient
from scheduler.controller.write.direct import JSON, Outgoing
from scheduler.controller.write.fence import Departure
from scheduler.controller.write.writer_settings import WriterSettings
from scheduler.errors import ApiError
from scheduler.messages.commands import (
    BindPod,
    DeletePod,
    EvictPod,
    PatchGroupCounts,
    PatchGroupStatus,
    PatchPodStatus,
    UpdateObject,
)
from scheduler.messages.references import PodReference
from scheduler.objects.kinds import decode_as
from scheduler.objects.meta import Condition
from scheduler.objects.pod import Pod
from scheduler.objects.timestamps import format_seconds

_encode = msgspec.json.Encoder().encode

_Form = tuple[str, str, dict[str, Any], str]
"""Method, path, body, content type."""
_Plain = PatchPodStatus | PatchGroupStatus | PatchGroupCounts | DeletePod | EvictPod | UpdateObject
"""Writes that are one request each, besides bindings."""
PlainCommand = BindPod | _Plain


class _Identity(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str


class _Target(msgspec.Struct, frozen=True, tag_field="kind", tag="Node"):
    name: str


class _Binding(msgspec.Struct, frozen=True, tag_field="kind", tag="Binding"):
    metadata: _Identity
    target: _Target
    apiVersion: str = "v1"


def wall_time_in_seconds() -> str:
    """The present time as RFC 3339 with whole seconds."""
    return format_seconds(time.time_ns())


class WriteRequests:
    """Sends one request per call, without retries. Writes are fenced by their ``departure``.

    ``wall_time`` returns an RFC 3339 text with whole seconds.
    """

    def __init__(
        self, client: ApiClient, settings: WriterSettings, wall_time: Callable[[], str] = wall_time_in_seconds
    ) -> None:
        self._client = client
        self.claims = ClaimRequests(client, settings, wall_time)
        self._bind_seconds = settings.bind_timeout_seconds
        self._write_seconds = settings.write_timeout_seconds
        self._wall_time = wall_time

    def begin(
        self, command: PlainCommand, departure: Departure, on_end: Callable[[WriteEnd], None]
    ) -> BegunWrite | None:
        """Send a write; see ``ApiClient.begin``. A binding ends with a 409 also if the pod of that name has another
        UID. None: it could not be sent, as ``on_end`` knows."""
        try:
            write = self._binding(command) if isinstance(command, BindPod) else self._outgoing(command)
        except Exception as error:  # noqa: BLE001 - of a value that is no JSON: the write has an end
            on_end(error)
            return None
        return self._client.begin(write, departure, on_end)

    def _binding(self, command: BindPod) -> Outgoing:
        pod = command.pod
        namespace, name = pod.namespace, pod.name
        body = _encode(_Binding(_Identity(namespace, name, pod.uid), _Target(command.node)))
        return Outgoing("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body, self._bind_seconds)

    def _outgoing(self, command: _Plain) -> Outgoing:
        method, path, body, content_type = self._form_of(command)
        return Outgoing(method, path, _encode(body), self._write_seconds, content_type)

    async def read(self, pod: PodReference) -> Pod:
        """The pod as it is. Raises ApiError: 404 also if another pod has the name by now."""
        answer = await self._client.request("GET", pod_path(pod), timeout_seconds=self._write_seconds)
        found = decode_as(Pod, answer.body)
        if found.uid != pod.uid:
            raise ApiError(404, "NotFound", f"pod {pod.key} was replaced by another pod")
        return found

    def _form_of(self, command: _Plain) -> _Form:
        match command:
            case PatchPodStatus(pod=pod):
                return "PATCH", f"{pod_path(pod)}/status", self._status(command), STRATEGIC_MERGE_PATCH
            case PatchGroupStatus(group=group, condition=condition):
                path = f"{group.kind.entry.object_path(group.name, group.namespace)}/status"
                status = {"metadata": {"uid": group.uid}, "status": {"conditions": [self._condition(condition)]}}
                return "PATCH", path, status, STRATEGIC_MERGE_PATCH
            case PatchGroupCounts(group=group, changes=changes):
                path = f"{group.kind.entry.object_path(group.name, group.namespace)}/status"
                return "PATCH", path, {"metadata": {"uid": group.uid}, "status": changes}, MERGE_PATCH
            case DeletePod(pod=pod):
                options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
                return "DELETE", pod_path(pod), options, JSON
            case EvictPod(pod=pod):
                return "POST", f"{pod_path(pod)}/eviction", _eviction(pod), JSON
            case UpdateObject(kind=kind, key=key, changes=changes):
                namespace, _, name = key.rpartition("/")
                return "PATCH", kind.entry.object_path(name, namespace), changes, MERGE_PATCH

    def _status(self, command: PatchPodStatus) -> dict[str, Any]:
        """The patch of a pod's status: only what changes, never the spec or the rest of the status."""
        status: dict[str, Any] = {}
        if command.condition is not None:
            status["conditions"] = [self._condition(command.condition)]
        if command.nominated_node_name is not None:
            status["nominatedNodeName"] = command.nominated_node_name or None
        return {"metadata": {"uid": command.pod.uid}, "status": status}

    def _condition(self, condition: Condition) -> dict[str, Any]:
        """The condition as the engine states it; its transition time is now unless the engine states an older one."""
        body: dict[str, Any] = msgspec.to_builtins(condition)
        body["lastTransitionTime"] = condition.last_transition_time or self._wall_time()
        # An absent reason or message would leave the old one in place.
        body["reason"] = condition.reason or None
        body["message"] = condition.message or None
        return body


def pod_path(pod: PodReference) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _eviction(pod: PodReference) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": pod.namespace, "name": pod.name},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
