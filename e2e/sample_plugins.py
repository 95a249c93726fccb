"""User plugins for the tests: they are named by their path in a configuration, as users' own are."""

from __future__ import annotations

import asyncio
from typing import Any

from scheduler.errors import ApiError
from scheduler.framework.per_node import NodeView, PerNodeFilter, PerNodeScore
from scheduler.framework.plugin import PostBindPlugin, PreBindPlugin, PreFlight, State
from scheduler.framework.plugin_ports import BindContext
from scheduler.messages.status import SKIP, Refusal, Skip, unschedulable
from scheduler.objects.node import Node


class Licence(PreBindPlugin, PostBindPlugin):
    """A pod labelled ``licence`` is bound when the ConfigMap of that name is there; ``hang`` never answers."""

    name = "Licence"
    time_limit_seconds = 1.0

    def pre_bind_pre_flight(self, state: Any, pod: Any, view: Any, node: str) -> PreFlight | Skip:
        return PreFlight() if "licence" in pod.labels else SKIP

    async def pre_bind(self, context: BindContext) -> Refusal | None:
        name = context.pod.labels["licence"]
        if name == "hang":
            await asyncio.Event().wait()
        try:
            await context.client.request("GET", f"/api/v1/namespaces/{context.pod.namespace}/configmaps/{name}")
        except ApiError as error:
            if error.is_not_found:
                return unschedulable(f"there is no licence {name}")
            raise
        return None

    async def post_bind(self, context: BindContext) -> None:
        if "licence" not in context.pod.labels:
            return
        body = f'{{"metadata": {{"labels": {{"granted-on": "{context.node}"}}}}}}'.encode()
        path = f"/api/v1/namespaces/{context.pod.namespace}/pods/{context.pod.name}"
        await context.client.request("PATCH", path, body=body, content_type="application/merge-patch+json")


class Picky(PerNodeFilter, PerNodeScore):
    """Goes to nodes whose name is in the pod's label ``wants``; fails for pods labelled ``break``; likes node ``z``."""

    name = "Picky"

    def filter_one(self, state: State, pod: Any, node: Node, node_view: NodeView) -> Refusal | None:
        if "break" in pod.labels:
            raise KeyError(pod.labels["break"])
        wanted = pod.labels.get("wants", node.name)
        return None if node.name in wanted else unschedulable("node(s) were not wanted")

    def score_one(self, state: State, pod: Any, node: Node, node_view: NodeView) -> int:
        return 100 if node.name == "z" else 0
