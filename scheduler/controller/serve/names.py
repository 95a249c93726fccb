"""Keeps the names of pods from those who may not see them: what pages list of other namespaces is counted.

``visible`` alone decides, for pages, answers and streams alike. Not guarded by it are two pages that are nothing but
names: ``/debug/snapshot`` is for those who see all, and ``/metrics/resources`` is kube-scheduler's own contract.

A user sees the pods of a namespace by the right ``list`` on pods there, and those of all namespaces by that right for
the cluster or by ``get`` on the path ``/debug/names``, which serves nothing: a grant of ``/debug/*`` includes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from scheduler.controller.serve.authorization import ASKER, Asker, refusal
from scheduler.controller.serve.reviews import TooManyReviews
from scheduler.errors import ApiError

NAMES_PATH: Final = "/debug/names"
MAX_NAMESPACES: Final = 100
"""Namespaces about which the API server is asked for one request; pods of further ones are hidden."""
HIDDEN: Final = "(hidden)"
_KEY: Final = re.compile(rb"(?<![\w./-])(?!\d+/\d+(?![\w.-]))([a-z0-9](?:[-a-z0-9]{0,62}))/[a-z0-9][-a-z0-9.]*")
"""``namespace/name`` in a text. Neither a label key, whose prefix has dots, nor ``0/4`` (nodes) is one."""

_KNOWN: Final = web.RequestKey("_KNOWN", dict[str, bool])
"""Namespace → whether the user may see its pods, of those that were asked about for this request."""

Entry = TypeVar("Entry")

log = structlog.get_logger()


async def visible(request: web.Request, namespaces: Iterable[str]) -> Collection[str] | None:
    """The namespaces among these whose pods the user may see; None: all there are. Raises TooManyReviews, and ApiError
    if the API server can't be asked."""
    asker: Asker | None = request.get(ASKER)
    if asker is None or await asker.may("get", NAMES_PATH) or await asker.may_list_pods(""):
        return None
    wanted = dict.fromkeys(namespaces)
    known = request.setdefault(_KNOWN, {})
    for name in wanted:
        if name not in known and len(known) < MAX_NAMESPACES:
            known[name] = await asker.may_list_pods(name)
    return {name for name in wanted if known.get(name)}


async def sees_all(request: web.Request) -> bool:
    """Whether the user may see the pods of all namespaces. Raises as ``visible``."""
    return await visible(request, ()) is None


async def seen(
    request: web.Request, entries: list[Entry], key_of: Callable[[Entry], str]
) -> tuple[list[Entry], int, Collection[str] | None]:
    """The entries whose pods the user may see, how many others there are, and the namespaces, as from ``visible``."""
    allowed = await visible(request, (key_of(entry).partition("/")[0] for entry in entries))
    if allowed is None:
        return entries, 0, None
    kept = [entry for entry in entries if key_of(entry).partition("/")[0] in allowed]
    return kept, len(entries) - len(kept), allowed


async def scrubbed(request: web.Request, page: Mapping[str, Any] | msgspec.Struct, own: Collection[str] = ()) -> bytes:
    """The page as JSON, with ``(hidden)`` in place of each ``namespace/name`` that the user may not see. ``own``: keys
    that the user has made up."""
    body = msgspec.json.encode(page)
    namespaces = (found.group(1).decode() for found in _KEY.finditer(body))
    allowed = await visible(request, namespaces)
    return body if allowed is None else without_names(body, allowed, own)


def without_names(body: bytes, allowed: Collection[str], own: Collection[str] = ()) -> bytes:
    """A text with ``(hidden)`` in place of each ``namespace/name`` of other namespaces, except for the keys ``own``."""

    def replace(found: re.Match[bytes]) -> bytes:
        is_seen = found.group(1).decode() in allowed or found.group().decode() in own
        return found.group() if is_seen else HIDDEN.encode()

    return _KEY.sub(replace, body)


def refusing_unasked() -> Middleware:
    """A middleware that answers 429 or 500 where the API server can't be asked what may be shown."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except TooManyReviews:
            late = refusal(429, "TooManyRequests", "too many requests are waiting to be authorized, please try again")
            late.headers["Retry-After"] = "1"
            return late
        except ApiError as error:
            log.warning("Page refused: the API server can't be asked what may be shown", error=str(error))
            return refusal(500, "InternalError", "the API server can't be asked what may be shown")

    return answer
