"""What is gone is let go of, also where no pod is to be placed, and so no question ever comes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from scheduler.compose import build_engine
from scheduler.config.loading import load
from scheduler.engine.engine import Engine
from scheduler.messages.now import Now
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Synced
from scheduler.objects.devices import ResourceSlice
from scheduler.objects.kinds import Kind, decode_as, kind_of
from scheduler.objects.meta import ApiObject
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.testing.fragments import affinity_json, node_term, pod_term, spread_json
from scheduler.testing.objects import namespace, node, pod
from tests import builders
from tests.cluster.devices.test_facts import held
from tests.device_documents import gpu, resource_slice
from tests.simulation.names_left import names_left

ROUNDS = 150
MAX_LEFT = 64
"""Small tables are never cleaned up: ids of taints, columns of drivers, what a row's account is to be counted again
for. Each holds at most this number of names, however many have come and gone."""
HOST = "kubernetes.io/hostname"


def engine() -> Engine:
    made = build_engine(load(), started=Now(0.0, 0), seed=1, stopwatch=lambda: 0.0)
    made.handle(Synced(), Now(0.0, 0))
    return made


def comers(number: int) -> Iterator[ApiObject]:
    """One of each kind, named by the number and in no other round; the pod is another scheduler's."""
    name = f"gone-{number}"
    yield namespace(name, {name: name})
    labels = {HOST: name, name: name, "topology.kubernetes.io/zone": name}
    yield node(name, labels=labels, taints=[f"{name}:PreferNoSchedule"], allocatable={f"test/{name}": "1"})
    yield builders.csi_node(name, {"csi.test": 5})
    yield builders.service(name, {"app": name}, namespace=name)
    yield builders.replica_set(name, {"app": name}, namespace=name)
    yield builders.storage_class(name)
    yield builders.volume(
        name, storage_class=name, csi=("csi.test", name), node_affinity=[node_term(f"{HOST} In {name}")]
    )
    yield builders.claim(name, namespace=name, storage_class=name, volume=name)
    yield builders.csi_capacity(name, name, topology={HOST: name}, capacity="5Gi")
    yield builders.attachment(name, name, name)
    yield decode_as(ResourceSlice, encoded(resource_slice(name, gpu(name))))
    yield decode_as(ResourceClaim, encoded(held(name, name, name)))
    yield pod(
        name,
        namespace=name,
        node="stays",
        scheduler="other",
        labels={"app": name},
        claims=[name],
        ports=[1000 + number],
        image=f"registry.test/{name}",
        requests={f"test/{name}": "1"},
        affinity=affinity_json(anti_required=[pod_term({"app": name}, name)], preferred=[(1, pod_term({name: name}))]),
        spread=[spread_json(name, {"app": name})],
    )


def encoded(document: object) -> bytes:
    return msgspec.json.encode(document)


def come_and_go(of: Engine, rounds: int) -> None:
    """Each round's objects go in a random order."""
    random, now = Random(1), Now(1.0, 10**9)
    of.handle(ObjectObserved(Kind.NODE, node("stays")), now)
    for number in range(rounds):
        objects = list(comers(number))
        for one in objects:
            of.handle(ObjectObserved(kind_of(one), one), now)
        random.shuffle(objects)
        for one in objects:
            of.handle(ObjectDeleted(kind_of(one), one), now)


def test_what_others_have_made_and_deleted_is_let_go_of_though_no_pod_is_to_be_placed() -> None:
    idle = engine()
    come_and_go(idle, ROUNDS)
    assert {place: count for place, count in names_left(idle, "gone-").items() if count > MAX_LEFT} == {}
