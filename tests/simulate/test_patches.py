from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.simulate.apiserver.failures import Failure
from scheduler.simulate.apiserver.patches import json_patch, merge_patch, strategic_patch

_JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(st.text(max_size=3), _JSON, max_size=4)


def test_a_list_with_a_merge_key_merges_and_others_are_replaced() -> None:
    old = {"conditions": [{"type": "A", "status": "True"}], "tolerations": [{"key": "a"}]}
    patch = {"conditions": [{"type": "A", "reason": "r"}], "tolerations": [{"key": "b"}]}
    assert strategic_patch(old, patch) == {
        "conditions": [{"type": "A", "status": "True", "reason": "r"}],
        "tolerations": [{"key": "b"}],
    }


def test_a_new_item_comes_before_the_items_that_the_patch_does_not_name() -> None:
    old = {"conditions": [{"type": "A"}, {"type": "B"}]}
    assert strategic_patch(old, {"conditions": [{"type": "C"}]})["conditions"] == [
        {"type": "C"},
        {"type": "A"},
        {"type": "B"},
    ]


def test_the_order_directive_orders() -> None:
    old = {"conditions": [{"type": "A"}, {"type": "B"}]}
    patch = {
        "$setElementOrder/conditions": [{"type": "A"}, {"type": "B"}, {"type": "C"}],
        "conditions": [{"type": "C"}],
    }
    assert [one["type"] for one in strategic_patch(old, patch)["conditions"]] == ["A", "B", "C"]


def test_directives_delete_items_replace_lists_and_maps_and_shrink_sets() -> None:
    old: dict[str, Any] = {"env": [{"name": "a"}, {"name": "b"}], "m": {"x": 1}, "finalizers": ["f", "g"]}
    assert strategic_patch(old, {"env": [{"name": "a", "$patch": "delete"}]})["env"] == [{"name": "b"}]
    assert strategic_patch(old, {"env": [{"$patch": "replace"}, {"name": "c"}]})["env"] == [{"name": "c"}]
    assert strategic_patch(old, {"m": {"$patch": "replace", "y": 2}})["m"] == {"y": 2}
    assert strategic_patch(old, {"$deleteFromPrimitiveList/finalizers": ["f"]})["finalizers"] == ["g"]


def test_ports_merge_by_container_port_in_pods_and_by_port_in_services() -> None:
    container = {"ports": [{"containerPort": 1, "name": "a"}]}
    service = {"ports": [{"port": 1, "name": "a"}]}
    assert strategic_patch(container, {"ports": [{"containerPort": 1, "name": "b"}]}) == {
        "ports": [{"containerPort": 1, "name": "b"}]
    }
    assert strategic_patch(service, {"ports": [{"port": 1, "name": "b"}]}) == {"ports": [{"port": 1, "name": "b"}]}


@given(_OBJECTS, _OBJECTS)
def test_patching_three_times_is_patching_twice_and_the_input_stays(old: dict[str, Any], patch: dict[str, Any]) -> None:
    """Once is not enough: a list keeps its nulls where it replaces a map, and loses them where it replaces a list."""
    kept = copy.deepcopy(old)
    twice = merge_patch(merge_patch(old, patch), patch)
    assert merge_patch(twice, patch) == twice
    assert old == kept


@given(_OBJECTS, st.text(max_size=3), _JSON)
def test_what_a_json_patch_adds_it_can_remove_again(old: dict[str, Any], key: str, value: Any) -> None:
    kept = copy.deepcopy(old)
    path = "/" + key.replace("~", "~0").replace("/", "~1")
    added = json_patch(old, [{"op": "add", "path": path, "value": value}, {"op": "test", "path": path, "value": value}])
    removed = json_patch(added, [{"op": "remove", "path": path}])
    assert removed == {name: one for name, one in old.items() if name != key}
    assert old == kept


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/none"},
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "add", "path": "/none/x", "value": 1},
        {"op": "add", "path": "/list/5", "value": 1},
        {"op": "test", "path": "/a", "value": 2},
        {"op": "invent", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
    ],
)
def test_a_json_patch_that_cannot_be_applied_is_refused_as_a_whole(operation: dict[str, Any]) -> None:
    with pytest.raises(Failure) as refused:
        json_patch({"a": 1, "list": []}, [{"op": "add", "path": "/b", "value": 1}, operation])
    assert refused.value.code == 422
