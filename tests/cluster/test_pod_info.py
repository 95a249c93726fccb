"""What a version of a pod takes over from the version before."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.affinity_terms import parse_in_steps, terms_of
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_template import template_key
from scheduler.objects.node_selectors import PARTS_A_SLICE, parse_preferred_terms, required_node_affinity
from scheduler.objects.pod import Pod
from scheduler.objects.selectors import SelectorError
from scheduler.objects.steps import run_to_end
from scheduler.testing.documents import pod_json
from scheduler.testing.objects import build


def wanting(*names: str, labels: dict[str, str] | None = None, selector: dict[str, str] | None = None) -> Pod:
    """A pod whose node affinity has 100 terms for each of these names."""
    terms: list[dict[str, Any]] = [
        {"matchExpressions": [{"key": "name", "operator": "In", "values": [f"{name}-{number}"]}]}
        for name in names
        for number in range(100)
    ]
    document = pod_json("a", labels=labels or {})
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    document["spec"] |= {"affinity": {"nodeAffinity": required}, "nodeSelector": selector or {}}
    return build(Pod, document)


def test_a_long_affinity_that_has_not_changed_is_not_parsed_again() -> None:
    old, new = PodInfo(wanting("x")), PodInfo(wanting("x", labels={"app": "b"}))
    run_to_end(old.parse_in_steps())
    new.take_terms(old)
    assert new.required_node_affinity is old.required_node_affinity


def test_a_long_affinity_that_has_changed_is_the_new_one() -> None:
    old, tightened = PodInfo(wanting("x", "y")), PodInfo(wanting("x"))
    run_to_end(old.parse_in_steps())
    tightened.take_terms(old)
    assert old.required_node_affinity.matches({"name": "y-1"}, "n")
    assert not tightened.required_node_affinity.matches({"name": "y-1"}, "n")


def test_a_node_selector_that_has_changed_is_the_new_one() -> None:
    old, tightened = PodInfo(wanting("x")), PodInfo(wanting("x", selector={"disk": "ssd"}))
    run_to_end(old.parse_in_steps())
    tightened.take_terms(old)
    assert old.required_node_affinity.matches({"name": "x-1"}, "n")
    assert not tightened.required_node_affinity.matches({"name": "x-1"}, "n")


def with_affinity(**affinity: Any) -> PodInfo:
    document = pod_json("a")
    document["spec"]["affinity"] = affinity
    return PodInfo(build(Pod, document))


ADDING_UP = 3
"""Pauses while a pod's amounts are added up, whatever its terms."""


def pauses(info: PodInfo) -> int:
    """While its terms are parsed."""
    return sum(1 for _ in parse_in_steps(info)) - ADDING_UP


def term(number: int, operator: str = "In") -> dict[str, Any]:
    return {"matchExpressions": [{"key": "name", "operator": operator, "values": [f"n-{number}"]}]}


TERMS = 2 * (PARTS_A_SLICE // 3 + 1)
"""As many of one value are two slices."""


def test_required_terms_are_parsed_in_slices_as_at_once() -> None:
    terms = [term(number, "In" if number % 5 else "No such") for number in range(TERMS)]
    info = with_affinity(nodeAffinity={"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}})
    assert pauses(info) == 2
    assert info.required_node_affinity == required_node_affinity(info.pod)
    assert pauses(info) == 0


def test_preferred_terms_are_parsed_in_slices_as_at_once() -> None:
    preferred = [{"weight": number % 3, "preference": term(number)} for number in range(3 * TERMS // 2)]
    info = with_affinity(nodeAffinity={"preferredDuringSchedulingIgnoredDuringExecution": preferred})
    assert pauses(info) == 2
    assert info.pod.node_affinity is not None
    assert info.preferred_node_terms == parse_preferred_terms(info.pod.node_affinity.preferred)
    assert pauses(info) == 0


def test_preferred_terms_with_a_fault_are_refused_where_they_are_asked_for() -> None:
    preferred = [{"weight": 1, "preference": term(0, "No such")}]
    info = with_affinity(nodeAffinity={"preferredDuringSchedulingIgnoredDuringExecution": preferred})
    assert pauses(info) == 0
    with pytest.raises(SelectorError, match="No such"):
        _ = info.preferred_node_terms


def test_terms_about_other_pods_are_parsed_in_slices_as_at_once() -> None:
    def info() -> PodInfo:
        terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": str(each)}}} for each in range(TERMS)]
        preferred = [{"weight": 1, "podAffinityTerm": each} for each in terms]
        return with_affinity(
            podAffinity={"requiredDuringSchedulingIgnoredDuringExecution": terms},
            podAntiAffinity={"preferredDuringSchedulingIgnoredDuringExecution": preferred},
        )

    sliced, whole = info(), info()
    assert pauses(sliced) == 4
    assert sliced.affinity_terms == terms_of(whole)
    assert len(terms_of(whole).affinity) == len(terms_of(whole).preferred) == TERMS


AMOUNTS = st.sampled_from(["100m", "1", "2500m"])


@st.composite
def versions(draw: st.DrawFn) -> Pod:
    """A version of one pod: with a request, perhaps a host port, a sidecar, an overhead, pod-level resources, and the
    status of one container or the other."""
    container: dict[str, Any] = {"name": "main", "resources": {"requests": {"cpu": draw(AMOUNTS)}}}
    if draw(st.booleans()):
        container["ports"] = [{"containerPort": 80, "hostPort": draw(st.sampled_from([80, 81]))}]
    document = pod_json("a")
    document["spec"]["containers"] = [container]
    if draw(st.booleans()):
        document["spec"]["overhead"] = {"cpu": draw(AMOUNTS)}
    if draw(st.booleans()):
        document["spec"]["resources"] = {"requests": {"cpu": draw(AMOUNTS)}}
    if draw(st.booleans()):
        granted = {"requests": {"cpu": draw(AMOUNTS)}}
        document["status"] = {"containerStatuses": [{"name": "main", "resources": granted}]}
    if draw(st.booleans()):
        sidecar = {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
        document["spec"]["initContainers"] = [sidecar]
        if draw(st.booleans()):
            granted = {"requests": {"cpu": draw(AMOUNTS)}}
            document["status"]["initContainerStatuses"] = [{"name": "side", "resources": granted}]
    if draw(st.booleans()):
        pending = {
            "type": "PodResizePending",
            "status": "True",
            "reason": draw(st.sampled_from(["Infeasible", "Deferred"])),
        }
        document["status"]["conditions"] = [pending]
    return build(Pod, document)


@given(st.lists(versions(), min_size=2, max_size=4))
def test_a_version_that_takes_over_amounts_has_those_that_it_would_work_out(pods: list[Pod]) -> None:
    before = PodInfo(pods[0])
    for each in pods:
        info, alone = PodInfo(each), PodInfo(each)
        info.take_terms(before)
        assert info.takes_as_much_as(alone)
        assert (info.requests, info.score_requests, info.ports) == (alone.requests, alone.score_requests, alone.ports)
        assert before.takes_as_much_as(info) == (
            (before.charged, before.non_zero, before.ports) == (alone.charged, alone.non_zero, alone.ports)
        )
        before = info


def test_a_sidecar_that_was_given_more_takes_it_though_no_other_container_reports() -> None:
    sidecar = {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    granted = {"initContainerStatuses": [{"name": "side", "resources": {"requests": {"cpu": "2"}}}]}
    old, new = [
        PodInfo(build(Pod, pod_json("a", init_containers=[sidecar], status=status))) for status in ({}, granted)
    ]
    assert (old.requests.milli_cpu, old.charged.milli_cpu) == (100, 100)
    new.take_terms(old)
    assert new.charged.milli_cpu == 2000
    assert new.arithmetic() is None


OWNERS = [
    [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": uid, "controller": is_controller}]
    for uid in ("u1", "u2")
    for is_controller in (True, False)
]


@st.composite
def described(draw: st.DrawFn) -> Pod:
    """A version of one pod, which may differ from another in each part of a template and in what is no part of it."""
    document = pod_json("a")
    document["metadata"] |= draw(
        st.fixed_dictionaries(
            {"resourceVersion": st.sampled_from(["1", "2"])},
            optional={
                "labels": st.sampled_from([{"app": "a", "tier": "b"}, {"tier": "b", "app": "a"}, {"app": "b"}]),
                "annotations": st.sampled_from([{"note": "a"}, {"note": "b"}]),
                "ownerReferences": st.sampled_from(OWNERS),
            },
        )
    )
    if draw(st.booleans()):
        document["spec"]["tolerations"] = [{"key": draw(st.sampled_from(["a", "b"])), "operator": "Exists"}]
    if draw(st.booleans()):
        document["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    document["spec"]["nodeName"] = draw(st.sampled_from(["", "n1"]))
    condition = {"type": "PodScheduled", "status": "False", "message": draw(st.sampled_from(["", "no node"]))}
    document["status"] = {"conditions": [condition]}
    return build(Pod, document)


@given(st.lists(described(), min_size=2, max_size=4))
def test_a_version_that_takes_over_a_template_has_the_one_that_it_would_work_out(pods: list[Pod]) -> None:
    before = PodInfo(pods[0])
    template_key(before)
    for each in pods:
        info = PodInfo(each)
        info.take_terms(before)
        assert template_key(info) == template_key(PodInfo(each))
        before = info


def test_a_change_of_the_status_alone_keeps_the_template() -> None:
    document = pod_json("a")
    waits = PodInfo(build(Pod, document))
    known = template_key(waits)
    document["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}]}
    refused = PodInfo(build(Pod, document))
    refused.take_terms(waits)
    assert refused.template is known is not None
