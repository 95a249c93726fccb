"""Questions to the API server about those who ask for pages: few at a time, equal ones once, each kept for its life.

Anybody who reaches the port can cause a question, with a token or a path that has never been seen. So they are bounded,
in all and for each address, and go over an API client of their own: the connections and the rate of the scheduler's own
requests are not theirs to use up.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

import msgspec

from scheduler.controller.serve.answer_cache import AnswerCache
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.credentials import CredentialSource
from scheduler.controller.write.request_limiter import RequestLimiter
from scheduler.errors import ApiError

REVIEW_SECONDS: Final = 10.0
MAX_UNDER_WAY: Final = 8
MAX_WAITING: Final = 64
MAX_PER_ADDRESS: Final = 8
"""Under way or waiting: one client does not fill the line before the others."""
ANSWERS_KEPT: Final = 1000

CONNECTIONS: Final = 2 * MAX_UNDER_WAY
"""Of the client that asks: reviews of tokens and of rights, and now and then a ConfigMap."""
REQUESTS_PER_SECOND: Final = 50.0
REQUESTS_BURST: Final = 100

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


def review_client(source: CredentialSource) -> ApiClient:
    """The client of the pages, beside that of the scheduler."""
    return ApiClient(
        source,
        limiter=RequestLimiter(REQUESTS_PER_SECOND, REQUESTS_BURST),
        connections=CONNECTIONS,
        timeout_seconds=REVIEW_SECONDS,
    )


class TooManyReviews(Exception):
    """Ask again in a second."""


def decode_reply(body: bytes, decoder: msgspec.json.Decoder[Answer], what: str) -> Answer:
    """Raises ApiError for what is not of the decoder's type."""
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(0, "Unreadable", f"the {what} can't be read: {error}") from error


class Reviews(Generic[Key, Answer]):
    """``answer`` from memory, from a question under way, or by asking."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._known: AnswerCache[Key, Answer] = AnswerCache(ANSWERS_KEPT, clock)
        self._asked: dict[Key, asyncio.Task[Answer]] = {}
        self._of_address: Counter[str] = Counter()
        self._slots = asyncio.Semaphore(MAX_UNDER_WAY)

    async def answer(
        self, key: Key, address: str, ask: Callable[[], Awaitable[Answer]], life: Callable[[Answer], float]
    ) -> Answer:
        """``ask`` the API server unless it has answered the same within its ``life`` in seconds, or is being asked.

        Raises TooManyReviews, and what ``ask`` raises.
        """
        known = self._known.get(key)
        if known is not None:
            return known
        asked = self._asked.get(key)
        if asked is None:
            if len(self._asked) >= MAX_UNDER_WAY + MAX_WAITING or self._of_address[address] >= MAX_PER_ADDRESS:
                raise TooManyReviews
            asked = asyncio.create_task(self._ask(key, address, ask, life), name="review")
            # Nobody may be left to hear of a failure.
            asked.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._asked[key] = asked
            self._of_address[address] += 1
        # One of those who wait may hang up; the others still want the answer.
        return await asyncio.shield(asked)

    async def _ask(
        self, key: Key, address: str, ask: Callable[[], Awaitable[Answer]], life: Callable[[Answer], float]
    ) -> Answer:
        try:
            async with self._slots:
                answer = await ask()
            self._known.put(key, answer, life(answer))
            return answer
        finally:
            del self._asked[key]
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]
