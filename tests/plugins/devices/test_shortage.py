"""Nodes that are refused without a search: those on which the search says the same."""

from __future__ import annotations

from scheduler.objects.steps import Pace, run_to_end
from scheduler.plugins.devices.holders import NOTHING_HELD
from scheduler.plugins.devices.one_node import Asked
from scheduler.plugins.devices.search import Fault, no_solution
from scheduler.plugins.devices.shortage import falls_short
from tests.device_documents import resource_slice
from tests.plugins.devices.allocations import Document, asked_of, searched
from tests.plugins.devices.test_search import CASES, MEMORY, case, request, shared


def refused_at_once(one: Document) -> Fault | str | None:
    """What is said of the node without a search; None: it takes one."""
    cache, _, asked = asked_of(one)
    pools = cache.view.devices.pools(0)
    if isinstance(asked, Asked) and run_to_end(falls_short(asked.claims, pools, NOTHING_HELD, Pace())):
        return no_solution(pools)
    return None


def test_what_is_said_without_a_search_is_what_the_search_says() -> None:
    short = [(said, one) for one in CASES if (said := refused_at_once(one)) is not None]
    assert len(short) > 10
    assert [one["seed"] for said, one in short if searched(one)[1] != said] == []


def test_a_device_that_may_be_allocated_more_than_once_is_not_had_twice_by_one_request() -> None:
    wanted = case(resource_slice("n0", shared("a", capacity=MEMORY)), requests=[request("r", count=2)])
    assert searched(wanted)[1] == refused_at_once(wanted) == Fault.NONE_FITS
