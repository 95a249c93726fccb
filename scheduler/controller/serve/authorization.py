"""Who may see a page: the API server is asked (SubjectAccessReview), as kube-scheduler 1.36 asks it.

Some paths are open to everybody, so that probes need no token; ``system:masters`` may do all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from scheduler.controller.serve.answer_cache import AnswerCache
from scheduler.controller.serve.authentication import Authenticator, Identity, Unauthenticated, is_of
from scheduler.controller.settings import AccessSettings
from scheduler.controller.write.client import ApiClient
from scheduler.errors import ApiError

REVIEWS_PATH: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REVIEW_SECONDS: Final = 10.0
ANSWERS_KEPT: Final = 1000
LONGEST_PATH: Final = 4096
ALL_POWERFUL: Final = ("system:masters",)

log = structlog.get_logger()


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


class OpenPaths:
    """The paths that need no right."""

    def __init__(self, patterns: Iterable[str]) -> None:
        exact, beginnings = set(), []
        for pattern in patterns:
            path = pattern.lstrip("/")
            if path.endswith("*"):
                beginnings.append(path[:-1])
            else:
                exact.add(path)
        self._exact = frozenset(exact)
        self._beginnings = tuple(beginnings)

    def __contains__(self, path: str) -> bool:
        bare = path.lstrip("/")
        return bare in self._exact or bare.startswith(self._beginnings)


class Authorizer:
    """``may`` asks the API server, unless it has just answered the same."""

    def __init__(
        self, client: ApiClient, settings: AccessSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._settings = settings
        self._known: AnswerCache[tuple[Identity, str, str], bool] = AnswerCache(ANSWERS_KEPT, clock)

    async def may(self, who: Identity, verb: str, path: str) -> bool:
        """Raises ApiError if the API server can't be asked."""
        if is_of(who, ALL_POWERFUL):
            return True
        if len(path) > LONGEST_PATH:
            return False
        key = (who, verb, path)
        known = self._known.get(key)
        if known is None:
            known = await self._review(who, verb, path)
            self._known.put(key, known, self._settings.allowed_life if known else self._settings.refused_life)
        return known

    async def _review(self, who: Identity, verb: str, path: str) -> bool:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": who.name,
                "uid": who.uid,
                "groups": who.groups,
                "extra": dict(who.extra),
                "nonResourceAttributes": {"path": path, "verb": verb},
            },
        }
        encoded = msgspec.json.encode(body)
        reply = await self._client.request("POST", REVIEWS_PATH, body=encoded, timeout_seconds=REVIEW_SECONDS)
        try:
            status = msgspec.json.decode(reply.body, type=_Review).status
        except msgspec.DecodeError as error:
            raise ApiError(0, "Unreadable", f"the SubjectAccessReview can't be read: {error}") from error
        return status.allowed and not status.denied


def guards(client: ApiClient, access: AccessSettings | None) -> tuple[Middleware, ...]:
    """What stands before the pages; nothing where everybody sees all of them."""
    if access is None:
        return ()
    authenticator = Authenticator(client, access.token_life)
    return (guard(authenticator, Authorizer(client, access), OpenPaths(access.open_paths)),)


def guard(authenticator: Authenticator, authorizer: Authorizer, open_paths: OpenPaths) -> Middleware:
    """Lets a request through to its page, or answers it with a Status of 401, 403 or 500."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        path = request.path
        if path in open_paths:
            return await handler(request)
        verb = request.method.lower()
        certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
        try:
            who = await authenticator.identify(request.headers.get("Authorization", ""), certificate)
            is_allowed = await authorizer.may(who, verb, path)
        except Unauthenticated:
            return refusal(401, "Unauthorized", "Unauthorized")
        except ApiError as error:
            log.warning("Page refused: the API server can't be asked who may see it", path=path, error=str(error))
            return refusal(500, "InternalError", f"Internal Server Error: {path!r}: the API server can't be asked")
        if not is_allowed:
            return refusal(403, "Forbidden", f'forbidden: User "{who.name}" cannot {verb} path "{path}"')
        return await handler(request)

    return check


def refusal(code: int, reason: str, message: str) -> web.Response:
    """As the API server itself refuses."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return web.json_response(status, status=code)
