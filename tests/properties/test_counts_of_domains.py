"""Pods that spread or have affinity: what is brought up to date by domain is what a count of all pods says.

Nodes seldom change here, so that a class is nearly always brought up to date by the pods that came and went.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scheduler import testing
from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.nominator import Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.framework.classes.cache import ClassCache, PodClass
from scheduler.framework.plugin import State
from scheduler.framework.profile import Profile
from scheduler.framework.shortcuts import CountingPlugin
from scheduler.objects.kinds import Kind
from scheduler.plugins.registry import registry
from scheduler.testing.fragments import affinity_json, pod_term, spread_json
from tests import builders
from tests.properties.class_answers import answers_of

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = ("web", "db")
NODES = st.integers(0, 7)
_CLASS = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PROFILES = (
    build_profiles(load(_CLASS), registry())["tandem-scheduler"],
    build_profiles(
        load(
            _CLASS
            + """
profiles:
- schedulerName: listed
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 7}
"""
        ),
        registry(),
    )["listed"],
)


def _shapes(app: str) -> tuple[dict[str, Any], ...]:
    ours = {"app": app}
    zone, host = spread_json(ZONE, ours), spread_json(HOST, ours, soft=True)
    tolerant = spread_json(ZONE, ours, max_skew=2, nodeTaintsPolicy="Honor")
    return (
        {},
        {"spread": [zone, host]},
        {"spread": [spread_json(ZONE, ours, minDomains=3), spread_json(ZONE, ours, soft=True, max_skew=2)]},
        {"spread": [tolerant, spread_json(HOST, ours, max_skew=3)]},
        {"spread": [spread_json(ZONE, ours, soft=True), host, spread_json("disk", ours, soft=True)]},
        {"spread": [spread_json(ZONE, ours, soft=True, max_skew=4)], "node_selector": {"disk": "ssd"}},
        {"affinity": affinity_json(required=[pod_term(ours, ZONE)])},
        {"affinity": affinity_json(required=[pod_term(ours, ZONE)], anti_required=[pod_term({"app": "db"}, ZONE)])},
        {"affinity": affinity_json(anti_required=[pod_term(ours, HOST)])},
        {"affinity": affinity_json(preferred=[(10, pod_term({"app": "web"}, ZONE))])},
        {"affinity": affinity_json(anti_preferred=[(50, pod_term(ours, HOST))])},
        {"affinity": affinity_json(required=[pod_term({"app": "web"}, ZONE), pod_term({}, ZONE)])},
    )


SHAPES = st.integers(0, len(_shapes("web")) - 1)


def pending(shape: int, app: str, name: str, cpu: str = "100m") -> PodInfo:
    return PodInfo(testing.pod(name, labels={"app": app}, cpu=cpu, **_shapes(app)[shape]))


class Domains(RuleBasedStateMachine):
    """Pods come, end and go; every class is asked after each step, in a fork too, and compared with a new one."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = ClusterCache()
        self.classes = ClassCache()
        self.nominator = Nominator(lambda key: None, self.cache.affinity_terms)
        self.pods: dict[str, PodInfo] = {}
        self.known: frozenset[tuple[int, str]] = frozenset()
        self.profile = PROFILES[0]
        self.serial = 0

    @initialize(
        known=st.frozensets(st.tuples(SHAPES, st.sampled_from(APPS)), min_size=3, max_size=5),
        profile=st.sampled_from(PROFILES),
        services=st.booleans(),
        some_lack_labels=st.booleans(),
    )
    def begin(
        self, known: frozenset[tuple[int, str]], profile: Profile, services: bool, some_lack_labels: bool
    ) -> None:
        self.known, self.profile = known, profile
        for number in range(8):
            self.put_node(number, 3 if some_lack_labels and number == 5 else number % 3, False)
        if services:
            for app in APPS:
                self.cache.observe_object(Kind.SERVICE, builders.service(app, {"app": app}))

    def put_node(self, number: int, zone: int, tainted: bool) -> None:
        self.serial += 1
        labels = {HOST: f"n{number}"} | ({"disk": ("ssd", "")[number % 2]} if number % 3 else {})
        if zone == 2 and number == 7:
            del labels[HOST]
        if zone < 3:
            labels[ZONE] = ("east", "west", "" if number == 2 else "north")[zone]
        self.cache.observe_node(
            testing.node(
                f"n{number}",
                cpu="1" if number % 2 else "4",
                labels=labels,
                taints=["dedicated=db:NoSchedule"] if tainted else [],
                resource_version=str(self.serial),
            )
        )

    @rule(number=NODES, zone=st.integers(0, 3), tainted=st.booleans())
    def change_node(self, number: int, zone: int, tainted: bool) -> None:
        self.put_node(number, zone, tainted)

    @rule(number=NODES)
    def remove_node(self, number: int) -> None:
        self.cache.remove_node(f"n{number}")

    @rule(shape=SHAPES, app=st.sampled_from(APPS), number=NODES, count=st.integers(1, 3), cpu=st.integers(0, 3))
    def place(self, shape: int, app: str, number: int, count: int, cpu: int) -> None:
        self._place(shape, app, number, count, f"{100 + 300 * cpu}m")

    @rule(shape=SHAPES, app=st.sampled_from(APPS), numbers=st.lists(NODES, min_size=3, max_size=12))
    def place_several(self, shape: int, app: str, numbers: list[int]) -> None:
        """One after the other, with a decision of each class between them."""
        for number in numbers:
            self._place(shape, app, number, 1, "50m")
            self.kept_answers_are_those_of_a_new_class()

    @rule(app=st.sampled_from(APPS), number=NODES)
    def place_many(self, app: str, number: int) -> None:
        """More than the counters keep the changes of."""
        self._place(0, app, number, 40, "1m")

    @rule(data=st.data(), ends=st.booleans())
    def end_or_remove(self, data: st.DataObject, ends: bool) -> None:
        if not self.pods:
            return
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        if not ends:
            del self.pods[uid]
            self.cache.remove_pod(uid)
            return
        info = self.pods[uid]
        metadata = msgspec.structs.replace(info.pod.metadata, deletion_timestamp="2026-02-01T00:00:00Z")
        ending = PodInfo(msgspec.structs.replace(info.pod, metadata=metadata), node_name=info.node_name)
        self.pods[uid] = ending
        self.cache.observe_pod(ending)

    @rule(shape=SHAPES, app=st.sampled_from(APPS), numbers=st.lists(NODES, min_size=1, max_size=4))
    def come_and_go(self, shape: int, app: str, numbers: list[int]) -> None:
        """Pods come and go again, with a decision of each class after each."""
        before = set(self.pods)
        for number in numbers:
            self._place(shape, app, number, 1, "50m")
            self.kept_answers_are_those_of_a_new_class()
        for uid in sorted(set(self.pods) - before):
            del self.pods[uid]
            self.cache.remove_pod(uid)
            self.kept_answers_are_those_of_a_new_class()

    @rule(shape=SHAPES, number=NODES)
    def try_out_in_a_fork(self, shape: int, number: int) -> None:
        """The fork starts from the live answers; what comes to it and to the live cluster is not the same pod."""
        live = self.cache, self.classes, self.nominator, dict(self.pods)
        fork = self.cache.fork(), self.classes.fork(self.cache), self.nominator
        self.cache, self.classes = fork[0], fork[1]
        self.nominator = live[2].fork(self.cache.affinity_terms)
        self.kept_answers_are_those_of_a_new_class()
        self._place(shape, "web", number, 1, "50m")
        self.kept_answers_are_those_of_a_new_class()
        tried = self.cache, self.classes, self.nominator, self.pods
        self.cache, self.classes, self.nominator, self.pods = live
        self._place(shape, "db", (number + 1) % 8, 1, "50m")
        self.kept_answers_are_those_of_a_new_class()
        live = self.cache, self.classes, self.nominator, self.pods
        self.cache, self.classes, self.nominator, self.pods = tried
        self.kept_answers_are_those_of_a_new_class()
        self.cache, self.classes, self.nominator, self.pods = live

    @invariant()
    def kept_answers_are_those_of_a_new_class(self) -> None:
        for shape, app in sorted(self.known):
            pod = pending(shape, app, "asked")
            pod_class, fragments = self.classes.find(self.profile, pod, self.cache.view)
            kept = answers_of(self.cache, self.nominator, pod_class, fragments, pod)
            fresh_pod = PodInfo(pod.pod)
            fresh_class, fresh_fragments = ClassCache().find(self.profile, fresh_pod, self.cache.view)
            fresh = answers_of(self.cache, self.nominator, fresh_class, fresh_fragments, fresh_pod)
            assert kept == fresh
            self._answers_by_value_are_those_by_row(pod_class, pod)

    @invariant()
    def the_cache_is_consistent(self) -> None:
        self.cache.check()

    def _answers_by_value_are_those_by_row(self, pod_class: PodClass, pod: PodInfo) -> None:
        view = self.cache.view
        for plugin in self.profile.filter_plugins:
            state = pod_class.filters.states.get(plugin.name)
            if not isinstance(plugin, CountingPlugin) or not isinstance(state, State):
                continue
            found = plugin.filter_by_value(state, view)
            if found is not None:
                verdicts = plugin.filter(state, pod, view, view.rows)
                by_row = [0] * view.table.size if verdicts is None else verdicts.codes.tolist()
                assert found.codes.take(view.table.label(found.key)).tolist() == by_row

    def _place(self, shape: int, app: str, number: int, count: int, cpu: str) -> None:
        for _ in range(count):
            self.serial += 1
            info = pending(shape, app, f"p{self.serial}", cpu).on_node(f"n{number}")
            self.pods[info.uid] = info
            self.cache.assume(info)


def _machine(shape: int, app: str, *, services: bool = False) -> Domains:
    """One that knows this class, which has been asked once."""
    machine = Domains()
    machine.begin(frozenset({(shape, app)}), PROFILES[0], services, some_lack_labels=True)
    machine.kept_answers_are_those_of_a_new_class()
    return machine


@settings(max_examples=25)
@given(
    steps=st.lists(st.tuples(st.sampled_from(APPS), NODES), min_size=8, max_size=20),
    profile=st.sampled_from(PROFILES),
    cordoned=NODES,
)
def test_pods_that_would_rather_be_apart_score_each_node_as_a_new_class_does(
    steps: list[tuple[str, int]], profile: Profile, cordoned: int
) -> None:
    """No two nodes share a host name: only the node that the last pod came to scores otherwise, unless it was the one
    with the lowest score or the highest."""
    machine = Domains()
    machine.begin(frozenset({(10, "web"), (10, "db"), (0, "web")}), profile, services=False, some_lack_labels=True)
    for place, (app, number) in enumerate(steps):
        machine.place(10, app, number, 1 + place % 2, 0)
        if place == 5:
            machine.change_node(cordoned, 1, tainted=True)
        machine.kept_answers_are_those_of_a_new_class()


def test_a_preferred_term_that_holds_nowhere_any_more_does_not_score() -> None:
    _machine(9, "db").come_and_go(0, "web", [1, 2])


def test_a_placed_term_that_no_pod_has_any_more_does_not_score() -> None:
    _machine(0, "web").come_and_go(9, "db", [1, 2, 4])


def test_nodes_without_a_zone_and_with_an_empty_one_are_one_domain_of_the_default_spreading() -> None:
    _machine(0, "web", services=True).place_several(0, "web", [2, 5, 1, 2, 5, 3])


def test_a_pod_with_affinity_to_others_fits_nowhere_before_the_first_of_them_comes() -> None:
    machine = _machine(6 + 5, "db")
    machine.come_and_go(0, "web", [1, 3])


def test_a_node_that_fits_again_is_scored_beside_those_that_scored_alike_without_it() -> None:
    machine = _machine(9, "db")
    for _ in range(3):
        machine.place_several(0, "web", [1])
    before = set(machine.pods)
    for number in (0, 2, 3, 5, 6):
        machine._place(0, "db", number, 1, "950m" if number % 2 else "3950m")
    machine.kept_answers_are_those_of_a_new_class()
    for uid in sorted(set(machine.pods) - before):
        del machine.pods[uid]
        machine.cache.remove_pod(uid)
        machine.kept_answers_are_those_of_a_new_class()


def test_a_node_with_more_pods_than_there_were_groups_for_scores_as_for_a_new_class() -> None:
    machine = _machine(1, "web")
    machine.place_several(0, "web", [1] * 12)
    machine.come_and_go(0, "web", [1, 1, 1])


TestCountsOfDomains = Domains.TestCase
TestCountsOfDomains.settings = settings(max_examples=30, stateful_step_count=25)
