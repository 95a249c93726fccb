"""Classes that fit in some domains only, others after each pod: kept answers against an evaluation from nothing."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scheduler import testing
from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.framework.classes.cache import ClassCache
from scheduler.plugins.registry import registry
from scheduler.testing.fragments import affinity_json, pod_term, spread_json
from tests.properties.class_answers import answers_of

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = 4
NODES = 14
"""More than two in each zone, so that one zone is less than half of the rows."""
PROFILE = next(iter(build_profiles(load(), registry(())).values()))


def asked(kind: int, name: str) -> PodInfo:
    """A pod of one of a few classes, all of which read the counts of one another's pods."""
    labels = {"app": "web", "kind": str(kind)}
    alike, web = {"kind": str(kind)}, {"app": "web"}
    fields: tuple[dict[str, Any], ...] = (
        {"spread": [spread_json(ZONE, alike), spread_json(HOST, alike, soft=True)]},
        {"spread": [spread_json(ZONE, web, max_skew=2), spread_json(HOST, alike, soft=True, max_skew=2)]},
        {"spread": [spread_json(ZONE, alike), spread_json(HOST, web)]},
        {"spread": [spread_json(ZONE, alike, minDomains=5)]},
        {"spread": [spread_json(ZONE, web), spread_json(ZONE, alike, soft=True), spread_json(HOST, web, soft=True)]},
        {
            "spread": [spread_json(ZONE, alike)],
            "affinity": affinity_json(anti_required=[pod_term({"kind": "0"}, ZONE)]),
        },
        {"affinity": affinity_json(required=[pod_term(alike, ZONE)])},
    )
    return PodInfo(testing.pod(name, cpu="300m", labels=labels, **fields[kind]))


KINDS = st.integers(0, 6)
NUMBERS = st.integers(0, NODES - 1)


class OpenAndClosed(RuleBasedStateMachine):
    """Pods come and go, mostly where they would be placed; all classes are asked after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = ClusterCache()
        self.classes = ClassCache()
        self.nominator = Nominator(lambda key: None, self.cache.affinity_terms)
        self.pods: list[PodInfo] = []
        self.serial = 0

    @initialize(taken=st.booleans())
    def begin(self, taken: bool) -> None:
        for number in range(NODES):
            self.put_node(number, is_refused=taken and number % 5 == 0)

    @rule(number=NUMBERS, is_refused=st.booleans())
    def put_node(self, number: int, is_refused: bool) -> None:
        taints = ["dedicated=db:NoSchedule"] if is_refused else []
        zone = f"z{number % ZONES}"
        self.serial += 1
        self.cache.observe_node(
            testing.node(f"n{number}", cpu="1", zone=zone, taints=taints, resource_version=str(self.serial))
        )

    @rule(number=NUMBERS)
    def remove_node(self, number: int) -> None:
        self.cache.remove_node(f"n{number}")

    @rule(kind=KINDS, count=st.integers(1, 5))
    def schedule(self, kind: int, count: int) -> None:
        for _ in range(count):
            pod_class, _ = self.compare(kind)
            if pod_class.filters.pre_refusal is None and pod_class.filters.first.feasible_count:
                _, leaders = pod_class.scores.leaders()
                self.place(kind, self.cache.view.table.names[leaders[self.serial % len(leaders)]])

    @rule(kind=KINDS, number=NUMBERS)
    def place_anywhere(self, kind: int, number: int) -> None:
        self.place(kind, f"n{number}")

    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        if self.pods:
            self.cache.remove_pod(self.pods.pop(data.draw(st.integers(0, len(self.pods) - 1))).uid)

    @invariant()
    def kept_answers_are_true(self) -> None:
        for kind in range(7):
            kept, fresh = self.compare(kind)
            if kept.filters.pre_refusal is None and kept.filters.first.feasible_count:
                best, rows = kept.scores.leaders()
                assert (best, [*rows]) == (fresh.scores.leaders()[0], [*fresh.scores.leaders()[1]])

    def place(self, kind: int, node: str) -> None:
        self.serial += 1
        info = asked(kind, f"p{self.serial}").on_node(node)
        self.pods.append(info)
        self.cache.observe_pod(info)

    def compare(self, kind: int) -> Any:
        pod = asked(kind, "asked")
        kept, fragments = self.classes.find(PROFILE, pod, self.cache.view)
        answers = answers_of(self.cache, self.nominator, kept, fragments, pod)
        fresh, fresh_fragments = ClassCache().find(PROFILE, pod, self.cache.view)
        assert answers == answers_of(self.cache, self.nominator, fresh, fresh_fragments, pod)
        return kept, fresh


TestOpenAndClosed = OpenAndClosed.TestCase
TestOpenAndClosed.settings = settings(max_examples=30, stateful_step_count=20)
