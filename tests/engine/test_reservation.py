"""From a chosen node to a pod that counts there: Reserve and Permit, and how it is taken back."""

from __future__ import annotations

from typing import Any

from scheduler.engine.attempt import UNSCHEDULABLE
from scheduler.framework.plugin import Wait
from scheduler.messages.commands import BindPod
from scheduler.messages.status import unschedulable
from tests.engine.driver import Cluster
from tests.engine.scripted import broken, calls_of, scripted


def test_when_reserve_refuses_all_are_unreserved_in_reverse_order() -> None:
    one = scripted("One", reserve=lambda pod, node: None)
    two = scripted("Two", reserve=lambda pod, node: unschedulable("taken"))
    three = scripted("Three", reserve=lambda pod, node: None)
    order: list[str] = []
    for plugin in (one, two, three):
        name = plugin.name

        def unreserve(self: Any, state: Any, pod: Any, view: Any, node: str, name: str = name) -> tuple[()]:
            order.append(name)
            return ()

        plugin.unreserve = unreserve  # type: ignore[attr-defined]
    cluster = Cluster(one, two, three)
    cluster.node("n")
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert order == ["Three", "Two", "One"]
    assert calls_of(three) == []
    assert (attempt.result, attempt.message) == (UNSCHEDULABLE, "0/1 nodes are available: 1 taken.")
    assert attempt.rejectors == ("Two",)
    assert cluster.node_of("a") == ""
    assert cluster.is_quiet()


def test_an_unreserve_that_fails_does_not_keep_the_others_from_it() -> None:
    quiet = scripted("Quiet", unreserve=lambda pod, node: None)
    loud = scripted("Loud", reserve=lambda pod, node: unschedulable("no"), unreserve=broken)
    cluster = Cluster(quiet, loud)
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    assert calls_of(quiet) == ["reserve a n", "unreserve a n"]
    assert cluster.is_quiet()
    assert cluster.problems() == ['default/a: running Unreserve plugin "Loud": RuntimeError: boom']


def test_when_permit_refuses_the_pod_waits_for_events_of_that_plugin() -> None:
    cluster = Cluster(scripted("Strict", permit=lambda pod, node: unschedulable("closed")))
    cluster.node("n")
    cluster.pod("a")
    attempt = cluster.schedule()
    assert attempt is not None
    assert (attempt.message, attempt.rejectors) == ("0/1 nodes are available: 1 closed.", ("Strict",))
    assert cluster.place("a") in ("unschedulable", "backoff", "active")
    assert cluster.is_quiet()


def test_permit_asks_all_plugins_even_if_one_says_wait() -> None:
    first = scripted("First", permit=lambda pod, node: Wait(10))
    second = scripted("Second", permit=lambda pod, node: Wait(3600))
    cluster = Cluster(first, second)
    cluster.node("n")
    cluster.pod("a")
    cluster.schedule()
    assert calls_of(second) == ["permit a n"]
    binding = cluster.engine.bindings.get("pod-a")
    assert binding is not None
    assert binding.waits == {"First": 10, "Second": 900}, "fifteen minutes at the most"
    assert cluster.writes(BindPod) == []
