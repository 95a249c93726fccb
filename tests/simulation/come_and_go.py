"""Pods and nodes that come and go by the thousand, and the memory that is in use meanwhile.

``python -m tests.simulation.come_and_go 200000 20000`` is the whole promise; ``e2e/test_memory.py`` runs it with
``--long``, ``test_memory.py`` here in small.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.config.loading import load
from scheduler.objects.kinds import Kind
from scheduler.simulate.world import World
from scheduler.testing.documents import node_json, pod_json
from scheduler.testing.fragments import affinity_json, node_term, pod_term, spread_json
from tests.simulation.live_bytes import live_bytes
from tests.simulation.runs import engines

LIVE_NODES = 30
PODS_A_NODE = 10
"""That come with each new node: the live cluster has some 300 pods."""
HOST = "kubernetes.io/hostname"
PROFILE = "tandem-scheduler"


_CONFIGURATION = """
apiVersion: tandem.scheduling/v1alpha1
kind: TandemConfiguration
limits: {}
"""


@dataclass(frozen=True, slots=True)
class Memory:
    """After the first part of the run, and at its end."""

    live_bytes: tuple[int, int]
    """Allocated, as the allocators count."""
    resident_bytes: tuple[int, int]

    @property
    def live_growth(self) -> float:
        return self.live_bytes[1] / self.live_bytes[0] - 1

    @property
    def resident_growth(self) -> float:
        return self.resident_bytes[1] / self.resident_bytes[0] - 1


def come_and_go(pods: int, nodes: int, first: float = 0.1, limits: str = "{}", *, counts_memos: bool = True) -> Memory:
    """Each node has its own name, taint, resource and image; each pod its own labels, as in a StatefulSet, and one in
    ten its own requirements. ``first``: the share of the run after which memory is looked at first. ``limits``: of the
    TandemConfiguration, in YAML. ``counts_memos``: with False the memos of functions (``lru_cache``), which are bounded
    by number and in a short run not yet full, are emptied before each look.
    """
    steps = max(nodes, pods // PODS_A_NODE)
    simulated = World(1, engines(load(_CONFIGURATION.format(limits))))
    names: deque[str] = deque()
    waiting: deque[str] = deque()
    marks: list[tuple[int, int]] = []
    for step in range(steps):
        names.append(_node(simulated, step))
        waiting += [_pod(simulated, step * PODS_A_NODE + place) for place in range(PODS_A_NODE)]
        simulated.run_for(3.0)
        if len(names) > LIVE_NODES:
            simulated.delete(Kind.NODE, names.popleft())
            for _ in range(PODS_A_NODE):
                simulated.delete(Kind.POD, waiting.popleft())
        # What the world writes down for its own checks.
        simulated.journal.clear()
        simulated.events.clear()
        if step + 1 in (round(steps * first), steps):
            simulated.run_for(30.0)
            simulated.check()
            marks.append(_memory(counts_memos))
    (early, early_resident), (late, late_resident) = marks
    return Memory((early, late), (early_resident, late_resident))


def _node(simulated: World, number: int) -> str:
    name = f"node-{number}"
    document = node_json(
        name,
        cpu="4",
        memory="16Gi",
        pods=30,
        labels={HOST: name, "topology.kubernetes.io/zone": f"zone-{number % 3}", f"own-{number}": "yes"},
        taints=[f"since={number}:PreferNoSchedule"],
        allocatable={f"example.com/own-{number}": "1"},
        images={f"registry.test/own-{number}:v1": 2**20},
    )
    simulated.create(Kind.NODE, document)
    return name


def _pod(simulated: World, number: int) -> str:
    labels = {"app": f"app-{number % 7}", "pod": f"pod-{number}"}
    fields: dict[str, Any] = {}
    match number % 10:
        case 0:
            fields["affinity"] = affinity_json(
                node_preferred=[(5, node_term(f"own-{number // PODS_A_NODE} In yes"))],
                anti_preferred=[(3, pod_term({"pod": f"pod-{number - 1}"}))],
            )
        case 1:
            fields["spread"] = [spread_json("topology.kubernetes.io/zone", {"app": labels["app"]}, soft=True)]
        case 2:
            fields["requests"] = {f"example.com/own-{number // PODS_A_NODE}": "1"}
        case 3:
            fields["tolerations"] = [f"since={number // PODS_A_NODE}:PreferNoSchedule"]
    document = pod_json(f"pod-{number}", uid=f"uid-{number}", labels=labels, **fields)
    document["spec"]["schedulerName"] = PROFILE
    return simulated.create(Kind.POD, document)


def _memory(counts_memos: bool) -> tuple[int, int]:
    gc.collect()
    if not counts_memos:
        for memo in [each for each in gc.get_objects() if isinstance(each, functools._lru_cache_wrapper)]:
            if (memo.__module__ or "").startswith("scheduler."):
                memo.cache_clear()
        gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    return live_bytes(), resident


MAX_LIVE_GROWTH = 0.10
MAX_RESIDENT_GROWTH = 0.25


def main(arguments: list[str]) -> int:
    """``PODS NODES [--check]``: 1 if memory grew by more than is promised."""
    numbers = [argument for argument in arguments if argument != "--check"]
    pods, nodes = map(int, numbers)
    found = come_and_go(pods, nodes)
    print(f"live bytes {found.live_bytes}: {found.live_growth:+.1%}")
    print(f"resident bytes {found.resident_bytes}: {found.resident_growth:+.1%}")
    is_kept = found.live_growth <= MAX_LIVE_GROWTH and found.resident_growth <= MAX_RESIDENT_GROWTH
    return 0 if is_kept or "--check" not in arguments else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
