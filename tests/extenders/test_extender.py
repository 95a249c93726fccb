"""Bodies that extenders are sent, and answers as extenders in the field write them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.config.types import Extender as ExtenderConfiguration
from scheduler.config.types import ExtenderManagedResource
from scheduler.extenders.answers import ExtenderError
from scheduler.extenders.extender import Extender, build_extenders
from scheduler.testing.fragments import container_json
from scheduler.testing.objects import pod

URL = "http://extender.test"
GPU = "example.com/gpu"


def extender(**fields: Any) -> Extender:
    return Extender(0, ExtenderConfiguration(**{"url_prefix": URL, "weight": 1, **fields}))


def body(document: Any) -> bytes:
    return msgspec.json.encode(document)


def raw(document: Any) -> msgspec.Raw:
    return msgspec.Raw(body(document))


# --- interest ---------------------------------------------------------------------------------------------------------


def test_without_managed_resources_every_pod_concerns_it() -> None:
    assert extender().is_interested(pod("a"))


@pytest.mark.parametrize("where", ["requests", "limits"])
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_a_resource_named_in_any_container_concerns_it(kind: str, where: str) -> None:
    managing = extender(managed_resources=(ExtenderManagedResource(name=GPU),))
    plain, wanting = container_json("c0"), container_json("c1")
    wanting["resources"] = {where: {GPU: "1"}}
    spec = {kind: [wanting]} if kind == "initContainers" else {kind: [plain, wanting]}
    assert managing.is_interested(pod("a", spec=spec))
    assert not managing.is_interested(pod("a", spec={"containers": [plain]}))


def test_neither_overhead_nor_pod_level_resources_concern_it() -> None:
    managing = extender(managed_resources=(ExtenderManagedResource(name=GPU),))
    assert not managing.is_interested(pod("a", spec={"overhead": {GPU: "1"}, "resources": {"requests": {GPU: "1"}}}))


def test_those_whose_failure_is_ignored_are_asked_last_and_otherwise_the_order_stays() -> None:
    configured = [ExtenderConfiguration(url_prefix=name, ignorable=name in "ac") for name in "abcd"]
    assert [(one.name, one.number) for one in build_extenders(configured)] == [("b", 0), ("d", 1), ("a", 2), ("c", 3)]


# --- requests ---------------------------------------------------------------------------------------------------------


def test_whole_nodes_are_sent_and_names_are_null() -> None:
    sent = msgspec.json.decode(extender().nodes_body(raw({"kind": "Pod"}), ["n"], {"n": raw({"spec": {"x": 1}})}))
    assert sent == {"Pod": {"kind": "Pod"}, "Nodes": {"metadata": {}, "items": [{"spec": {"x": 1}}]}, "NodeNames": None}


def test_an_extender_that_keeps_nodes_itself_is_sent_names_and_null_nodes() -> None:
    sent = msgspec.json.decode(extender(node_cache_capable=True).nodes_body(raw({}), ["n", "m"], {}))
    assert sent == {"Pod": {}, "Nodes": None, "NodeNames": ["n", "m"]}


def test_slashes_at_the_end_of_the_prefix_are_trimmed() -> None:
    assert extender(url_prefix=f"{URL}/v1//").url("filter") == f"{URL}/v1/filter"


def test_a_bind_names_pod_uid_and_node() -> None:
    sent = msgspec.json.decode(Extender.bind_body("ns", "p", "u", "n"))
    assert sent == {"PodName": "p", "PodNamespace": "ns", "PodUID": "u", "Node": "n"}


def test_victims_are_sent_whole_or_by_uid() -> None:
    victims = {"n": ([("u1", raw({"metadata": {"uid": "u1"}}))], 2)}
    whole = msgspec.json.decode(extender().preempt_body(raw({}), victims))
    assert whole["NodeNameToVictims"] == {"n": {"Pods": [{"metadata": {"uid": "u1"}}], "NumPDBViolations": 2}}
    assert whole["NodeNameToMetaVictims"] is None
    by_uid = msgspec.json.decode(extender(node_cache_capable=True).preempt_body(raw({}), victims))
    assert by_uid["NodeNameToMetaVictims"] == {"n": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 2}}
    assert by_uid["NodeNameToVictims"] is None


# --- filter -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["NodeNames", "nodenames", "nodeNames", "NODENAMES"])
def test_keys_are_understood_in_any_case(key: str) -> None:
    answer = extender(node_cache_capable=True).read_filter(body({key: ["b"], "FAILEDnodes": {"a": "no"}}), ["a", "b"])
    assert (answer.passed, dict(answer.failed)) == (("b",), {"a": "no"})


def test_node_objects_are_read_for_their_names_only_and_unknown_names_are_dropped() -> None:
    items = [{"metadata": {"name": "b"}}, {"metadata": {"name": "stranger"}}, {"metadata": {"name": "b"}}, {}, None]
    assert extender().read_filter(body({"Nodes": {"items": items}}), ["a", "b"]).passed == ("b",)
    names = body({"NodeNames": ["b", "a", "b"]})
    assert extender(node_cache_capable=True).read_filter(names, ["a", "b"]).passed == ("b", "a")


def test_an_extender_that_keeps_nodes_itself_may_answer_nodes_all_the_same() -> None:
    answered = body({"NodeNames": None, "Nodes": {"items": [{"metadata": {"name": "a"}}]}})
    assert extender(node_cache_capable=True).read_filter(answered, ["a", "b"]).passed == ("a",)


def test_names_from_an_extender_that_was_sent_nodes_do_not_count() -> None:
    assert extender().read_filter(body({"NodeNames": ["a"]}), ["a"]).passed == ()


def test_no_list_at_all_means_that_no_node_passes() -> None:
    assert extender().read_filter(b"{}", ["a"]).passed == ()


def test_a_name_that_was_not_sent_is_a_lie() -> None:
    with pytest.raises(ExtenderError) as caught:
        extender(node_cache_capable=True).read_filter(body({"NodeNames": ["x"]}), ["a"])
    assert str(caught.value) == (
        f'extender "{URL}" claims a filtered node "x" which is not found in the input node list'
    )


def test_a_node_that_failed_for_good_is_not_also_one_that_failed_and_strangers_are_ignored() -> None:
    document = {
        "FailedNodes": {"a": "no", "b": "no", "x": "no"},
        "FailedAndUnresolvableNodes": {"a": "never", "y": "never"},
    }
    answer = extender().read_filter(body(document), ["a", "b"])
    assert (dict(answer.failed), dict(answer.unresolvable)) == ({"b": "no"}, {"a": "never"})


def test_an_error_in_the_answer_is_an_error() -> None:
    with pytest.raises(ExtenderError, match=r"^out of luck$"):
        extender().read_filter(body({"NodeNames": ["a"], "error": "out of luck"}), ["a"])


@pytest.mark.parametrize("nonsense", [b"", b"nonsense", b"[1", b"[]", b"7", b'"text"', b"\xff", b"[" * 5000])
def test_what_is_no_json_object_is_an_error_that_names_the_extender(nonsense: bytes) -> None:
    for read in (lambda: extender().read_filter(nonsense, ["a"]), lambda: extender().read_bind(nonsense)):
        with pytest.raises(ExtenderError, match=URL):
            read()


def test_null_is_an_answer_without_members() -> None:
    """As kube-scheduler reads it, and as Go encodes a nil pointer: no node passes, the pod is bound, no candidate."""
    answer = extender().read_filter(b"null", ["a"])
    assert (answer.passed, answer.failed, answer.unresolvable) == ((), {}, {})
    extender().read_bind(b"null")
    assert extender().read_victims(b"null") == {}


@pytest.mark.parametrize("more", [b"\nok", b'{"NodeNames": []}', b"]", b"\xff"])
def test_what_follows_the_answer_is_not_read(more: bytes) -> None:
    """As kube-scheduler reads a stream: an extender that writes a line too many works with it."""
    answered = body({"NodeNames": ["a"]}) + more
    assert extender(node_cache_capable=True).read_filter(answered, ["a"]).passed == ("a",)
    assert extender().read_scores(body([{"Host": "a", "Score": 1}]) + more) == {"a": 10}
    extender().read_bind(body({"Error": ""}) + more)


@pytest.mark.parametrize("document", [{"NodeNames": "a"}, {"NodeNames": {"a": 1}}, {"NodeNames": 3}])
def test_a_list_that_is_none_is_an_error(document: Any) -> None:
    with pytest.raises(ExtenderError, match="not a list"):
        extender(node_cache_capable=True).read_filter(body(document), ["a"])


# --- prioritize -------------------------------------------------------------------------------------------------------


def test_scores_are_weighed_and_scaled_from_ten_to_a_hundred_and_several_of_one_node_add_up() -> None:
    document = [{"Host": "a", "Score": 7}, {"host": "b", "score": -2}, {"Host": "a", "Score": 1}, {"Host": "c"}]
    assert extender(weight=3).read_scores(body(document)) == {"a": 240, "b": -60, "c": 0}


@pytest.mark.parametrize("score", [-(2**40), 2**40])
def test_a_score_may_be_far_from_the_usual_ones(score: int) -> None:
    """Scores of the protocol are int64."""
    assert extender().read_scores(body([{"Host": "a", "Score": score}])) == {"a": 10 * score}


def test_null_is_an_empty_list_of_scores() -> None:
    assert extender().read_scores(b"null") == {}


@pytest.mark.parametrize("score", [1.5, "7", True, [1], 2**60, -(2**60)])
def test_a_score_that_is_no_whole_number_or_too_large_is_an_error(score: Any) -> None:
    with pytest.raises(ExtenderError, match=URL):
        extender().read_scores(body([{"Host": "a", "Score": score}]))


def test_scores_that_are_no_list_are_an_error() -> None:
    with pytest.raises(ExtenderError, match="not a list"):
        extender().read_scores(body({"Host": "a"}))


# --- bind and preempt -------------------------------------------------------------------------------------------------


def test_a_bind_is_done_unless_the_answer_says_otherwise() -> None:
    extender().read_bind(body({"Error": ""}))
    extender().read_bind(b"{}")
    with pytest.raises(ExtenderError, match=r"^taken$"):
        extender().read_bind(body({"ERROR": "taken"}))


def test_victims_are_answered_by_uid() -> None:
    document = {
        "nodenametometavictims": {"n": {"pods": [{"uid": "u1"}, {"UID": "u2"}], "numPDBViolations": 1}, "m": None}
    }
    answers = extender().read_victims(body(document))
    assert (answers["n"].uids, answers["n"].budget_violations) == (("u1", "u2"), 1)
    assert answers["m"].uids == ()


def test_no_map_of_victims_means_no_candidates() -> None:
    assert extender().read_victims(b"{}") == {}
    with pytest.raises(ExtenderError, match="not a map"):
        extender().read_victims(body({"NodeNameToMetaVictims": ["n"]}))
