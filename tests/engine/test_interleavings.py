"""Watches of different kinds are independent: whatever the order in which they speak, and wherever a wake is
interrupted, no pod is left waiting that could be placed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus, Tick, WakingContinued
from scheduler.objects.kinds import Kind, decode
from scheduler.testing.documents import node_json, pod_json
from tests.device_documents import claim, device_class, gpu, resource_slice
from tests.engine.driver import Cluster

CLAIMING = ("c0", "c1", "c2", "c3")
"""Pods whose claims are made from a template; but for the names they are alike."""
PLAIN = ("p0", "p1")
SETTLED_SECONDS = 25.0
"""More than a back-off, less than what the pool's flush waits for: only events wake the pods."""


def observed(kind: Kind, document: dict[str, Any]) -> Stimulus:
    return ObjectObserved(kind, decode(kind, msgspec.json.encode(document)))


def claiming(name: str, version: int, *, is_claim_named: bool) -> Stimulus:
    """A pod before, or after, the claim controller has written which claim was made for it."""
    named = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}] if is_claim_named else []
    document = pod_json(name, cpu="1", resource_version=str(version), status={"resourceClaimStatuses": named})
    document["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    return observed(Kind.POD, document)


def made_for(pod: str) -> Stimulus:
    document = claim(f"{pod}-gpu", "gpus")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": f"pod-{pod}", "controller": True}
    document["metadata"] |= {"resourceVersion": "1", "ownerReferences": [owner]}
    return observed(Kind.RESOURCE_CLAIM, document)


def node(name: str, cpu: str, version: int) -> Stimulus:
    return observed(Kind.NODE, node_json(name, cpu=cpu, resource_version=str(version)))


def watches(made: Sequence[str] = CLAIMING) -> dict[Kind, list[Stimulus]]:
    """What each watch shows, in its order; the claims are made in that of ``made``. In the end every pod fits."""
    running = decode(Kind.POD, msgspec.json.encode(pod_json("running", cpu="6", node="n0", resource_version="1")))
    return {
        Kind.POD: [
            ObjectObserved(Kind.POD, running),
            *[claiming(name, 2, is_claim_named=False) for name in CLAIMING],
            *[observed(Kind.POD, pod_json(name, cpu="1", resource_version="3")) for name in PLAIN],
            *[claiming(name, 4, is_claim_named=True) for name in CLAIMING],
            ObjectDeleted(Kind.POD, running),
        ],
        Kind.NODE: [node("n0", "6", 1), node("n1", "1", 2), node("n1", "6", 3)],
        Kind.DEVICE_CLASS: [observed(Kind.DEVICE_CLASS, device_class("gpus", 'device.driver == "gpu.example.com"'))],
        Kind.RESOURCE_SLICE: [
            observed(Kind.RESOURCE_SLICE, resource_slice(name, gpu("gpu-0"), gpu("gpu-1"))) for name in ("n0", "n1")
        ],
        Kind.RESOURCE_CLAIM: [made_for(name) for name in made],
    }


TURNS = [kind for kind, stream in watches().items() for _ in stream]


def interrupting_wakes_after(steps: int) -> Cluster:
    cluster = Cluster()
    before = cluster.engine.settings
    changed = replace(before, queue=replace(before.queue, steps_a_slice=steps))
    assert cluster.engine.replace_profiles(cluster.profiles, changed, cluster.now)
    return cluster


def test_a_claim_that_is_seen_after_its_pod_names_it_wakes_its_pod_among_many_that_are_alike() -> None:
    cluster = interrupting_wakes_after(1)
    shown = watches()
    for kind in (Kind.NODE, Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE, Kind.POD):
        for stimulus in shown[kind]:
            cluster.feed(stimulus)
    cluster.schedule_all()
    assert [cluster.place(name) for name in CLAIMING] == ["gated"] * len(CLAIMING)
    cluster.feed(made_for("c2"))
    cluster.schedule_all()
    assert [name for name in CLAIMING if cluster.node_of(name)] == ["c2"]


@settings(max_examples=60)
@given(
    turns=st.permutations(TURNS),
    late=st.sampled_from(list(combinations(watches(), 2))),
    made=st.permutations(CLAIMING),
    between=st.lists(st.sampled_from(["", "slice", "try", "tick", "pause"]), min_size=len(TURNS), max_size=len(TURNS)),
    steps=st.integers(1, 3),
)
def test_no_pod_that_could_be_placed_is_left_waiting(
    turns: list[Kind], late: Sequence[Kind], made: list[str], between: list[str], steps: int
) -> None:
    """Two watches lag behind the others: nothing but their events can wake the pods that wait for them."""
    turns = [kind for kind in turns if kind not in late] + [kind for kind in turns if kind in late]
    cluster = interrupting_wakes_after(steps)
    left = watches(made)
    for kind, action in zip(turns, between, strict=True):
        cluster.feed(left[kind].pop(0))
        match action:
            case "slice" if cluster.engine.is_waking:
                cluster.feed(WakingContinued())
            case "try":
                cluster.schedule()
            case "tick":
                cluster.feed(Tick())
            case "pause":
                cluster.advance(0.4)
    for _ in range(3):
        while cluster.engine.is_waking:
            cluster.feed(WakingContinued())
        cluster.schedule_all()
        cluster.advance(SETTLED_SECONDS / 3)
    for name in (*CLAIMING, *PLAIN):
        assert cluster.node_of(name), f"{name} waits: {cluster.place(name)}"
