"""Access reviews by the API server: bounded in number, equal ones sent once, answers cached.

Any client that reaches the port can cause a review, with a new token or path. So reviews are bounded, in total and for
each address, and are sent by an API client of their own: they must not use up the connections and the rate of the
scheduler's own requests.
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
"""Reviews of one address under way or waiting, so that one client can't fill the queue."""
ANSWERS_KEPT: Final = 1000

CONNECTIONS: Final = 2 * MAX_UNDER_WAY
"""Connections of the review client, for token and access reviews, and rarely a ConfigMap."""
REQUESTS_PER_SECOND: Final = 50.0
REQUESTS_BURST: Final = 100

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


def review_client(source: CredentialSource) -> ApiClient:
    """The API client for reviews, separate from the scheduler's."""
    return ApiClient(
        source,
        limiter=RequestLimiter(REQUESTS_PER_SECOND, REQUESTS_BURST),
        connections=CONNECTIONS,
        timeout_seconds=REVIEW_SECONDS,
    )


class TooManyReviews(Exception):
    """Too many reviews are pending; the client should retry in a second."""


def decode_reply(body: bytes, decoder: msgspec.json.Decoder[Answer], what: str) -> Answer:
    """Decodes a review's answer. Raises ApiError if it does not have the decoder's type."""
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(0, "Unreadable", f"the {what} can't be read: {error}") from error


class Reviews(Generic[Key, Answer]):
    """``answer`` comes from the cache, from an equal review under way, or from a new request."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._known: AnswerCache[Key, Answer] = AnswerCache(ANSWERS_KEPT, clock)
        self._asked: dict[Key, asyncio.Task[Answer]] = {}
        self._of_address: Counter[str] = Counter()
        self._slots = asyncio.Semaphore(MAX_UNDER_WAY)

    async def answer(
        self, key: Key, address: str, ask: Callable[[], Awaitable[Answer]], life: Callable[[Answer], float]
    ) -> Answer:
        """Calls ``ask`` unless an equal answer is cached, for its ``life`` in seconds, or is already requested.

        Raises TooManyReviews, and any error of ``ask``.
        """
        known = self._known.get(key)
        if known is not None:
            return known
        asked = self._asked.get(key)
        if asked is None:
            if len(self._asked) >= MAX_UNDER_WAY + MAX_WAITING or self._of_address[address] >= MAX_PER_ADDRESS:
                raise TooManyReviews
            asked = asyncio.create_task(self._ask(key, address, ask, life), name="review")
            # All waiters may be gone: the exception must be retrieved.
            asked.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._asked[key] = asked
            self._of_address[address] += 1
        # One waiter may disconnect; the others still need the answer.
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
