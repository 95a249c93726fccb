"""One queue scenario, run: the first step after which a pod is not where kube-scheduler has it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from scheduler.framework.plugin import Plugin
from scheduler.plugins.registry import BUILT_IN
from tests.queue.vectors import GATED_FLUSH, RELEASE, ScriptedCluster, comparable, differences

ON_PURPOSE = {"gated-flush": GATED_FLUSH, "external-bind": RELEASE}
"""Tag of scenarios in which Tandem may differ on purpose → how. They are compared up to there."""


def run(scenario: dict[str, Any]) -> list[str]:
    """A line for each difference after the first step that has any, unless the scenario's tags allow for it."""
    cluster = ScriptedCluster(scenario, _plugins())
    for number, (step, expected) in enumerate(zip(scenario["steps"], scenario["expect"], strict=True)):
        popped = cluster.run(step)
        lines = differences(comparable(expected), cluster.state())
        if step["op"] == "pop" and popped != expected["pop"]:
            lines.append(f"pop: expected {expected['pop']!r}, got {popped!r}")
        if lines:
            if not ON_PURPOSE.keys().isdisjoint(scenario["tags"]):
                return []
            return [f"after step {number} ({step['op']}): {line}" for line in lines]
    return []


@lru_cache(maxsize=1)
def _plugins() -> tuple[Plugin, ...]:
    return tuple(plugin(plugin.Args()) if plugin.Args is not None else plugin() for plugin in BUILT_IN)
