"""Checks of what a plugin answers once a pod has its node: in Reserve and Permit, and whether PreBind has work."""

from __future__ import annotations

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.plugin import (
    FilterPlugin,
    NodeSubset,
    PermitPlugin,
    Plugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreFlight,
    ReservePlugin,
    State,
)
from scheduler.messages.status import Refusal
from scheduler.testing.clusters import World
from scheduler.testing.questions import pre_filter_answer, refusal_of_row
from scheduler.testing.violations import ContractViolation, asked
from scheduler.user_plugins import answers
from scheduler.user_plugins.shape import defines

MAX_NODES = 3
"""Nodes that are tried for a pod."""


def check_chosen(plugin: Plugin, world: World) -> None:
    """Raises ContractViolation. Each pod is assumed on a few of the nodes that the plugin leaves it, one after the
    other; afterwards the cluster is as before."""
    if not isinstance(plugin, ReservePlugin | PermitPlugin | PreBindPlugin):
        return
    for pod in world.pending:
        if not plugin.concerns(pod):
            continue
        state: State | None = None
        names = [node.name for node in world.nodes]
        if isinstance(plugin, PreFilterPlugin):
            answer = pre_filter_answer(plugin, pod, world.view)
            if isinstance(answer, Refusal):
                continue
            if isinstance(answer, NodeSubset):
                names = [name for name in names if name in answer.names]
                answer = answer.inner
            state = answer if isinstance(answer, State) else None
        for name in [one for one in names if _is_left(plugin, state, pod, world.view, one)][:MAX_NODES]:
            assumed = pod.on_node(name)
            world.cache.assume(assumed)
            _ask(plugin, state, assumed, world.view, name)
            world.cache.forget(assumed.uid)


def _is_left(plugin: Plugin, state: State | None, pod: PodInfo, view: View, node: str) -> bool:
    if state is None or not isinstance(plugin, FilterPlugin):
        return True
    row = view.table.existing_row(node)
    return row is not None and refusal_of_row(plugin, state, pod, view, row) is None


def _ask(plugin: Plugin, state: State | None, pod: PodInfo, view: View, node: str) -> None:
    """In the order of the framework; what ``reserve`` sets aside is not carried out."""
    where = f"of pod {pod.name} and node {node}"
    if isinstance(plugin, ReservePlugin):
        asked(plugin, f"reserve {where}", lambda: plugin.reserve(state, pod, view, node), answers.check_reserve)
    if isinstance(plugin, PermitPlugin):
        asked(plugin, f"permit {where}", lambda: plugin.permit(state, pod, view, node), answers.check_permit)
    if isinstance(plugin, PreBindPlugin):
        what = f"pre_bind_pre_flight {where}"
        flight = asked(
            plugin, what, lambda: plugin.pre_bind_pre_flight(state, pod, view, node), answers.check_pre_flight
        )
        if isinstance(flight, PreFlight) and not defines(type(plugin), PreBindPlugin, "pre_bind"):
            raise ContractViolation(plugin.name, "answers", f"{what} answered a PreFlight, and there is no pre_bind")
    if isinstance(plugin, ReservePlugin):
        asked(plugin, f"unreserve {where}", lambda: plugin.unreserve(state, pod, view, node), answers.check_effects)
