from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from scheduler.config.args import decode_args
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.plugin import FilterPlugin, State
from scheduler.framework.post_filter import KEEP_NOMINATION, PostFilterContext
from scheduler.messages.status import SKIP, Code, Refusal, Skip
from scheduler.objects.kinds import Kind
from scheduler.plugins.devices.dynamic_resources import DynamicResources, DynamicResourcesArgs
from tests.builders import device_class, node
from tests.plugins.clusters import cluster, info, refusals

GPU = "example.com/gpu"
CLAIMING = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}
NOBODY: Any = None


class NoFilters:
    filter_plugins: tuple[FilterPlugin, ...] = ()


def context(states: Mapping[str, State | Skip]) -> PostFilterContext:
    return PostFilterContext(
        pod=info(),
        view=cluster([node("a")]),
        diagnosis=Diagnosis(np.zeros(1, np.int32)),
        states=states,
        profile=NoFilters(),
        rng=random.Random(1),
        now_nanoseconds=0,
        nominated_pods=lambda name: (),
    )


def test_a_pod_with_claims_is_held_back_with_a_reason() -> None:
    refusal = DynamicResources().pre_enqueue(info(spec=CLAIMING), NOBODY)
    assert refusal is not None
    assert refusal.code is Code.ERROR, "its users are told"
    assert "dynamic resource allocation is not supported by Tandem" in refusal.message
    assert DynamicResources().pre_filter(info(spec=CLAIMING), cluster([])) == refusal


def test_a_pod_without_claims_is_not_the_plugins_business() -> None:
    view = cluster([node("a")], objects=[device_class("gpus", GPU)])
    assert DynamicResources().pre_enqueue(info(), NOBODY) is None
    assert DynamicResources().pre_filter(info(cpu="1"), view) is SKIP
    assert DynamicResources().pre_filter(info(requests={"example.com/other": "1"}), view) is SKIP
    assert DynamicResources().pre_filter(info(requests={GPU: "1"}), cluster([node("a")])) is SKIP


def test_nodes_that_could_give_a_resource_by_devices_only_are_refused() -> None:
    view = cluster([node("a"), node("b", allocatable={GPU: "1"})], objects=[device_class("gpus", GPU)])
    assert refusals(DynamicResources(), info(requests={GPU: "1"}), view) == {
        "a": Refusal(
            Code.UNRESOLVABLE,
            ("cannot allocate extended resource example.com/gpu through a DeviceClass: not supported",),
        )
    }


def test_a_new_device_class_makes_old_answers_stale() -> None:
    view = cluster([node("a")])
    plugin = DynamicResources()
    pending = info(requests={GPU: "1"})
    fragment = plugin.fragment(pending, view)
    before = plugin.stamp(fragment, view)
    gpus = device_class("gpus", GPU)
    view.objects.put(Kind.DEVICE_CLASS, "gpus", gpus)
    assert plugin.stamp(fragment, view) != before


def test_post_filter_has_nothing_to_give_back() -> None:
    answer = DynamicResources().post_filter(context({"DynamicResources": SKIP}))
    assert answer.status == Refusal(Code.UNSCHEDULABLE, ("no new claims to deallocate",))
    assert answer.nomination is KEEP_NOMINATION


def test_post_filter_fails_where_an_earlier_plugin_refused_the_pod_as_a_whole() -> None:
    answer = DynamicResources().post_filter(context({"NodeAffinity": SKIP}))
    assert answer.status == Refusal(Code.ERROR, ("not found",))


def test_time_outs_are_checked() -> None:
    args, faults = decode_args(
        DynamicResourcesArgs, {"filterTimeout": "-1s", "bindingTimeout": "500ms"}, "args", "DynamicResources"
    )
    assert not faults
    assert DynamicResources.validate_args(args, "args") == (
        ("args.filterTimeout", "Invalid value: -1s: must be zero or positive"),
        ("args.bindingTimeout", "Invalid value: 500ms: must be at least 1 second"),
    )
    assert DynamicResources.validate_args(DynamicResourcesArgs(), "args") == ()
