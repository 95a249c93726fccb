"""Approval: a pod that asks for it keeps its room on a node, and is bound only when a person has approved it.

A pod says ``example.com/approval: required``. Its node is chosen and its room set aside; then it waits until its
annotation ``example.com/approved`` is ``yes`` (it is bound) or ``no`` (it goes back to the queue), for ``waitSeconds``
at most:

    kubectl annotate pod NAME example.com/approved=yes

Arguments: ``waitSeconds`` (default 3600), ``askEverySeconds`` (default 2).
"""

from __future__ import annotations

import asyncio

import msgspec

from scheduler.plugin import (
    ApiError,
    BackgroundPlugin,
    PermitPlugin,
    PluginHandle,
    PodInfo,
    State,
    View,
    Wait,
    WaitingPod,
)

REQUIRED = "example.com/approval"
APPROVED = "example.com/approved"


class ApprovalArgs(msgspec.Struct, frozen=True, rename="camel"):
    wait_seconds: int = 3600
    ask_every_seconds: float = 2.0


class Approval(PermitPlugin, BackgroundPlugin):
    name = "Approval"
    Args = ApprovalArgs

    def __init__(self, args: ApprovalArgs | None = None) -> None:
        super().__init__(args or ApprovalArgs())

    @classmethod
    def validate_args(cls, args: ApprovalArgs, path: str) -> tuple[tuple[str, str], ...]:
        faults = []
        if args.wait_seconds < 1:
            faults.append((f"{path}.waitSeconds", "must be at least 1"))
        if not 0.1 <= args.ask_every_seconds <= 60:
            faults.append((f"{path}.askEverySeconds", "must be between 0.1 and 60"))
        return tuple(faults)

    def concerns(self, pod: PodInfo) -> bool:
        return pod.labels.get(REQUIRED) == "required"

    def permit(self, state: State, pod: PodInfo, view: View, node: str) -> Wait | None:
        return Wait(self.args.wait_seconds) if self.concerns(pod) else None

    async def run(self, handle: PluginHandle) -> None:
        """Look at the pods that wait, one after the other, on and on."""
        while True:
            for waiting in handle.waiting_pods():
                await self._ask(handle, waiting)
            await asyncio.sleep(self.args.ask_every_seconds)

    async def _ask(self, handle: PluginHandle, waiting: WaitingPod) -> None:
        path = f"/api/v1/namespaces/{waiting.pod.namespace}/pods/{waiting.pod.name}"
        try:
            answer = await handle.client.request("GET", path)
        except ApiError as error:
            if error.is_not_found or error.is_transient:
                return  # a pod that is gone is taken care of; anything else is asked again
            raise
        metadata = msgspec.json.decode(answer.body)["metadata"]
        decision = metadata.get("annotations", {}).get(APPROVED)
        if metadata["uid"] != waiting.pod.uid:
            return
        if decision == "yes":
            handle.allow(waiting.pod.uid)
        elif decision == "no":
            handle.reject(waiting.pod.uid, "the approval was refused")
