"""Events of equal facets get equal answers from NodeResourcesFit's hints."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.devices.extended_resources import ClassesByResource
from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Hint
from scheduler.objects.node import Node
from scheduler.plugins.resources.fit_hints import (
    facet_of_node,
    facet_of_pod,
    node_has_more_room,
    pod_left_or_shrank,
)
from scheduler.testing.objects import node, pod
from tests.builders import device_class

amounts = st.fixed_dictionaries({"cpu": st.sampled_from("12"), "example.com/gpu": st.sampled_from("01")})
waiting = st.builds(lambda requests: PodInfo(pod("waits", requests=requests)), amounts)


@st.composite
def others(draw: Any) -> PodInfo:
    name, place = draw(st.sampled_from("abc")), draw(st.sampled_from((None, "n1", "n2")))
    nominated = draw(st.sampled_from((None, "n1")))
    return PodInfo(pod(name, requests=draw(amounts), node=place, nominated=nominated, labels={"app": name}))


@st.composite
def nodes(draw: Any) -> Node:
    name = draw(st.sampled_from("ab"))
    return node(name, cpu=draw(st.sampled_from("12")), labels={"kubernetes.io/hostname": name})


def either(strategy: Any) -> Any:
    return st.tuples(st.none() | strategy, st.none() | strategy)


def look(facet: Any, pair: Any) -> Any:
    return [None if each is None else facet(each) for each in pair]


@settings(max_examples=300)
@given(waiting, either(others()), either(others()))
def test_pods_of_equal_facets_wake_the_same_pods(one: PodInfo, first: Any, second: Any) -> None:
    if look(facet_of_pod, first) == look(facet_of_pod, second):
        assert pod_left_or_shrank(one, *first) is pod_left_or_shrank(one, *second)


@st.composite
def class_maps(draw: Any) -> ClassesByResource:
    classes = ClassesByResource()
    if draw(st.booleans()):
        classes.observe(None, device_class("gpu", "example.com/gpu"))
    return classes


@settings(max_examples=300)
@given(waiting, either(nodes()), either(nodes()), class_maps())
def test_nodes_of_equal_facets_wake_the_same_pods(
    one: PodInfo, first: Any, second: Any, classes: ClassesByResource
) -> None:
    if look(facet_of_node, first) == look(facet_of_node, second):
        assert _hint(one, first, classes) is _hint(one, second, classes)


def _hint(one: PodInfo, change: tuple[Node | None, Node | None], classes: ClassesByResource) -> Hint:
    old, new = change
    return node_has_more_room(one, old, new, classes)
