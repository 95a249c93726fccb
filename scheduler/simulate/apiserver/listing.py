"""Lists, complete or in pages. All pages of one listing are of the same revision, even if objects change meanwhile."""

from __future__ import annotations

import base64
from collections import OrderedDict
from typing import Any, Final

import msgspec

from scheduler.simulate.apiserver import failures
from scheduler.simulate.apiserver.kinds import Kind
from scheduler.simulate.apiserver.selectors import Matcher
from scheduler.simulate.apiserver.store import Store, Stored

_KEPT_LISTINGS: Final = 256
_INCONSISTENT: Final = -1
_TOKEN_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_VERSION: Final = "meta.k8s.io/v1"


class Page(msgspec.Struct, frozen=True):
    """A page of a listing. `remaining` is None where it would be expensive to compute: with selectors."""

    items: list[Stored]
    revision: int
    token: str = ""
    remaining: int | None = None

    def metadata(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"resourceVersion": str(self.revision)}
        if self.token:
            shown["continue"] = self.token
            if self.remaining is not None:
                shown["remainingItemCount"] = self.remaining
        return shown


class ListRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A client's list request. `selected` distinguishes requests with different selectors."""

    kind: Kind
    namespace: str | None
    matches: Matcher | None
    selected: str
    limit: int = 0
    token: str = ""
    revision: int | None = None
    exact: bool = False


class Listings:
    """The lists of one store; keeps the unread rest of the latest few hundred paged ones."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rests: OrderedDict[tuple[str, str, str, int, str], list[Stored]] = OrderedDict()

    def page(self, request: ListRequest) -> Page:
        """The next page. Raises 400 for a malformed token, 410 for a listing that is no longer kept.

        The 410 has a token for the rest as of its own revision, which is later than that of the pages before.
        """
        if request.token:
            revision, start = _read_token(request.token)
            if revision == _INCONSISTENT:
                present = [one for one in self._present(request) if (one.namespace, one.name) >= _position(start)]
                return self._cut(request, present, self._store.revision)
            rest = self._rests.get(self._key(request, revision, start))
            if rest is None:
                raise failures.Failure(410, "Expired", _TOKEN_EXPIRED, token=_token(_INCONSISTENT, start))
            return self._cut(request, rest, revision)
        self._check_revision(request)
        return self._cut(request, self._present(request), self._store.revision)

    def _present(self, request: ListRequest) -> list[Stored]:
        items = list(self._store.collection(request.kind).every(request.namespace))
        return items if request.matches is None else [one for one in items if request.matches(one.object)]

    def forget(self) -> None:
        """Drops all unfinished listings, as compaction does."""
        self._rests.clear()

    def _check_revision(self, request: ListRequest) -> None:
        if request.revision is None:
            return
        if request.revision > self._store.revision:
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            raise failures.Failure(
                504, "Timeout",
                f"Timeout: Too large resource version: {request.revision}, current: {self._store.revision}",
                {"causes": [cause], "retryAfterSeconds": 1},
            )  # fmt: skip
        if request.exact and request.revision < self._store.revision:
            raise failures.expired("The resourceVersion for the provided list is too old.")

    def _cut(self, request: ListRequest, items: list[Stored], revision: int) -> Page:
        if not request.limit or len(items) <= request.limit:
            return Page(items, revision)
        rest = items[request.limit :]
        start = f"{rest[0].namespace}/{rest[0].name}"
        self._rests[self._key(request, revision, start)] = rest
        while len(self._rests) > _KEPT_LISTINGS:
            self._rests.popitem(last=False)
        remaining = len(rest) if request.matches is None else None
        return Page(items[: request.limit], revision, _token(revision, start), remaining)

    @staticmethod
    def _key(request: ListRequest, revision: int, start: str) -> tuple[str, str, str, int, str]:
        return request.kind.where, request.namespace or "", request.selected, revision, start


def _token(revision: int, start: str) -> str:
    content = msgspec.json.encode({"v": _VERSION, "rv": revision, "start": start})
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _position(start: str) -> tuple[str, str]:
    namespace, _, name = start.partition("/")
    return namespace, name


def _read_token(token: str) -> tuple[int, str]:
    try:
        content = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(content["rv"]), str(content["start"])
    except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise failures.bad_request("invalid continue token: continue key is not valid") from error
