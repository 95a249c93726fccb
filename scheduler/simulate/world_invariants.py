"""Invariants of a simulated cluster, valid at every moment and under every injected fault."""

from __future__ import annotations

import msgspec

from scheduler.engine.engine import Engine
from scheduler.errors import InvariantViolation
from scheduler.objects.kinds import Kind, decode_as
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.resources import allocatable_of, requests_of
from scheduler.simulate.world_facts import Facts, is_over


def check_engine(engine: Engine) -> None:
    """Check that the engine agrees with itself, and that every pod of its profiles that needs a node waits, is tried,
    or is assumed."""
    engine.check()
    for info in engine.known_pods:
        is_ours = info.pod.spec.scheduler_name in engine.profiles
        if not is_ours or info.pod.node_name or info.is_terminating or engine.cache.is_assumed(info.uid):
            continue
        is_waiting = engine.queue.find(info.key) is not None
        if not is_waiting and engine.queue.in_flight.get(info.uid) is None:
            raise InvariantViolation(f"pod {info.key} waits for a node, but is nowhere in the queue")


def check_nodes(facts: Facts) -> None:
    """Check that the pods that are bound to a node fit on it: pods, cpu and memory, by the API server's own account."""
    used: dict[str, dict[str, int]] = {}
    for _, document in facts.of(Kind.POD):
        if document["spec"].get("nodeName") and not is_over(document):
            amounts = used.setdefault(document["spec"]["nodeName"], {})
            requests = requests_of(decode_as(Pod, msgspec.json.encode(document)))
            for name, amount in (("pods", 1), ("cpu", requests.milli_cpu), ("memory", requests.memory)):
                amounts[name] = amounts.get(name, 0) + amount
    for node, amounts in used.items():
        found = facts.get(Kind.NODE, node)
        if found is None:
            continue
        offered = allocatable_of(decode_as(Node, msgspec.json.encode(found)))
        for name, amount in amounts.items():
            if amount > offered.amount(name):
                raise InvariantViolation(f"node {node} has {offered.amount(name)} {name}, pods take {amount}")
