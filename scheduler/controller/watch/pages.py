"""Requests the pages of a list, with fewer objects each where their answers are too long."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.controller.write.answers import ANSWER_TOO_LONG
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.http_exchange import Answer
from scheduler.errors import ApiError

LIST_TIMEOUT_SECONDS = 60.0


class Pages:
    """The pages of one collection, ``size`` objects each unless these exceed the client's limit of bytes: tenants
    decide how long their objects are, and a page must not take all memory nor stay unread."""

    def __init__(self, client: ApiClient, path: str, selector: Mapping[str, str], size: int) -> None:
        self._client = client
        self._path = path
        self._selector = selector
        self._full_size = self._size = size

    async def request(self, token: str) -> Answer:
        """The page that the continue token names, "" for the first one. Raises ApiError."""
        if not token:
            self._size = self._full_size
        while True:
            query = {"limit": str(self._size), **self._selector, **({"continue": token} if token else {})}
            try:
                return await self._client.request("GET", self._path, query=query, timeout_seconds=LIST_TIMEOUT_SECONDS)
            except ApiError as error:
                if error.reason != ANSWER_TOO_LONG or self._size == 1:
                    raise
                self._size //= 2
