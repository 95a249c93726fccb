"""The fence for requests by aiohttp."""

from __future__ import annotations

from typing import Any

import aiohttp

from scheduler.controller.write.fence import current_departure


class FencedRequest(aiohttp.ClientRequest):
    """For ``ClientSession(request_class=…)``. Requests outside of ``fence.fenced`` are not held back."""

    async def send(self, *args: Any, **options: Any) -> aiohttp.ClientResponse:
        departure = current_departure()
        if departure is not None:
            departure.leave()
        return await super().send(*args, **options)
