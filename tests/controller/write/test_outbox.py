"""When writes leave: as soon as there is a place for them, together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from scheduler.controller.write.outbox import ANSWERED, Outbox, Sent
from scheduler.controller.write.pacing import MIN_PLACES, Rank


class Request:
    """A write that is under way until ``end``."""

    rank = Rank.BINDING
    key = ""
    is_continuation = False

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name = name
        self._seen = seen

    def folded_over(self, older: Request) -> None:
        return None

    def begin(self, on_sent: Callable[[Sent], None]) -> Request:
        self._seen.append(f"{self.name} begins")
        self._on_sent = on_sent
        return self

    def cancel(self) -> None:
        return None

    def end(self) -> None:
        self._seen.append(f"{self.name} ends")
        self._on_sent(ANSWERED)


class AtOnce(Request):
    """A write that ends before ``begin`` returns."""

    def begin(self, on_sent: Callable[[Sent], None]) -> Request:
        super().begin(on_sent)
        self.end()
        return self


async def turns(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def filled(outbox: Outbox, requests: Sequence[Request]) -> None:
    for request in requests:
        outbox.submit(request)
    await turns()


async def test_places_that_answers_of_one_turn_free_are_given_away_after_the_last_of_them() -> None:
    seen: list[str] = []
    outbox = Outbox(MIN_PLACES)
    requests = [Request(f"{number}", seen) for number in range(2 * MIN_PLACES)]
    await filled(outbox, requests)
    begun = len(seen)
    assert begun == outbox.pacing.under_way(Rank.BINDING) < len(requests) - 1
    seen.clear()
    requests[0].end()
    requests[1].end()
    assert seen == ["0 ends", "1 ends"]
    await turns()
    assert seen[2:] == [f"{begun} begins", f"{begun + 1} begins"]
    await outbox.close()


async def test_writes_that_end_at_once_leave_their_places_to_the_next() -> None:
    seen: list[str] = []
    outbox = Outbox(MIN_PLACES)
    await filled(outbox, [AtOnce(f"{number}", seen) for number in range(2000)])
    assert await outbox.settle(5, Rank.BINDING)
    assert len(seen) == 4000
    assert seen[:4] == ["0 begins", "0 ends", "1 begins", "1 ends"]
