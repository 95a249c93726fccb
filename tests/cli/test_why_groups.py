"""``tandem why`` of a pod that waits with its group."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from scheduler.cli.why import print_why
from scheduler.engine.explain import pod_page
from tests.engine.gangs import Gangs


def page_of(cluster: Gangs, name: str) -> dict[str, Any]:
    page = pod_page(cluster.engine, f"default/{name}", cluster.now)
    assert page is not None
    return page


def printed(page: dict[str, Any]) -> str:
    written = StringIO()
    console = Console(width=200, file=written)
    print_why(page, console)
    return written.getvalue()


def test_the_page_of_a_member_says_how_the_group_stands_and_that_the_pod_fits_only_by_itself() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="2")
    cluster.group(min_count=3)
    cluster.members(3, cpu="1")
    cluster.schedule_all()
    fitting = next(name for name in ("g0", "g1", "g2") if "Insufficient" not in cluster.reason_of(name)[1])
    page = page_of(cluster, fitting)
    assert page["group"]["attempt"]["result"] == "unschedulable"
    assert page["preview"]["fits"]
    text = printed(page)
    assert "It belongs to the group default/g: 3 of at least 3 pods exist, 0 are on nodes." in text
    assert "Attempt of the group 1 at " in text
    assert "2 of 3 pods found a node" in text
    assert "Now, by itself: it would fit" in text


def test_the_page_of_a_member_whose_group_has_no_object_says_so() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="2")
    cluster.member("g0", cpu="1")
    assert "no object describes the group" in printed(page_of(cluster, "g0"))


def test_the_page_of_a_pod_without_a_group_speaks_of_none() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="1")
    cluster.pod("big", cpu="2")
    cluster.schedule_all()
    text = printed(page_of(cluster, "big"))
    assert "group" not in text
    assert "Now: no node of 1 fits" in text
