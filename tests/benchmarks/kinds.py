"""One decision about a pod unlike all others, for each kind of request: as multiples of that for a CPU request.

The engine alone, in seconds of the thread's CPU: other processes on the machine change the ratios little. Median.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable

from scheduler.engine.engine import Engine
from scheduler.messages.stimuli import ObjectObserved
from scheduler.objects.kinds import Kind, kind_of
from scheduler.objects.meta import ApiObject
from tests.benchmarks.clusters import engine_with, now, pending, show
from tests.benchmarks.requests import (
    DRIVER,
    EBS_DRIVER,
    OTHERS,
    OWN_CPU,
    VOLUMES,
    Request,
    bound,
    csi_nodes,
    in_tree,
    node_name,
)

FULL_NODES = 1_000
PODS_A_NODE = 4
PODS = 41
_UNCOUNTED = 6
"""The first decisions fill caches that are there for longer than a pod."""

REQUESTS = OTHERS | VOLUMES

Surroundings = Callable[[str, Request], Engine]


def on_1_000_nodes() -> dict[str, float]:
    return _table(_empty(1_000), fits=True)


def on_5_000_nodes() -> dict[str, float]:
    return _table(_empty(5_000), fits=True)


def none_fits() -> dict[str, float]:
    """On 1,000 full nodes with four pods each, all less important: the decision is whose pods are removed."""
    return _table(_full(_plainly), fits=False)


def none_fits_beside_claims() -> dict[str, float]:
    """The same where each of those pods has a bound claim of its own, by turns CSI and in-tree."""
    return _table(_full(_with_claims), fits=False)


def _table(surroundings: Surroundings, *, fits: bool) -> dict[str, float]:
    base = _microseconds(surroundings(OWN_CPU, REQUESTS[OWN_CPU]), REQUESTS[OWN_CPU], fits=fits)
    found = {f"{OWN_CPU}, µs": base}
    for name, request in REQUESTS.items():
        found[name] = _microseconds(surroundings(name, request), request, fits=fits) / base
    return found


# --- clusters ---------------------------------------------------------------------------------------------------------


def _empty(nodes: int) -> Surroundings:
    def engine(_: str, request: Request) -> Engine:
        made = engine_with(nodes, allocatable={"example.com/gpu": "1000", "ephemeral-storage": "100Gi"})
        observe(made, request.shared(nodes))
        return made

    return engine


def _full(there: Callable[[Engine, int, int], None]) -> Surroundings:
    def engine(_: str, request: Request) -> Engine:
        made = _empty(FULL_NODES)(_, request)
        if there is _with_claims:
            observe(made, csi_nodes(FULL_NODES, (DRIVER, EBS_DRIVER, "other.test")))
        for number in range(FULL_NODES):
            for place in range(PODS_A_NODE):
                there(made, number, place)
        return made

    return engine


def _plainly(engine: Engine, number: int, place: int, claims: Iterable[str] = ()) -> None:
    document = pending(
        f"there-{number}-{place}",
        cpu=f"{32 // PODS_A_NODE}",
        node=node_name(number),
        priority=place,
        started=f"2026-01-01T00:00:0{place}Z",
        claims=claims,
    )
    show(engine, Kind.POD, document)


def _with_claims(engine: Engine, number: int, place: int) -> None:
    name = f"there-{number}-{place}"
    observe(engine, bound(name) if place % 2 else in_tree(name))
    _plainly(engine, number, place, (name,))


def observe(engine: Engine, objects: Iterable[ApiObject]) -> None:
    for each in objects:
        engine.handle(ObjectObserved(kind_of(each), each), now())


# --- measuring --------------------------------------------------------------------------------------------------------


def _microseconds(engine: Engine, request: Request, *, fits: bool) -> float:
    for number in range(1, PODS + 1):
        add(engine, request, number)
    times = []
    for _ in range(PODS):
        moment = now()
        started = time.thread_time()
        commands = engine.schedule_one(moment)
        times.append(time.thread_time() - started)
        if commands is None:
            raise AssertionError("the queue ran dry: the measurement would be of nothing")
    if fits and sum(uid.startswith("uid-new-") for uid in engine.cache.pods) != PODS:
        raise AssertionError("pods were refused: the measurement would be of something else")
    return statistics.median(times[_UNCOUNTED:]) * 1e6


def add(engine: Engine, request: Request, number: int) -> None:
    """Pod ``number`` and what is its own."""
    observe(engine, request.own(number))
    show(engine, Kind.POD, pending(f"new-{number}", priority=1_000, **request.fields(number)))
