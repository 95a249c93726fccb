"""Work between two cycles: when it is tried, and what becomes of its errors."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.controller.between_cycles import BetweenCycles


async def test_work_is_tried_until_it_is_done_and_then_no_more() -> None:
    between, tried, may = BetweenCycles(), list[str](), [False, True]

    def work() -> bool:
        tried.append("tried")
        return may.pop(0)

    done = between.add(work)
    between.try_all()
    assert not done.done()
    between.try_all()
    await done
    between.try_all()
    assert tried == ["tried", "tried"]


async def test_an_error_is_for_those_who_wait_for_the_work_and_keeps_no_other_from_being_done() -> None:
    between = BetweenCycles()

    def fail() -> bool:
        raise ValueError("no")

    failed, done = between.add(fail), between.add(lambda: True)
    between.try_all()
    await done
    with pytest.raises(ValueError, match="no"):
        await failed


async def test_work_that_was_given_up_is_not_done() -> None:
    between, tried = BetweenCycles(), list[str]()

    def work() -> bool:
        tried.append("tried")
        return True

    given_up = between.add(work)
    given_up.cancel()
    between.try_all()
    await asyncio.sleep(0)
    between.try_all()
    assert tried == []
