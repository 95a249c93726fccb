"""InterPodAffinity against a model that looks at every pod, and its dry runs against the changed cluster."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.affinity_terms import terms_of
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_terms import AffinityTerm
from scheduler.cluster.view import View
from scheduler.framework.plugin import State
from scheduler.messages.status import SKIP, Refusal
from scheduler.objects.node import Node
from scheduler.plugins.affinity.state import AffinityFilterState
from scheduler.testing.fragments import pod_term
from tests.plugins.affinity.cases import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING,
    HOST,
    PLUGIN,
    WEB,
    ZONE,
    asking,
    placed,
    zones,
)
from tests.plugins.clusters import cluster, raw_scores, reasons

DB = {"app": "db"}


def _about(term: AffinityTerm, other: Any) -> bool:
    return term.matches(other.metadata.namespace, other.metadata.labels, {})


def _same_domain(one: Node, other: Node, key: str) -> bool:
    value = one.metadata.labels.get(key)
    return value is not None and value == other.metadata.labels.get(key)


def _plain_filter(pending: PodInfo, nodes: list[Node], pods: list[Any]) -> dict[str, tuple[str, ...]]:
    own = terms_of(pending)
    node_of = {each.metadata.name: each for each in nodes}
    here = [(other, node_of[other.spec.node_name]) for other in pods if other.spec.node_name in node_of]
    friends = [place for other, place in here if all(_about(term, other) for term in own.affinity)]
    in_a_domain = any(term.topology_key in place.metadata.labels for place in friends for term in own.affinity)
    is_first = not in_a_domain and all(_about(term, pending.pod) for term in own.affinity)
    found: dict[str, tuple[str, ...]] = {}
    for each in nodes:
        if any(
            term.topology_key not in each.metadata.labels
            or not (is_first or any(_same_domain(each, place, term.topology_key) for place in friends))
            for term in own.affinity
        ):
            found[each.metadata.name] = AFFINITY
        elif any(
            _about(term, other) and _same_domain(each, place, term.topology_key)
            for term in own.anti_affinity
            for other, place in here
        ):
            found[each.metadata.name] = ANTI_AFFINITY
        elif any(
            _about(term, pending.pod) and _same_domain(each, place, term.topology_key)
            for other, place in here
            for term in terms_of(PodInfo(other)).anti_affinity
        ):
            found[each.metadata.name] = EXISTING
    return found


def _plain_scores(pending: PodInfo, nodes: list[Node], pods: list[Any]) -> dict[str, int]:
    node_of = {each.metadata.name: each for each in nodes}
    own = terms_of(pending)
    scores = {each.metadata.name: 0 for each in nodes}
    for each in nodes:
        for other in pods:
            place = node_of.get(other.spec.node_name)
            if place is None:
                continue
            theirs = terms_of(PodInfo(other))
            wanted = [(term, weight, other) for term, weight in own.preferred]
            wanted += [(term, weight, pending.pod) for term, weight in theirs.preferred]
            wanted += [(term, 1, pending.pod) for term in theirs.affinity]
            scores[each.metadata.name] += sum(
                weight
                for term, weight, subject in wanted
                if _about(term, subject) and _same_domain(each, place, term.topology_key)
            )
    return scores


NODES = st.lists(st.sampled_from(["a", "b", "", None]), min_size=1, max_size=4).map(lambda each: zones(*each))
TERMS = st.builds(
    lambda selector, key, more: pod_term(selector, key, **more),
    st.sampled_from([WEB, DB, {}, None]),
    st.sampled_from([ZONE, HOST]),
    st.sampled_from([{}, {}, {"namespaces": ["other"]}, {"namespace_selector": {}}]),
)
TERM_LISTS = st.lists(TERMS, max_size=2)
WEIGHTED = st.lists(st.tuples(st.integers(1, 100), TERMS), max_size=2)
FEW_AFFINITIES = st.fixed_dictionaries(
    {},
    optional={"required": TERM_LISTS, "anti_required": TERM_LISTS, "preferred": WEIGHTED, "anti_preferred": WEIGHTED},
)
LABELS = st.sampled_from([WEB, DB, {}])
SPACES = st.sampled_from(["default", "default", "other"])
PODS = st.lists(st.tuples(st.integers(0, 4), LABELS, SPACES, FEW_AFFINITIES), max_size=7).map(
    lambda each: [
        placed(f"p{index}", f"n{row}", labels, namespace=space, **affinity)
        for index, (row, labels, space, affinity) in enumerate(each)
    ]
)
PENDING = st.builds(lambda labels, space, affinity: asking(labels, space, **affinity), LABELS, SPACES, FEW_AFFINITIES)


@settings(max_examples=150)
@given(NODES, PODS, PENDING)
def test_filter_and_score_answer_as_a_plain_model_does(nodes: list[Node], pods: list[Any], pending: PodInfo) -> None:
    view = cluster(nodes, pods)
    assert reasons(PLUGIN, pending, view) == _plain_filter(pending, nodes, pods)
    expected = _plain_scores(pending, nodes, pods)
    scores = raw_scores(PLUGIN, pending, view)
    assert (scores or dict.fromkeys(expected, 0)) == expected


@settings(max_examples=120)
@given(NODES, PODS, PENDING, st.lists(st.tuples(st.integers(0, 20), LABELS, FEW_AFFINITIES), min_size=1, max_size=4))
def test_a_state_with_pods_changed_is_the_state_of_the_changed_cluster(
    nodes: list[Node], pods: list[Any], pending: PodInfo, moves: list[tuple[int, dict[str, str], dict[str, Any]]]
) -> None:
    row = moves[0][0] % len(nodes)
    name = nodes[row].metadata.name
    view = cluster(nodes, pods)
    before = PLUGIN.pre_filter(pending, view)
    if before is SKIP:
        return
    assert isinstance(before, State)
    answers = _answers(before, pending, view)
    one = view.one_row(row)
    state: State = before
    left = list(pods)
    for number, (move, labels, affinity) in enumerate(moves):
        here = [other for other in left if other.spec.node_name == name]
        if here and move % 2:
            gone = here[move % len(here)]
            left.remove(gone)
            state = _changed(state, one, PodInfo(gone), -1)
        else:
            extra = placed(f"extra{number}", name, labels, **affinity)
            left.append(extra)
            state = _changed(state, one, PodInfo(extra), 1)
    changed = cluster(nodes, left)
    after = PLUGIN.pre_filter(pending, changed)
    expected = [None] * len(nodes) if after is SKIP else _answers(after, pending, changed)
    assert _answers(state, pending, view) == expected
    assert _answers(before, pending, view) == answers


def _changed(state: State, one: View, other: PodInfo, sign: int) -> State:
    changed = state.with_pod(one, 0, other, sign)
    assert isinstance(state, AffinityFilterState)
    assert changed is state or not state.ignores(other)
    return changed


def _answers(state: Any, pending: PodInfo, view: View) -> list[Refusal | None]:
    return [PLUGIN.filter_row(state, pending, view, row) for row in range(view.table.size) if view.table.exists[row]]
