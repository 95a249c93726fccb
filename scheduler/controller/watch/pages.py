"""Requests the pages of a list, with fewer objects each where their answers are too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.controller.write.answers import ANSWER_TOO_LONG
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.http_exchange import Answer
from scheduler.errors import ApiError

LIST_TIMEOUT_SECONDS: Final = 60.0
MAX_PAGES: Final = 10_000
"""Pages of one list: five million objects in full pages."""


class Pages:
    """The pages of one collection, ``size`` objects each unless these exceed the client's limit of bytes: tenants
    decide how long their objects are, and a page must not take all memory nor stay unread."""

    def __init__(
        self, client: ApiClient, path: str, selector: Mapping[str, str], size: int, *, max_pages: int = MAX_PAGES
    ) -> None:
        self._client = client
        self._path = path
        self._selector = selector
        self._full_size = self._size = size
        self._max_pages = max_pages
        self._taken = 0
        """Pages of the list under way."""

    async def request(self, token: str) -> Answer:
        """The page that the continue token names, "" for the first one of a list.

        Raises ApiError, also for a list without end.
        """
        if not token:
            self._size = self._full_size
            self._taken = 0
        if self._taken == self._max_pages:
            raise ApiError(0, "EndlessList", f"the list has more than {self._max_pages} pages")
        self._taken += 1
        while True:
            query = {"limit": str(self._size), **self._selector, **({"continue": token} if token else {})}
            try:
                return await self._client.request("GET", self._path, query=query, timeout_seconds=LIST_TIMEOUT_SECONDS)
            except ApiError as error:
                if error.reason != ANSWER_TOO_LONG or self._size == 1:
                    raise
                self._size //= 2
