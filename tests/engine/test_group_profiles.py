"""Groups of pods and what their profile enables."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.messages.commands import DeletePod
from tests.engine.gangs import GANGS, Gangs

WHOLE = f"{GANGS},WorkloadAwarePreemption=true"
PREEMPTION = {"disabled": [{"name": "DefaultPreemption"}]}
NOT_REGISTERED = "default preemption plugin is not registered, workload aware preemption is disabled"


def victims_of_a_group(plugins: dict[str, Any]) -> tuple[list[str], str]:
    """The pods that a group removes with this profile, and what its condition says."""
    cluster = Gangs(WHOLE, profile={"plugins": plugins})
    cluster.node("n", cpu="1")
    cluster.pod("victim", cpu="1", node="n", priority=1)
    cluster.group(min_count=1, priority=10)
    cluster.member("g0", cpu="1", priority=10)
    cluster.settle()
    return [one.pod.name for one in cluster.sent if isinstance(one, DeletePod)], cluster.conditions()[0][2]


@pytest.mark.parametrize("plugins", [{"postFilter": PREEMPTION}, {"postFilter": PREEMPTION, "preEnqueue": PREEMPTION}])
def test_a_group_makes_room_as_one_where_the_profile_disables_only_points_of_the_plugin(
    plugins: dict[str, Any],
) -> None:
    assert victims_of_a_group(plugins) == (["victim"], "pod group is unschedulable")


def test_a_group_makes_no_room_where_the_profile_has_no_default_preemption() -> None:
    assert victims_of_a_group({"multiPoint": PREEMPTION}) == ([], f"pod group is unschedulable, {NOT_REGISTERED}")
