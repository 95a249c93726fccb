from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.affinity_terms import AffinityTerms, TermKind, terms_of
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.errors import InvariantViolation
from scheduler.testing.fragments import affinity_json, pod_term
from scheduler.testing.objects import node, pod

ZONE = "topology.kubernetes.io/zone"


class Placed:
    """A table with pods in it and the terms that belong to it, as the cluster cache keeps them."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self.terms = AffinityTerms(self.table)
        for index in range(3):
            self.table.put_node(node(f"n{index}", zone="ab"[index // 2]))

    def add(self, info: PodInfo) -> None:
        self.terms.add(info, self.table.add_pod(info))

    def remove(self, info: PodInfo) -> None:
        row = self.table.row(info.node_name)
        assert row is not None
        self.terms.remove(info, row)
        self.table.remove_pod(row, info.uid)


def placed(name: str, node_name: str = "n0", namespace: str = "default", **affinity: Any) -> PodInfo:
    return PodInfo(pod(name, node=node_name, namespace=namespace, affinity=affinity_json(**affinity)))


def test_equal_terms_of_many_pods_are_one_term_counted_by_row() -> None:
    cluster = Placed()
    for index, name in enumerate(["n0", "n1", "n1"]):
        cluster.add(placed(f"p{index}", name, anti_required=[pod_term({"app": "web"}, ZONE)]))
    (term,) = cluster.terms.matching("default", {"app": "web", "unique": "1"}, {})
    assert term.kind is TermKind.REQUIRED_ANTI_AFFINITY
    assert term.occurrences.items() == {0: 1, 1: 2}
    values = cluster.table.label_values(ZONE)
    assert term.by_value(cluster.table)[values.find("a")] == 3


def test_preferred_terms_keep_their_signed_weights() -> None:
    cluster = Placed()
    term = pod_term({"app": "web"}, ZONE)
    cluster.add(placed("a", preferred=[(10, term)]))
    cluster.add(placed("b", anti_preferred=[(10, term)]))
    (found,) = cluster.terms.matching("default", {"app": "web"}, {})
    value = cluster.table.label_values(ZONE).find("a")
    cluster.table.label(ZONE)
    assert found.weight_by_value(cluster.table)[value] == 0
    assert found.by_value(cluster.table)[cluster.table.label_values(ZONE).find("a")] == 2


def test_a_pod_meets_only_the_terms_that_match_it() -> None:
    cluster = Placed()
    cluster.add(placed("a", anti_required=[pod_term({"app": "web"})]))
    cluster.add(placed("b", anti_required=[pod_term({"app": "web"})], namespace="other"))
    cluster.add(placed("c", anti_required=[pod_term({"app": "web"}, namespaces=["other", "third"])]))
    cluster.add(placed("d", anti_required=[pod_term({"app": "web"}, namespace_selector={})]))
    cluster.add(
        placed("e", anti_required=[pod_term({"app": "web"}, namespace_selector={"matchLabels": {"team": "x"}})])
    )
    cluster.add(placed("f", anti_required=[pod_term(None)]))

    def count(namespace: str, labels: dict[str, str], namespace_labels: dict[str, str]) -> int:
        return len(cluster.terms.matching(namespace, labels, namespace_labels))

    assert count("default", {"app": "web"}, {}) == 2
    assert count("default", {"app": "web"}, {"team": "x"}) == 3
    assert count("other", {"app": "web"}, {}) == 3
    assert count("third", {"app": "web"}, {}) == 2
    assert count("default", {"app": "db"}, {"team": "x"}) == 0


def test_the_last_pod_takes_a_term_with_it() -> None:
    cluster = Placed()
    infos = [placed(f"p{index}", anti_required=[pod_term({"app": f"web-{index}"})]) for index in range(20)]
    for info in infos:
        cluster.add(info)
    assert len(cluster.terms) == 20
    (term,) = cluster.terms.matching("default", {"app": "web-3"}, {})
    for info in infos:
        cluster.remove(info)
    assert len(cluster.terms) == 0
    assert cluster.terms.matching("default", {"app": "web-3"}, {}) == []
    cluster.add(infos[3])
    (again,) = cluster.terms.matching("default", {"app": "web-3"}, {})
    assert again.id != term.id


def test_versions_grow_only_with_the_term_itself() -> None:
    cluster = Placed()
    cluster.add(placed("a", anti_required=[pod_term({"app": "web"})]))
    (term,) = cluster.terms.matching("default", {"app": "web"}, {})
    version, overall = cluster.terms.term_version(term.id), cluster.terms.version
    cluster.add(placed("b", anti_required=[pod_term({"app": "db"})]))
    assert cluster.terms.term_version(term.id) == version
    assert cluster.terms.version != overall
    cluster.add(placed("c", "n1", anti_required=[pod_term({"app": "web"})]))
    assert cluster.terms.term_version(term.id) != version


def test_a_change_of_the_status_alone_changes_no_version() -> None:
    cluster = Placed()
    before = placed("a", anti_required=[pod_term({"app": "web"})])
    after = placed("a", anti_required=[pod_term({"app": "web"})])
    cluster.add(before)
    version = cluster.terms.version
    cluster.terms.replace(before, after, 0)
    assert cluster.terms.version == version


def test_terms_of_a_pod_are_parsed_with_its_own_namespace_unless_others_are_named() -> None:
    terms = terms_of(
        placed(
            "a",
            namespace="team",
            required=[pod_term({"app": "web"})],
            anti_required=[pod_term({"app": "web"}, namespaces=["x"])],
            preferred=[(3, pod_term({"app": "web"}, namespace_selector={}))],
        )
    )
    assert terms.affinity[0].namespaces == {"team"}
    assert terms.anti_affinity[0].namespaces == {"x"}
    assert terms.preferred[0][0].namespaces == set()
    assert terms.preferred[0][0].namespace_selector.is_everything


def test_a_list_with_a_term_that_cannot_be_parsed_counts_for_nothing_and_the_others_do() -> None:
    bad = pod_term({"matchExpressions": [{"key": "app", "operator": "In", "values": []}]})
    info = placed("a", required=[bad], anti_required=[pod_term({"app": "web"})])
    terms = terms_of(info)
    assert terms.affinity == ()
    assert len(terms.faults) == 1 and terms.faults[0].startswith("requiredAffinityTerms: ")
    cluster = Placed()
    cluster.add(info)
    assert len(cluster.terms.matching("default", {"app": "web"}, {})) == 1
    cluster.remove(info)
    cluster.terms.check()


def test_terms_of_nominated_pods_are_known_without_being_counted() -> None:
    cluster = Placed()
    info = placed("a", anti_required=[pod_term({"app": "web"})])
    cluster.terms.hold(info)
    (term,) = cluster.terms.matching("default", {"app": "web"}, {})
    assert not term.by_value(cluster.table).any()
    cluster.terms.check()
    cluster.add(info)
    cluster.terms.release(info)
    assert cluster.terms.matching("default", {"app": "web"}, {})[0].id == term.id
    cluster.remove(info)
    assert len(cluster.terms) == 0
    with pytest.raises(InvariantViolation):
        cluster.terms.release(info)


def test_removing_a_pod_that_was_never_added_is_a_bug() -> None:
    with pytest.raises(InvariantViolation):
        Placed().terms.remove(placed("a", anti_required=[pod_term({"app": "web"})]), 0)


def test_a_wrong_count_is_noticed() -> None:
    cluster = Placed()
    info = placed("a", anti_required=[pod_term({"app": "web"})])
    cluster.table.add_pod(info)
    cluster.terms.add(info, 1)
    with pytest.raises(InvariantViolation):
        cluster.terms.check()


def test_what_runs_on_a_node_that_is_gone_is_in_no_domain() -> None:
    cluster = Placed()
    cluster.add(placed("a", "n2", anti_required=[pod_term({"app": "web"}, ZONE)]))
    (term,) = cluster.terms.matching("default", {"app": "web"}, {})
    assert term.by_value(cluster.table)[1:].sum() == 1
    cluster.table.drop_node("n2")
    assert term.by_value(cluster.table)[1:].sum() == 0


TERMS = st.builds(
    lambda value, key, namespaces, everywhere: pod_term(
        {"app": value}, key, namespaces=namespaces, namespace_selector={} if everywhere else None
    ),
    st.sampled_from(["web", "db"]),
    st.sampled_from([ZONE, "kubernetes.io/hostname"]),
    st.sampled_from([None, ["other"], ["default", "other"]]),
    st.booleans(),
)
WEIGHTED = st.lists(st.tuples(st.integers(1, 100), TERMS), max_size=2)
AFFINITIES = st.fixed_dictionaries(
    {
        "required": st.lists(TERMS, max_size=2),
        "anti_required": st.lists(TERMS, max_size=2),
        "preferred": WEIGHTED,
        "anti_preferred": WEIGHTED,
    }
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 3), st.sampled_from(["default", "other"]), AFFINITIES),
        st.tuples(st.just("remove"), st.integers(0, 100)),
        st.tuples(st.just("copy")),
    ),
    max_size=25,
)


def _summary(terms: AffinityTerms) -> list[tuple[Any, ...]]:
    found = {
        term.id: term
        for namespace in ("default", "other")
        for app in ("web", "db")
        for term in terms.matching(namespace, {"app": app}, {})
    }
    return [
        (term.id, term.version, term.occurrences.items(), term.weights.items() if term.weights else None)
        for _, term in sorted(found.items())
    ]


@settings(max_examples=60)
@given(STEPS)
def test_terms_always_equal_a_recount_and_copies_stay_as_they_were(steps: list[tuple[Any, ...]]) -> None:
    cluster = Placed()
    there: list[PodInfo] = []
    copies: list[tuple[AffinityTerms, list[tuple[Any, ...]]]] = []
    for number, step in enumerate(steps):
        match step:
            case "add", row, namespace, affinity:
                info = placed(f"p{number}", f"n{row}", namespace, **affinity)
                cluster.add(info)
                there.append(info)
            case "remove", index if there:
                cluster.remove(there.pop(index % len(there)))
            case ("copy",):
                copies.append((cluster.terms.fork(cluster.table.fork()), _summary(cluster.terms)))
        cluster.terms.check()
    for frozen, then in copies:
        assert _summary(frozen) == then
