"""Devices in simulated clusters, in virtual time: whatever goes wrong, no device is held twice."""

from __future__ import annotations

from functools import partial

import pytest

from scheduler.errors import InvariantViolation
from scheduler.objects.kinds import Kind
from scheduler.simulate.world import World
from scheduler.simulate.world_facts import Document
from scheduler.simulate.world_trouble import CALM, ROUGH, Trouble
from scheduler.testing.documents import node_json, pod_json
from tests.device_documents import claim, device_class, exactly, gpu, resource_slice
from tests.simulation.runs import world

GPUS = device_class("gpus", 'device.driver == "gpu.example.com"', extendedResourceName="example.com/gpu")


def with_gpus(made: World, nodes: int, gpus: int) -> World:
    made.create(Kind.DEVICE_CLASS, GPUS)
    for number in range(nodes):
        made.create(Kind.NODE, node_json(f"n{number}", cpu="64"))
        made.create(Kind.RESOURCE_SLICE, resource_slice(f"n{number}", *[gpu(f"gpu-{place}") for place in range(gpus)]))
    made.run_for(0.2)
    return made


def claiming(made: World, name: str, count: int = 1) -> str:
    """A pod with a claim of its own; the pod's key."""
    made.create(Kind.RESOURCE_CLAIM, claim(name, requests=[{"name": "r", "exactly": exactly("gpus", count=count)}]))
    entry = {"name": "gpu", "resourceClaimName": name}
    return made.create(Kind.POD, pod_json(name, cpu="10m", spec={"resourceClaims": [entry]}))


def test_pods_that_race_for_devices_get_one_each_and_the_rest_wait() -> None:
    made = with_gpus(world(), nodes=2, gpus=2)
    keys = [claiming(made, f"p{number}") for number in range(6)]
    assert made.run_until(lambda: len(made.bound()) == 4, 10)
    made.run_for(5)
    assert len(made.bound()) == 4
    made.check()
    for key in sorted(made.bound())[:2]:
        made.delete(Kind.POD, key)
    assert made.run_until(lambda: len(set(made.bound()) & set(keys)) == 4, 60)
    made.check()


@pytest.mark.parametrize("trouble", [Trouble(refused=1.0), Trouble(unanswered=1.0)], ids=["refused", "unanswered"])
def test_claims_whose_writes_went_wrong_are_allocated_once_things_go_well(trouble: Trouble) -> None:
    made = with_gpus(world(trouble=trouble), nodes=1, gpus=2)
    keys = {claiming(made, f"p{number}") for number in range(2)}
    made.run_for(30)
    made.check()
    made.trouble = CALM
    assert made.run_until(lambda: made.bound().keys() == keys, 400)
    made.check()


@pytest.mark.parametrize("after", [0.005, 0.02, 0.04, 0.06, 0.1])
def test_a_scheduler_that_is_killed_between_reservation_and_binding_gives_no_device_twice(after: float) -> None:
    made = with_gpus(world(), nodes=1, gpus=4)
    keys = {claiming(made, f"p{number}") for number in range(4)}
    made.run_for(after)
    made.restart()
    assert made.run_until(lambda: made.bound().keys() == keys, 60)
    made.check()


def test_a_slice_that_shrinks_in_mid_flight_takes_nothing_from_pods_that_have_their_devices() -> None:
    made = with_gpus(world(), nodes=1, gpus=2)
    first = claiming(made, "p0")
    made.run_for(0.02)
    made.change(Kind.RESOURCE_SLICE, "n0-slice", lambda found: found["spec"]["devices"].pop())
    made.run_for(0.1)
    second = claiming(made, "p1")
    made.run_until(lambda: first in made.bound(), 10)
    made.run_for(20)
    made.check()
    assert second not in made.bound()


def test_a_claim_deleted_while_its_pod_is_being_bound_fails_the_binding_only() -> None:
    made = with_gpus(world(), nodes=1, gpus=1)
    claiming(made, "p0")
    made.run_for(0.015)
    made.delete(Kind.RESOURCE_CLAIM, "default/p0")
    other = claiming(made, "p1")
    assert made.run_until(lambda: other in made.bound() or "default/p0" in made.bound(), 400)
    made.check()


def test_a_pod_deleted_while_its_claim_is_written_frees_the_device_in_the_end() -> None:
    made = with_gpus(world(), nodes=1, gpus=1)
    first = claiming(made, "p0")
    made.run_until(lambda: bool(made.engine.bindings.under_way), 5)
    made.delete(Kind.POD, first)
    second = claiming(made, "p1")
    made.run_for(10)
    assert second not in made.bound(), "the claim keeps its device until it is deleted, as in kube-scheduler"
    made.delete(Kind.RESOURCE_CLAIM, "default/p0")
    assert made.run_until(lambda: second in made.bound(), 400)
    made.check()


def test_extended_resources_come_and_go_with_their_pods() -> None:
    made = with_gpus(world(), nodes=1, gpus=2)

    def asking(name: str) -> str:
        document = pod_json(name, cpu="10m")
        document["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "2"
        return made.create(Kind.POD, document)

    first, second = asking("p0"), asking("p1")
    assert made.run_until(lambda: len(made.bound()) == 1, 10)
    (bound,) = made.bound()
    made.delete(Kind.POD, bound)
    assert made.run_until(lambda: made.bound().keys() == {first, second} - {bound}, 400)
    made.check()


def set_taints(taints: list[dict[str, str]], found: Document) -> None:
    found["spec"]["devices"][0].update(taints=taints)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_no_device_is_held_twice(seed: int) -> None:
    made = with_gpus(world(seed, ROUGH), nodes=3, gpus=3)
    for number in range(60):
        action = made.random.randrange(10)
        bound = sorted(made.bound())
        if action < 5:
            claiming(made, f"p{number}", count=1 + made.random.randrange(2))
        elif action < 7 and bound:
            made.delete(Kind.POD, made.random.choice(bound))
        elif action == 7:
            made.restart()
        elif action == 8:
            name = f"n{made.random.randrange(3)}-slice"
            taint = [{"key": "broken", "effect": "NoSchedule"}] if made.random.random() < 0.5 else []
            made.change(Kind.RESOURCE_SLICE, name, partial(set_taints, taint))
        else:
            made.break_watch(made.random.choice([Kind.POD, Kind.RESOURCE_CLAIM, Kind.RESOURCE_SLICE]))
        made.run_for(made.random.uniform(0.0, 1.5))
        made.check()
    made.trouble = CALM
    made.run_for(700)
    made.check()
    assert len(made.bound()) > 3


def test_a_device_that_is_held_twice_is_noticed() -> None:
    made = with_gpus(world(), nodes=1, gpus=1)
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n0", "device": "gpu-0"}
    for name in ("a", "b"):
        held = claim(name, "gpus")
        held["status"] = {"allocation": {"devices": {"results": [result]}}}
        made.create(Kind.RESOURCE_CLAIM, held)
    with pytest.raises(InvariantViolation, match=r"gpu-0 is held by default/a and default/b"):
        made.check()


def with_divided_gpus(made: World, nodes: int) -> World:
    """Each node has a GPU that is to be had whole or as two halves."""
    made.create(Kind.DEVICE_CLASS, GPUS)
    for number in range(nodes):
        name = f"n{number}"
        made.create(Kind.NODE, node_json(name, cpu="64"))
        parts = [
            gpu(part, attributes={"size": size}, consumesCounters=[{"counterSet": "gpu", "counters": {"memory": used}}])
            for part, size, used in (
                ("whole", 2, {"value": "80Gi"}),
                ("half-0", 1, {"value": "40Gi"}),
                ("half-1", 1, {"value": "40Gi"}),
            )
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 2}
        made.create(Kind.RESOURCE_SLICE, resource_slice(name, *parts))
        made.change(Kind.RESOURCE_SLICE, f"{name}-slice", partial(set_pool, pool))
        counters = resource_slice(name, name=f"{name}-counters")
        counters["spec"] |= {
            "pool": pool,
            "sharedCounters": [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}],
        }
        made.create(Kind.RESOURCE_SLICE, counters)
    made.run_for(0.2)
    return made


def set_pool(pool: dict[str, object], found: Document) -> None:
    found["spec"]["pool"] = dict(pool)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_no_counter_is_overdrawn(seed: int) -> None:
    """Drivers withdraw their slices and publish them again, watches break, schedulers start again, pods come and go."""
    made = with_divided_gpus(world(seed, ROUGH), nodes=3)
    withdrawn: dict[str, Document] = {}
    placed = 0
    for number in range(50):
        action = made.random.randrange(10)
        bound = sorted(made.bound())
        placed = max(placed, len(bound))
        if action < 5:
            size = 1 + made.random.randrange(2)
            wanted = exactly("gpus", f'device.attributes["gpu.example.com"].size == {size}')
            made.create(Kind.RESOURCE_CLAIM, claim(f"p{number}", requests=[{"name": "r", "exactly": wanted}]))
            entry = {"name": "gpu", "resourceClaimName": f"p{number}"}
            made.create(Kind.POD, pod_json(f"p{number}", cpu="10m", spec={"resourceClaims": [entry]}))
        elif action < 7 and bound:
            made.delete(Kind.POD, made.random.choice(bound))
        elif action == 7:
            made.restart()
        elif action == 8 and withdrawn:
            name, document = withdrawn.popitem()
            made.create(Kind.RESOURCE_SLICE, document)
        elif action == 8:
            name = f"n{made.random.randrange(3)}-slice"
            found = made.facts.get(Kind.RESOURCE_SLICE, name)
            assert found is not None
            withdrawn[name] = {"metadata": {"name": name}, "spec": found["spec"]}
            made.delete(Kind.RESOURCE_SLICE, name)
        else:
            made.break_watch(made.random.choice([Kind.POD, Kind.RESOURCE_CLAIM, Kind.RESOURCE_SLICE]))
        made.run_for(made.random.uniform(0.0, 1.5))
        made.check()
    made.trouble = CALM
    made.run_for(700)
    made.check()
    assert max(placed, len(made.bound())) > 1


def test_nodes_that_have_gone_leave_no_answer_behind_that_breaks_the_next() -> None:
    made = with_gpus(world(), nodes=3, gpus=0)
    made.create(Kind.RESOURCE_SLICE, resource_slice("n0", gpu("gpu-0"), gpu("gpu-1"), name="of-n0"))
    made.delete(Kind.RESOURCE_SLICE, "n0-slice")
    made.run_for(1)
    first = claiming(made, "p0")
    assert made.run_until(lambda: first in made.bound(), 10)
    # The first node can give devices, the others can't; then only the first is left, and the classes change.
    for name in ("n1", "n2"):
        made.delete(Kind.NODE, name)
    made.change(Kind.DEVICE_CLASS, "gpus", lambda found: found["metadata"].update(labels={"of": "now"}))
    made.run_for(0.5)
    second = claiming(made, "p1")
    made.run_for(20)
    assert second in made.bound()
    assert not [line for line in made.journal if " error " in line]
