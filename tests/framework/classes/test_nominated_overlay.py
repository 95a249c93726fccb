"""Refusals beside nominated pods, by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.nominator import CHANGES_KEPT, Nominator
from scheduler.cluster.pod_info import PodInfo
from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.framework.class_run import ClassRun
from scheduler.framework.classes.cache import ClassCache
from scheduler.framework.classes.nominated_overlay import NO_REFUSALS, RowRefusals
from scheduler.framework.profile import Profile
from scheduler.messages.status import failure, unschedulable
from scheduler.objects.kinds import Kind
from scheduler.plugins.registry import registry
from scheduler.testing.objects import node, pod
from tests import builders

PROFILE: Profile = next(iter(build_profiles(load(), registry()).values()))

FULL, BROKEN, TORN = unschedulable("full").by("Fit"), failure("broken").by("Mine"), failure("torn").by("Mine")


def by_number(*codes: int) -> RowRefusals:
    return RowRefusals(np.array(codes, np.int32), (FULL, TORN, BROKEN))


def test_refusals_are_given_row_by_row() -> None:
    assert by_number(0, 1, 3, 2).by_row() == {1: FULL, 2: BROKEN, 3: TORN}
    assert bool(by_number(1, 2, 3))
    assert not NO_REFUSALS
    assert NO_REFUSALS.by_row() == {}


def test_the_rows_that_refuse_with_an_error_are_listed_and_each_says_which() -> None:
    refusals = by_number(0, 1, 3, 2)
    assert refusals.error_rows.tolist() == [2, 3]
    assert [refusals.on(row) for row in range(4)] == [None, FULL, BROKEN, TORN]
    assert RowRefusals(np.array([1, 0], np.int32), (FULL,)).error_rows.tolist() == []
    assert NO_REFUSALS.error_rows.tolist() == []
    assert NO_REFUSALS.on(0) is None


class Scene:
    """Nodes of one CPU, and pods nominated there, beside which pods of one class are asked about."""

    def __init__(self, nodes: int) -> None:
        self.cache, self.classes = ClusterCache(), ClassCache()
        self.nominator = Nominator(None)
        for number in range(nodes):
            self.cache.observe_node(node(f"n{number}", cpu="1"))

    def nominate(self, name: str, node_name: str, cpu: str = "1", ports: Sequence[int] = (), claim: str = "") -> None:
        claims = [claim] if claim else []
        self.nominator.nominate(PodInfo(pod(name, cpu=cpu, ports=ports, claims=claims, priority=5)), node_name)

    def refusals(self, claim: str = "") -> RowRefusals:
        info = PodInfo(pod("asking", cpu="500m", ports=[80], claims=[claim] if claim else []))
        pod_class, fragments = self.classes.find(PROFILE, info, self.cache.view)
        run = ClassRun(info, fragments, self.cache.view, self.cache.journal)
        pod_class.filters.refresh_pre_filters(run)
        pod_class.filters.refresh_rows(run)
        overlay = pod_class.overlay(info.priority, PROFILE.filter_plugins)
        return overlay.refusals(run, pod_class.filters, self.nominator)


def test_a_refusal_is_listed_as_long_as_a_row_has_it() -> None:
    scene = Scene(3)
    scene.nominate("large", "n0")
    scene.nominate("port", "n1", cpu="100m", ports=[80])
    cpu, port = scene.refusals().refusals
    scene.nominate("large", "")
    assert scene.refusals().refusals == (port,)
    assert scene.refusals().by_row() == {1: port}
    scene.nominate("port", "")
    scene.nominate("small", "n2", cpu="100m")
    assert not scene.refusals()
    scene.nominate("large", "n2")
    assert scene.refusals().by_row() == {2: cpu}


def test_rows_are_asked_again_after_more_nominations_than_are_remembered() -> None:
    scene = Scene(3)
    scene.nominate("large", "n0")
    assert set(scene.refusals().by_row()) == {0}
    for turn in range(2 * CHANGES_KEPT):
        scene.nominate("large", f"n{turn % 2 + 1}")
    assert set(scene.refusals().by_row()) == {2}


def test_a_pod_whose_volume_a_nominated_pod_has_too_is_asked_about_that_node_itself() -> None:
    """A pod with another volume is refused there beside it: the node may have no more than one."""
    scene = Scene(2)
    for name in ("shared", "other"):
        scene.cache.observe_object(Kind.PERSISTENT_VOLUME_CLAIM, builders.claim(name, volume=f"pv-{name}"))
        scene.cache.observe_object(Kind.PERSISTENT_VOLUME, builders.volume(f"pv-{name}", csi=("csi.test", name)))
    scene.cache.observe_object(Kind.CSI_NODE, builders.csi_node("n0", {"csi.test": 1}))
    scene.nominate("first", "n0", cpu="100m", claim="shared")
    for _ in range(2):
        assert set(scene.refusals("other").by_row()) == {0}
        assert not scene.refusals("shared")
