"""Checks that a State with a pod added or removed answers as a new one for the changed cluster."""

from __future__ import annotations

from random import Random
from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.plugin import FilterPlugin, Plugin, PreFilterPlugin, State
from scheduler.messages.status import Refusal
from scheduler.testing.clusters import Cluster, World
from scheduler.testing.questions import filter_state, refusal_of_row
from scheduler.testing.violations import ContractViolation, asked

MAX_PAIRS = 40


def check_with_pod(plugin: Plugin, cluster: Cluster, rng: Random) -> None:
    """Raises ContractViolation. Pods that the plugin skips or refuses as a whole are left out: they stay so."""
    if not isinstance(plugin, FilterPlugin) or not isinstance(plugin, PreFilterPlugin):
        return
    world = World(cluster)
    rows = world.view.ordered_rows.tolist()
    pairs = [(pod, row) for pod in world.pending for row in rows]
    for pod, row in rng.sample(pairs, min(len(pairs), MAX_PAIRS)):
        state = filter_state(plugin, pod, world.view)
        if state is None:
            continue
        base = refusal_of_row(plugin, state, pod, world.view, row)
        other = world.place(rng.choice(world.pending), world.view.table.names[row])
        used = world.view.table.ports[row] or {}
        if not any(port in used for port in other.ports):
            # Two pods with the same host port never share a node; ports are counted as a set.
            _check_added(plugin, world, state, pod, other, row, base)
        placed = list(world.view.table.pods[row].values())
        if placed:
            _check_removed(plugin, world, state, pod, rng.choice(placed), row)
        if refusal_of_row(plugin, state, pod, world.view, row) != base:
            raise ContractViolation(plugin.name, "with_pod", "it changed the State that it was called on")


def _check_added(
    plugin: Any, world: World, state: State, pod: PodInfo, other: PodInfo, row: int, base: Refusal | None
) -> None:
    private = world.view.one_row(row)
    private.add_pod(other)
    added = _with_pod(plugin, state, private, other, 1)
    supposed = refusal_of_row(plugin, added, pod, private, 0)
    world.cache.observe_pod(other)
    fresh = filter_state(plugin, pod, world.view)
    real = None if fresh is None else refusal_of_row(plugin, fresh, pod, world.view, row)
    is_skipped_now = fresh is None
    world.cache.remove_pod(other.uid)
    if not is_skipped_now:
        _compare(plugin, pod, f"pod {other.name} added to node {other.node_name}", supposed, real)
    private.remove_pod(other.uid)
    taken = _with_pod(plugin, added, private, other, -1)
    back = refusal_of_row(plugin, taken, pod, private, 0)
    _compare(plugin, pod, f"pod {other.name} added to node {other.node_name} and taken away again", back, base)


def _check_removed(plugin: Any, world: World, state: State, pod: PodInfo, other: PodInfo, row: int) -> None:
    private = world.view.one_row(row)
    private.remove_pod(other.uid)
    removed = _with_pod(plugin, state, private, other, -1)
    supposed = refusal_of_row(plugin, removed, pod, private, 0)
    world.cache.remove_pod(other.uid)
    fresh = filter_state(plugin, pod, world.view)
    real = None if fresh is None else refusal_of_row(plugin, fresh, pod, world.view, row)
    world.cache.observe_pod(other)
    if fresh is not None:
        _compare(plugin, pod, f"pod {other.name} taken from node {other.node_name}", supposed, real)


def _with_pod(plugin: Plugin, state: State, private: Any, other: PodInfo, sign: int) -> State:
    def check(answer: Any) -> None:
        if not isinstance(answer, State):
            raise TypeError(f"answered {answer!r}; a State is wanted")

    found: State = asked(plugin, "with_pod", lambda: state.with_pod(private, 0, other, sign), check)
    return found


def _compare(plugin: Plugin, pod: PodInfo, case: str, supposed: Refusal | None, real: Refusal | None) -> None:
    if supposed != real:
        message = f"for pod {pod.name} with {case}, with_pod leads to {supposed}, the real thing to {real}"
        raise ContractViolation(plugin.name, "with_pod", message)
