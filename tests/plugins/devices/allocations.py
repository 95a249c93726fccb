"""One node's devices and a pod's claims, as JSON documents, and what the search gives for them."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.cluster.cache import ClusterCache
from scheduler.objects.kinds import Kind, decode, decode_as
from scheduler.objects.node import Node
from scheduler.objects.quantity import parse
from scheduler.objects.steps import Pace, run_to_end
from scheduler.plugins.devices.one_node import Asked, Found, asked_for, find
from scheduler.plugins.devices.results import allocation_of
from scheduler.plugins.devices.search import Fault
from scheduler.plugins.devices.situation import Situation, situation_of
from tests.plugins.clusters import info

Document = dict[str, Any]
KINDS = {"classes": Kind.DEVICE_CLASS, "slices": Kind.RESOURCE_SLICE}


def searched(case: Document, max_steps: int = 0) -> tuple[ClusterCache, Found | Fault | str]:
    """The cluster, and what the production's own way from PreFilter to the search finds on the only node. An error is a
    text. ``max_steps`` 0: no limit."""
    cache, situation, asked = asked_of(case)
    found = run_to_end(find(asked, cache.view, 0, max_steps, Pace()))
    return cache, situation.named(found) if isinstance(found, str) else found


def asked_of(case: Document) -> tuple[ClusterCache, Situation, Asked | str]:
    """The cluster, and what the pod asks of its only node."""
    cache = ClusterCache()

    def show(kind: Kind, document: Document) -> None:
        cache.observe_object(kind, decode(kind, msgspec.json.encode(document)))

    cache.observe_node(decode_as(Node, msgspec.json.encode(case["node"])))
    for kind in ("classes", "slices"):
        for document in case[kind]:
            show(KINDS[kind], document)
    for claim in (*case["allocated"], *case["claims"]):
        show(Kind.RESOURCE_CLAIM, claim)
    entries = [
        {"name": f"c{number}", "resourceClaimName": claim["metadata"]["name"]}
        for number, claim in enumerate(case["claims"])
    ]
    pod, view = info(spec={"resourceClaims": entries}), cache.view
    situation = situation_of(pod, view)
    assert isinstance(situation, Situation)
    return cache, situation, asked_for(situation, pod, view, ())


def answer_to(case: Document) -> Document:
    """``results`` by claim as they are written, and ``error``, both as far as they say something."""
    _, found = searched(case)
    if isinstance(found, str):
        return {"error": found}
    if isinstance(found, Fault):
        return {"error": found.value} if found is Fault.INVALID_POOLS else {}
    node = case["node"]["metadata"]["name"]
    allocations = [allocation_of(needs, chosen, node, lambda _: "share") for needs, chosen in found.claims]
    return comparable({"results": msgspec.json.decode(msgspec.json.encode(allocations))})


def comparable(answer: Document) -> Document:
    """Without what is empty; share ids are random, and quantities are written in several ways."""
    made: Document = _without_nothing(answer)
    for allocation in made.get("results", ()):
        for result in allocation.get("devices", {}).get("results", ()):
            if "shareID" in result:
                result["shareID"] = "share"
            amounts = result.get("consumedCapacity", {})
            amounts.update({name: parse(written) for name, written in amounts.items()})
    return made


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nothing(one) for key, one in value.items() if one not in (None, [], {}, False, "")}
    return [_without_nothing(one) for one in value] if isinstance(value, list) else value
