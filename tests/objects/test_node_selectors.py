from __future__ import annotations

import msgspec
import pytest

from scheduler.objects.node_selectors import (
    NodeSelector,
    parse_node_selector,
    parse_preferred_terms,
    preferred_score,
    required_node_affinity,
    topology_matches,
)
from scheduler.objects.selector_fields import NodeSelectorFields, PreferredSchedulingTerm
from scheduler.objects.selectors import SelectorError
from scheduler.testing.fragments import Json, affinity_json, expression, node_term
from scheduler.testing.objects import pod
from tests.builders import storage_class

SSD = {"disk": "ssd", "cores": "8"}


def fields(*terms: Json) -> NodeSelectorFields:
    return msgspec.convert({"nodeSelectorTerms": list(terms)}, NodeSelectorFields)


def selector(*terms: Json) -> NodeSelector:
    return parse_node_selector(fields(*terms))


def preferred(*terms: tuple[int, Json]) -> list[PreferredSchedulingTerm]:
    return msgspec.convert([{"weight": w, "preference": t} for w, t in terms], list[PreferredSchedulingTerm])


def test_one_term_is_enough_and_all_of_a_term_is_needed() -> None:
    either = selector(node_term("disk In hdd"), node_term("disk Exists", "cores In 8"))
    assert either.matches(SSD)
    assert not either.matches({"disk": "ssd"})


def test_neither_no_term_nor_an_empty_one_matches_anything() -> None:
    assert not selector().matches(SSD, "n1")
    assert not selector({}).matches(SSD, "n1")
    assert selector({}, node_term("disk In ssd")).matches(SSD)


@pytest.mark.parametrize(
    ("text", "label", "matches"),
    [
        ("cores Gt 7", "8", True),
        ("cores Gt 8", "8", False),
        ("cores Lt 9", "8", True),
        ("cores Lt 8", "8", False),
        ("cores Gt 007", "+8", True),
        ("cores Lt 1", "-8", True),
        ("cores Gt 7", "eight", False),
        ("cores Gt 7", "8_0", False),
        ("cores Gt 7", "", False),
        ("cores Gt 7", "9223372036854775808", False),
        ("cores Gt 7", "9223372036854775807", True),
    ],
)
def test_numbers_are_compared_as_64_bit_integers(text: str, label: str, matches: bool) -> None:
    assert selector(node_term(text)).matches({"cores": label}) is matches


def test_a_number_is_never_greater_than_an_absent_label() -> None:
    assert not selector(node_term("cores Gt 1")).matches({})
    assert not selector(node_term("cores Lt 1")).matches({})


def test_the_name_of_the_node_is_a_field() -> None:
    named = selector(node_term(fields=["metadata.name In n1"]))
    assert named.matches({}, "n1")
    assert not named.matches({}, "n2")
    assert not selector(node_term(fields=["metadata.name NotIn n1"])).matches({}, "n1")


def test_fields_are_not_looked_at_without_a_name() -> None:
    assert selector(node_term(fields=["metadata.name In n1"])).matches({})


def test_an_unknown_field_reads_as_the_empty_text() -> None:
    assert not selector(node_term(fields=["metadata.uid In x"])).matches({}, "n1")
    assert selector(node_term(fields=["metadata.uid NotIn x"])).matches({}, "n1")


@pytest.mark.parametrize(
    "broken",
    [
        node_term({"key": "disk", "operator": "Like", "values": ["ssd"]}),
        node_term({"key": "disk", "operator": "In"}),
        node_term("cores Gt 7,8"),
        node_term("cores Gt -5"),
        node_term("cores Gt x"),
        node_term("disk Exists", fields=["metadata.name In n1,n2"]),
        node_term("disk Exists", fields=["metadata.name Exists"]),
    ],
)
def test_a_faulty_term_matches_nothing_and_spoils_no_other(broken: Json) -> None:
    alone = selector(broken)
    assert not alone.matches(SSD, "n1")
    with pytest.raises(SelectorError):
        alone.evaluate(SSD, "n1")
    beside = selector(broken, node_term("disk In ssd"))
    assert beside.evaluate(SSD, "n1")
    with pytest.raises(SelectorError):
        beside.evaluate({"disk": "hdd"}, "n1")


def test_a_sound_selector_is_evaluated_without_complaint() -> None:
    assert selector(node_term("disk In ssd")).evaluate(SSD)
    assert not selector(node_term("disk In hdd")).evaluate(SSD)


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ([], None),
        ([node_term("disk Exists")], None),
        ([node_term(fields=["metadata.name In a"])], {"a"}),
        ([node_term(fields=["metadata.name In a"]), node_term(fields=["metadata.name In b"])], {"a", "b"}),
        ([node_term(fields=["metadata.name In a"]), node_term("disk Exists")], None),
        ([node_term("disk Exists"), node_term(fields=["metadata.name In a"])], None),
        ([node_term(fields=["metadata.name In a", "metadata.name In b"])], set()),
        ([node_term(fields=["metadata.name In a,b"])], {"a", "b"}),
        ([node_term(fields=["metadata.name NotIn a"])], None),
        ([node_term(fields=["metadata.name In a"]), {}], None),
    ],
)
def test_the_only_nodes_worth_looking_at(terms: list[Json], names: set[str] | None) -> None:
    assert selector(*terms).node_names == names


def test_what_a_pod_requires_is_its_labels_and_its_affinity() -> None:
    demanding = required_node_affinity(
        pod(node_selector={"disk": "ssd"}, affinity=affinity_json(node_required=[node_term("cores Gt 4")]))
    )
    assert demanding.matches(SSD, "n1")
    assert not demanding.matches({"disk": "ssd", "cores": "2"}, "n1")
    assert not demanding.matches({"disk": "hdd", "cores": "8"}, "n1")
    assert not demanding.is_everything


def test_a_pod_without_wishes_goes_anywhere_but_an_empty_requirement_goes_nowhere() -> None:
    assert required_node_affinity(pod()).is_everything
    assert required_node_affinity(pod()).matches({}, "n1")
    assert not required_node_affinity(pod(affinity=affinity_json(node_required=[]))).matches({}, "n1")


def test_equal_requirements_are_equal_values() -> None:
    one, other = (
        required_node_affinity(
            pod(name, node_selector=labels, affinity=affinity_json(node_required=[node_term("cores In 4,8")]))
        )
        for name, labels in (("a", {"x": "1", "y": "2"}), ("b", {"y": "2", "x": "1"}))
    )
    assert one == other and hash(one) == hash(other)


def test_the_weights_of_matching_preferences_add_up() -> None:
    terms = parse_preferred_terms(
        preferred((10, node_term("disk In ssd")), (5, node_term("cores Gt 4")), (3, node_term("gpu Exists")))
    )
    assert preferred_score(terms, SSD, "n1") == 15
    assert preferred_score(terms, {}, "n1") == 0


def test_weightless_and_empty_preferences_are_left_out_before_they_are_checked() -> None:
    assert parse_preferred_terms(preferred((0, node_term("cores Gt -5")), (10, {}))) == ()


def test_one_faulty_preference_spoils_the_list() -> None:
    with pytest.raises(SelectorError) as caught:
        parse_preferred_terms(preferred((1, node_term("disk Exists")), (1, node_term("cores Gt -5"))))
    assert str(caught.value) == (
        '[1].matchExpressions[0].values[0][cores]: Invalid value: "-5": a valid label must be an empty string or '
        "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
        "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    )


def test_topologies_of_a_storage_class() -> None:
    zones = storage_class("s", topologies=[{"zone": ["a", "b"], "rack": ["1"]}, {"zone": ["c"]}]).allowed_topologies
    assert topology_matches(zones, {"zone": "a", "rack": "1"})
    assert topology_matches(zones, {"zone": "c"})
    assert not topology_matches(zones, {"zone": "a"})
    assert topology_matches((), {})
    assert not topology_matches(storage_class("s", topologies=[{}]).allowed_topologies, {"zone": "a"})


def test_the_short_form_of_expressions_used_here_says_what_it_means() -> None:
    assert expression("disk In ssd,hdd") == {"key": "disk", "operator": "In", "values": ["ssd", "hdd"]}
