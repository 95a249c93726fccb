"""Gates that a change of the configuration brings, for pods that wait already."""

from __future__ import annotations

from typing import Any

from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.messages.commands import BindPod
from tests.engine.driver import Cluster

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
WITHOUT = {"plugins": {"preEnqueue": {"disabled": [{"name": "SchedulingGates"}]}}}
GATED: dict[str, Any] = {"schedulingGates": [{"name": "approval"}]}


def default_profiles(cluster: Cluster) -> None:
    profiles = build_profiles(load(f"{HEADER}profiles: [{{schedulerName: tandem-scheduler}}]"))
    assert cluster.engine.replace_profiles(profiles, cluster.engine.settings, cluster.now)


def test_pods_that_are_ready_to_be_tried_or_in_their_back_off_are_held_by_a_gate_that_is_new() -> None:
    cluster = Cluster(profile=WITHOUT)
    cluster.pod("failed", cpu="1", spec=GATED)
    cluster.node("full", cpu="0")
    cluster.schedule()
    cluster.node("n", cpu="4")
    cluster.pod("ready", cpu="1", spec=GATED)
    cluster.pod("free", cpu="1")
    assert [cluster.place(name) for name in ("failed", "ready")] == ["backoff", "active"]
    default_profiles(cluster)
    assert [cluster.place(name) for name in ("failed", "ready", "free")] == ["gated", "gated", "active"]
    cluster.advance(30)
    cluster.schedule_all()
    assert [write.pod.name for write in cluster.writes(BindPod)] == ["free"]
