"""What ``tandem why`` says of a pod that waits is what the decision would say."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.cluster.pod_info import PodInfo
from scheduler.engine.attempt_pages import preview_page_in_slices
from scheduler.engine.explain import PreemptionMemory, pod_page
from scheduler.engine.questions.edits import WrongQuestion
from scheduler.engine.questions.what_helps import what_helps
from scheduler.framework.plugin import ScorePlugin
from scheduler.objects.steps import run_to_end
from scheduler.objects.timestamps import format_seconds
from tests import builders
from tests.engine.driver import Cluster
from tests.engine.questions.asking import answered


class Broken(ScorePlugin):
    name = "Broken"

    def score(self, state: Any, pod: PodInfo, view: Any, rows: Any) -> Any:
        raise RuntimeError("boom")


def waiting(**fields: Any) -> Cluster:
    """A pod that fits on one node of two."""
    cluster = Cluster(Broken)
    cluster.node("big", cpu="4")
    cluster.node("small", cpu="1")
    cluster.pod("a", cpu="2", **fields)
    return cluster


def page(cluster: Cluster, name: str) -> dict[str, Any]:
    info = PodInfo(cluster.pods[f"default/{name}"])
    return run_to_end(preview_page_in_slices(cluster.engine, info, cluster.now))


def test_where_one_node_fits_no_score_is_asked_for_and_none_can_fail() -> None:
    cluster = waiting()
    shown = page(cluster, "a")
    assert shown["fits"] and "message" not in shown
    assert shown["listed"][1]["reasons"] == ["Insufficient cpu"]
    attempt = cluster.schedule()
    assert attempt is not None and attempt.node == "big"


def test_where_several_fit_the_page_has_the_error_that_the_decision_has() -> None:
    cluster = waiting()
    cluster.pod("b", cpu="500m")
    shown = page(cluster, "b")
    assert not shown["fits"] and "Broken" in shown["message"]


def test_a_pod_that_fits_where_it_is_nominated_is_placed_there_without_scores() -> None:
    cluster = waiting()
    cluster.pod("b", cpu="500m", nominated="small")
    shown = page(cluster, "b")
    assert shown["fits"]
    assert [entry["node"] for entry in shown["listed"]] == ["big", "small"]


def story(cluster: Cluster, name: str, memory: PreemptionMemory | None = None) -> dict[str, Any]:
    shown = pod_page(cluster.engine, f"default/{name}", cluster.now, memory)
    assert shown is not None
    return shown


def test_a_pod_that_is_being_deleted_says_so_and_what_keeps_it() -> None:
    cluster = waiting()
    assert "leaving" not in story(cluster, "a")
    cluster.change("a", deletion_timestamp="2027-01-15T08:00:00Z", finalizers=("example.com/stay",))
    assert story(cluster, "a")["leaving"] == {"deletedAt": "2027-01-15T08:00:00Z", "finalizers": ["example.com/stay"]}


def test_a_pod_that_room_is_made_for_names_the_victims_that_are_still_there() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    cluster.pod("low", cpu="1", node="n0", metadata={"finalizers": ["example.com/stay"]})
    cluster.lingering.add("low")
    cluster.pod("high", cpu="1", priority=10)
    memory = PreemptionMemory()
    attempt = cluster.schedule()
    assert attempt is not None
    memory.observe(attempt)
    cluster.pod("high", cpu="1", priority=10, nominated="n0")
    assert story(cluster, "high", memory)["victimsLeft"] == [{"pod": "default/low"}]
    cluster.settle()
    # As another scheduler shows it that was started meanwhile, and knows nothing of the attempt.
    (left,) = story(cluster, "high")["victimsLeft"]
    assert (left["pod"], left["finalizers"]) == ("default/low", ["example.com/stay"]) and left["deletedAt"]


def test_a_preview_names_the_extenders_that_it_does_not_ask() -> None:
    extender = {"urlPrefix": "http://extender", "filterVerb": "filter"}
    cluster = Cluster(configuration={"extenders": [extender]})
    cluster.node("n0", cpu="1")
    cluster.pod("a", cpu="1")
    preview = story(cluster, "a")["preview"]
    assert preview["fits"] and preview["unaskedExtenders"] == ["http://extender"]


def test_a_pod_whose_volume_is_to_be_made_says_what_its_binding_waits_for_and_until_when() -> None:
    cluster = Cluster()
    cluster.node("n0")
    cluster.show(builders.storage_class("later", "csi.example.com"))
    cluster.show(builders.claim("c", storage_class="later"))
    cluster.pod("a", claims=["c"])
    cluster.schedule()
    cluster.settle()
    shown = story(cluster, "a")
    (wait,) = shown["queue"]["bindingWaits"]
    assert (wait["plugin"], wait["point"], wait["doing"]) == ("VolumeBinding", "PreBind", "binding volumes")
    assert wait["until"] == format_seconds(cluster.now.wall + 600 * 10**9)
    (found,) = shown["findings"]
    assert found["lines"] == [
        "claim default/c has no volume yet: csi.example.com of class later is to make it for node n0"
    ]
    with pytest.raises(WrongQuestion, match="is being bound to 'n0'"):
        answered(cluster, what_helps(cluster.engine, "default/a", cluster.now))
