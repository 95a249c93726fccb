"""What is kept of dry runs for pods that differ in their claims, or that plugins count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.asked_filters import counts_pods
from scheduler.framework.likeness import AlikeState
from scheduler.framework.plugin import FilterPlugin, Reads, Rows, State, Verdicts
from scheduler.framework.post_filter import PostFilterContext
from scheduler.messages.status import Skip, unschedulable
from scheduler.objects.pod import Pod
from scheduler.preemption.evaluation import Extent, evaluate
from scheduler.preemption.pod_columns import PodColumns
from scheduler.testing.fragments import affinity_json, pod_term, spread_json
from scheduler.testing.objects import namespace, node, pod
from tests import builders
from tests.preemption.situations import Situation, evidence_of
from tests.preemption.test_kept_answers import Watching

NODES = ("n0", "n1", "n2")
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
EVERY_NODE = Extent(100, 0)
CLAIMS = tuple("abcdef")
WEB = {"app": "web"}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "spread": {"labels": WEB, "spread": [spread_json(ZONE, {"app": "web"})]},
    "apart": {"labels": WEB, "affinity": affinity_json(anti_required=[pod_term({"app": "web"}, HOST)])},
    "together": {"affinity": affinity_json(required=[pod_term({"app": "web"}, ZONE)])},
    "apart in zones": {"labels": WEB, "affinity": affinity_json(anti_required=[pod_term({"app": "db"}, ZONE)])},
    "together with its own": {
        "labels": WEB,
        "affinity": affinity_json(required=[pod_term(WEB, ZONE), pod_term(WEB, HOST)]),
    },
    "spread over both": {"labels": WEB, "spread": [spread_json(ZONE, WEB), spread_json(HOST, WEB, minDomains=2)]},
    "spread, others": {"spread": [spread_json(ZONE, {"app": "db"}, max_skew=2)]},
}
COUNTED: tuple[dict[str, Any], ...] = (
    {},
    {"labels": WEB},
    {"labels": {"app": "db"}},
    {"labels": WEB, "affinity": affinity_json(anti_required=[pod_term(WEB, HOST)])},
    {"affinity": affinity_json(anti_required=[pod_term(WEB, ZONE)])},
    {"affinity": affinity_json(anti_required=[pod_term({}, HOST, namespace_selector={"matchLabels": {"team": "a"}})])},
)
"""Pods that plugins count for some of these kinds, and that may count those."""


def full_cluster(*plugins: Any) -> Situation:
    """Nodes of two zones with four pods each, a quarter of them counted; claims e and f are of one volume."""
    labels = [{"app": "web"}, {}, {}, {}]
    pods = [
        pod(f"{name}-{index}", cpu="1", node=name, priority=1, labels=labels[(index + place) % 4])
        for place, name in enumerate(NODES)
        for index in range(4)
    ]
    objects = [
        *[builders.claim(name, volume=f"pv-{name}") for name in CLAIMS],
        *[builders.volume(f"pv-{name}", csi=("csi.test", name.replace("f", "e"))) for name in CLAIMS],
        *[builders.csi_node(name, {"csi.test": 2}) for name in NODES],
    ]
    nodes = [node(name, cpu="4", zone=f"z{place % 2}") for place, name in enumerate(NODES)]
    return Situation(nodes, pods, objects, added_plugins=plugins)


def preemptor(number: int, kind: str = "plain", claims: tuple[str, ...] = (), priority: int = 10) -> Pod:
    return pod(f"high-{number}", cpu="2", priority=priority, claims=claims, **KINDS[kind])


class Attempts:
    """Attempts as engines make them: of one class are the pods that differ in their claims alone, and what plugins say
    of a class that neither counts pods nor looks at claims is the same object."""

    def __init__(self, situation: Situation, states: Mapping[str, State] | None = None) -> None:
        self.situation = situation
        self.columns = PodColumns()
        self._more_states = states or {}
        self._states: dict[tuple[str, int], dict[str, State | Skip]] = {}

    def _context(self, one: Pod, kind: str) -> PostFilterContext:
        statuses = {name: unschedulable("full") for name in self.situation.cache.table.names}
        context = self.situation.attempt(one, statuses=statuses)
        known = self._states.setdefault((kind, len(one.spec.volumes)), dict(context.states))
        states = {
            name: state if isinstance(state, AlikeState) or counts_pods(state) else known[name]
            for name, state in context.states.items()
        }
        states |= self._more_states
        return replace(context, states=states, class_key=(kind, len(one.spec.volumes)))

    def of(self, one: Pod, kind: str, columns: PodColumns | None = None) -> Any:
        evidence = evidence_of(evaluate(self._context(one, kind), EVERY_NODE, columns=columns))
        candidates = [(each.node_name, [info.uid for info in each.victims]) for each in evidence.candidates]
        return candidates, evidence.refusals, evidence.nominated_node

    def kept(self, one: Pod, kind: str) -> Any:
        return self.of(one, kind, self.columns)


def test_pods_with_claims_of_their_own_ask_only_about_the_nodes_that_have_changed() -> None:
    watching = Watching()
    attempts = Attempts(full_cluster(watching))
    first = attempts.kept(preemptor(0, claims=("a",)), "plain")
    watching.take()
    assert attempts.kept(preemptor(1, claims=("b",)), "plain") == first
    assert watching.take() == set()
    attempts.situation.observe(builders.csi_node("n1", {"csi.test": 0}))
    attempts.kept(preemptor(2, claims=("c",)), "plain")
    assert watching.take() == {"n1"}


def test_a_claim_that_comes_later_asks_about_no_node_again() -> None:
    watching = Watching()
    situation = full_cluster(watching)
    attempts = Attempts(situation)
    situation.nominated["n1"] = [PodInfo(pod("other", cpu="1", priority=10, claims=["f"]))]
    first = attempts.kept(preemptor(0, claims=("a",)), "plain")
    watching.take()
    situation.observe(builders.volume("pv-new", csi=("csi.test", "new")))
    situation.observe(builders.claim("new", volume="pv-new"))
    assert attempts.kept(preemptor(1, claims=("new",)), "plain") == first
    assert watching.take() == set()


def test_a_node_with_a_volume_of_the_pods_own_is_asked_about_for_that_pod_alone() -> None:
    watching = Watching()
    situation = full_cluster(watching)
    situation.observe(builders.csi_node("n1", {"csi.test": 1}))
    situation.cache.observe_pod(PodInfo(pod("user", node="n1", priority=20, claims=["e"])))
    situation.nominated["n2"] = [PodInfo(pod("other", cpu="1", priority=10, claims=["f"]))]
    attempts = Attempts(situation)
    attempts.kept(preemptor(0, claims=("a",)), "plain")
    watching.take()
    mine = preemptor(1, claims=("e",))
    candidates, _, _ = attempts.kept(mine, "plain")
    assert "n1" in [name for name, _ in candidates]
    assert watching.take() == {"n1", "n2"}
    candidates, _, _ = attempts.kept(preemptor(2, claims=("b",)), "plain")
    assert "n1" not in [name for name, _ in candidates]


class Counting(FilterPlugin):
    """Refuses nothing. It counts pods of the app, and does not tell what it knows of each row."""

    name = "Counting"
    reads = Reads.NODE

    class Known(State):
        def with_pod(self, view: Any, row: int, other: PodInfo, sign: int) -> State:
            return self if self.ignores(other) else type(self)()

        def ignores(self, other: PodInfo) -> bool:
            return other.labels.get("app") != "web"

    def filter(self, state: State, pod: PodInfo, view: Any, rows: Rows) -> Verdicts | None:
        return None


def test_pods_that_a_silent_plugin_counts_ask_about_nodes_with_such_pods_each_time() -> None:
    watching = Watching()
    situation = full_cluster(watching, Counting())
    for index, name in enumerate(NODES):
        situation.cache.remove_pod(f"pod-{name}-{(4 - index) % 4}")
    situation.cache.observe_pod(PodInfo(pod("counted", cpu="1", node="n1", priority=1, labels={"app": "web"})))
    attempts = Attempts(situation, {"Counting": Counting.Known()})
    first = attempts.kept(preemptor(0), "plain")
    watching.take()
    assert attempts.kept(preemptor(1), "plain") == first
    assert watching.take() == {"n1"}


@pytest.mark.parametrize("kind", ["spread", "apart", "together"])
def test_nodes_with_pods_that_count_are_not_asked_about_while_the_counts_there_are_the_same(kind: str) -> None:
    watching = Watching()
    situation = full_cluster(watching)
    situation.nominated["n2"] = [PodInfo(pod("other", cpu="1", priority=10, labels={"app": "web"}))]
    attempts = Attempts(situation)
    first = attempts.kept(preemptor(0, kind), kind)
    watching.take()
    assert attempts.kept(preemptor(1, kind), kind) == first
    assert watching.take() == set()
    situation.cache.observe_pod(PodInfo(pod("counted", cpu="1", node="n1", priority=20, labels={"app": "web"})))
    attempts.kept(preemptor(2, kind), kind)
    assert "n1" in watching.take()


def test_another_pod_of_the_app_on_one_node_asks_about_no_other_host() -> None:
    watching = Watching()
    situation = full_cluster(watching)
    attempts = Attempts(situation)
    attempts.kept(preemptor(0, "apart"), "apart")
    watching.take()
    situation.cache.observe_pod(PodInfo(pod("counted", cpu="1", node="n1", priority=20, labels={"app": "web"})))
    attempts.kept(preemptor(1, "apart"), "apart")
    assert watching.take() == {"n1"}


def test_a_nominated_pod_that_minds_others_by_their_namespace_counts_by_its_labels_of_now() -> None:
    situation = full_cluster()
    others = pod_term({}, HOST, namespace_selector={"matchLabels": {"team": "a"}})
    minding = pod("minds", cpu="1", priority=10, affinity=affinity_json(anti_required=[others]))
    situation.nominated["n1"] = [PodInfo(minding)]
    situation.observe(namespace("default", {"team": "b"}))
    attempts = Attempts(situation)
    before = attempts.kept(preemptor(0, "apart"), "apart")
    situation.observe(namespace("default", {"team": "a"}))
    after = attempts.kept(preemptor(1, "apart"), "apart")
    assert after == attempts.of(preemptor(1, "apart"), "apart")
    assert after != before


def test_what_is_kept_of_a_node_is_not_brought_up_to_date_by_a_pod_that_is_nominated_there() -> None:
    situation = full_cluster()
    attempts = Attempts(situation)
    kind = "apart in zones"
    mine = pod("mine", cpu="2", priority=10, nominated="n0", **KINDS[kind])
    situation.nominated["n0"] = [PodInfo(mine)]
    attempts.kept(preemptor(0, kind), kind)
    situation.cache.observe_pod(PodInfo(pod("counted", cpu="1", node="n2", priority=20, labels={"app": "db"})))
    attempts.kept(mine, kind)
    assert attempts.kept(preemptor(1, kind), kind) == attempts.of(preemptor(1, kind), kind)


def test_more_topology_keys_than_are_compared_leave_nothing_kept_where_pods_count() -> None:
    watching = Watching()
    situation = full_cluster(watching)
    attempts = Attempts(situation)
    keys = [f"key-{number}" for number in range(80)]
    every = dict.fromkeys(keys, "same")
    for name in NODES:
        situation.cache.observe_node(node(name, cpu="4", labels=every))
    terms = affinity_json(anti_required=[pod_term({"app": "web"}, key) for key in keys])
    situation.cache.observe_pod(PodInfo(pod("apart", cpu="1", node="n0", priority=1, affinity=terms)))
    first = attempts.kept(preemptor(0, "apart"), "apart")
    watching.take()
    assert attempts.kept(preemptor(1, "apart"), "apart") == first
    assert "n0" in watching.take()


@settings(max_examples=80)
@given(st.data())
def test_a_kept_answer_equals_a_fresh_evaluation(data: st.DataObject) -> None:
    situation = full_cluster()
    attempts = Attempts(situation)
    claims = st.lists(st.sampled_from(CLAIMS), max_size=2, unique=True).map(tuple)
    labels = st.sampled_from(({}, {"app": "web"}))
    for step in range(8):
        name = data.draw(st.sampled_from(NODES))
        match data.draw(
            st.sampled_from(("gone", "new", "nominated", "not nominated", "node", "limit", "claim", "volume"))
        ):
            case "gone":
                situation.cache.remove_pod(f"pod-{name}-{data.draw(st.integers(0, 3))}")
            case "new":
                fields: dict[str, Any] = {"labels": data.draw(labels), "claims": data.draw(claims)}
                priority = data.draw(st.sampled_from((0, 2, 20)))
                situation.cache.observe_pod(
                    PodInfo(pod(f"new-{step}", cpu="1", node=name, priority=priority, **fields))
                )
            case "nominated":
                fields = {"labels": data.draw(labels), "claims": data.draw(claims)}
                waiting = pod(f"waits-{step}", cpu="1", priority=data.draw(st.sampled_from((5, 10, 20))), **fields)
                situation.nominated.setdefault(name, []).append(PodInfo(waiting))
            case "not nominated":
                situation.nominated.pop(name, None)
            case "node":
                situation.cache.observe_node(node(name, cpu=data.draw(st.sampled_from("246")), zone="z1"))
            case "limit":
                situation.observe(builders.csi_node(name, {"csi.test": data.draw(st.integers(0, 3))}))
            case "claim":
                situation.observe(builders.claim("b", volume=f"pv-{data.draw(st.sampled_from(CLAIMS))}"))
            case "volume":
                handle = data.draw(st.sampled_from(CLAIMS))
                situation.observe(builders.volume(f"pv-{data.draw(st.sampled_from('ab'))}", csi=("csi.test", handle)))
        for number in range(2):
            kind = data.draw(st.sampled_from(sorted(KINDS)))
            one = preemptor(2 * step + number, kind, data.draw(claims), data.draw(st.sampled_from((5, 10))))
            assert attempts.kept(one, kind) == attempts.of(one, kind)


@settings(max_examples=200)
@given(st.data())
def test_what_is_kept_beside_counts_equals_a_fresh_evaluation(data: st.DataObject) -> None:
    situation = full_cluster()
    attempts = Attempts(situation)
    priorities = st.sampled_from((0, 2, 10, 20))
    kinds = st.sampled_from(sorted(KINDS))
    mine: list[tuple[Pod, str]] = []
    for step in range(8):
        name = data.draw(st.sampled_from(NODES))
        match data.draw(
            st.sampled_from(("gone", "new", "nominated", "mine", "not nominated", "node", "namespace", "none"))
        ):
            case "gone":
                situation.cache.remove_pod(f"pod-{name}-{data.draw(st.integers(0, 3))}")
            case "new":
                there = pod(f"new-{step}", cpu="1", node=name, priority=data.draw(priorities), **_counted(data))
                situation.cache.observe_pod(PodInfo(there))
            case "nominated":
                waiting = pod(f"waits-{step}", cpu="1", priority=data.draw(priorities), **_counted(data))
                situation.nominated.setdefault(name, []).append(PodInfo(waiting))
            case "mine":
                kind = data.draw(kinds)
                mine.append((pod(f"mine-{step}", cpu="2", priority=10, nominated=name, **KINDS[kind]), kind))
                situation.nominated.setdefault(name, []).append(PodInfo(mine[-1][0]))
            case "not nominated":
                situation.nominated.pop(name, None)
                mine = [one for one in mine if one[0].nominated_node_name != name]
            case "node":
                zone = data.draw(st.sampled_from(("z0", "z1", "z2")))
                situation.cache.observe_node(node(name, cpu="4", zone=zone))
            case "namespace":
                situation.observe(namespace("default", {"team": data.draw(st.sampled_from("ab"))}))
        for number in range(2):
            kind = data.draw(kinds)
            one = preemptor(2 * step + number, kind, (), data.draw(st.sampled_from((5, 10))))
            assert attempts.kept(one, kind) == attempts.of(one, kind)
        for one, kind in mine:
            assert attempts.kept(one, kind) == attempts.of(one, kind)


def _counted(data: st.DataObject) -> dict[str, Any]:
    fields: dict[str, Any] = data.draw(st.sampled_from(COUNTED))
    return fields
