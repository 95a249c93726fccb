"""Authorizes requests for pages by SubjectAccessReviews of the API server, as kube-scheduler 1.36 does.

Some paths need no authorization, so that probes need no token; a wrong one is refused there, too. ``system:masters``
may access all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from scheduler.controller.serve.authentication import Authenticator, Identity, Unauthenticated, is_of
from scheduler.controller.serve.reviews import REVIEW_SECONDS, Reviews, TooManyReviews, decode_reply
from scheduler.controller.serve.serving_settings import AccessSettings
from scheduler.controller.write.client import ApiClient
from scheduler.errors import ApiError

REVIEWS_PATH: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
MAX_PATH_CHARACTERS: Final = 4096
ALL_POWERFUL: Final = ("system:masters",)

log = structlog.get_logger()


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


class OpenPaths:
    """The paths that need no authorization."""

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


_REVIEW: Final = msgspec.json.Decoder(_Review)
_VERBS: Final = {"POST": "create"}
"""Method → the verb of the right, where that is not the method's name: to ask a question is to create it."""


class _Asked(msgspec.Struct, frozen=True):
    """What a review is about: a path and a verb, or, without a path, the pods of a namespace ("": of all)."""

    verb: str
    path: str = ""
    namespace: str = ""

    def attributes(self) -> dict[str, dict[str, str]]:
        """The fields of the review's spec that say it."""
        if self.path:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        return {"resourceAttributes": {"resource": "pods", "verb": self.verb, "namespace": self.namespace}}


class Authorizer:
    """``may`` and ``may_list_pods`` send a review to the API server, unless the answer is cached."""

    def __init__(
        self, client: ApiClient, settings: AccessSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._settings = settings
        self._reviews: Reviews[tuple[Identity, _Asked], bool] = Reviews(clock)

    async def may(self, who: Identity, verb: str, path: str, address: str = "") -> bool:
        """Whether the user may access the path. ``address`` is the client's. Raises TooManyReviews, and ApiError if the
        API server can't be reached."""
        if is_of(who, ALL_POWERFUL):
            return True
        if len(path) > MAX_PATH_CHARACTERS or not _is_text(path):
            return False
        return await self._answer(who, _Asked(verb, path), address)

    async def may_list_pods(self, who: Identity, namespace: str, address: str = "") -> bool:
        """Whether the user may list the pods of a namespace; "" means those of all. Raises as ``may``."""
        if is_of(who, ALL_POWERFUL):
            return True
        return await self._answer(who, _Asked("list", namespace=namespace), address)

    async def _answer(self, who: Identity, asked: _Asked, address: str) -> bool:
        return await self._reviews.answer((who, asked), address, lambda: self._review(who, asked), self._life_of)

    def _life_of(self, is_allowed: bool) -> float:
        return self._settings.allowed_life if is_allowed else self._settings.refused_life

    async def _review(self, who: Identity, asked: _Asked) -> bool:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": who.name,
                "uid": who.uid,
                "groups": who.groups,
                "extra": dict(who.extra),
                **asked.attributes(),
            },
        }
        encoded = msgspec.json.encode(body)
        reply = await self._client.request("POST", REVIEWS_PATH, body=encoded, timeout_seconds=REVIEW_SECONDS)
        status = decode_reply(reply.body, _REVIEW, "SubjectAccessReview").status
        return status.allowed and not status.denied


def _is_text(path: str) -> bool:
    """Whether the path can be sent: bytes that are not UTF-8 are surrogates here."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


class Asker:
    """The user of a request that was let through."""

    def __init__(self, who: Identity, authorizer: Authorizer, address: str) -> None:
        self.who = who
        self._authorizer = authorizer
        self._address = address

    async def may(self, verb: str, path: str) -> bool:
        """Whether the user may access the path. Raises TooManyReviews, and ApiError if the API server can't be
        reached."""
        return await self._authorizer.may(self.who, verb, path, self._address)

    async def may_list_pods(self, namespace: str) -> bool:
        """Whether the user may list the pods of a namespace; "" means those of all. Raises as ``may``."""
        return await self._authorizer.may_list_pods(self.who, namespace, self._address)


ASKER: Final = web.RequestKey("ASKER", Asker)
"""Under this key a request has its ``Asker``, if access is restricted."""


def guards(client: ApiClient, access: AccessSettings | None) -> tuple[Middleware, ...]:
    """The middlewares that guard the pages; none if access is not restricted."""
    if access is None:
        return ()
    authenticator = Authenticator(client, access.token_life)
    return (guard(authenticator, Authorizer(client, access), OpenPaths(access.open_paths)),)


def guard(authenticator: Authenticator, authorizer: Authorizer, open_paths: OpenPaths) -> Middleware:
    """A middleware that passes a request to its page, or answers it with a Status of 401, 403, 429 or 500."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        path = request.path
        is_open = path in open_paths
        if is_open and "Authorization" not in request.headers:
            return await handler(request)
        verb, address = _VERBS.get(request.method, request.method.lower()), request.remote or ""
        certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
        try:
            who = await authenticator.identify(request.headers.get("Authorization", ""), certificate, address)
            is_allowed = is_open or await authorizer.may(who, verb, path, address)
        except Unauthenticated:
            return refusal(401, "Unauthorized", "Unauthorized")
        except (TooManyReviews, ApiError) as error:
            if is_open:
                # A probe must not fail because the API server does not answer.
                return await handler(request)
            return _unknown(path, error)
        if not is_allowed:
            return refusal(403, "Forbidden", f'forbidden: User "{who.name}" cannot {verb} path "{path}"')
        if not is_open:
            request[ASKER] = Asker(who, authorizer, address)
        return await handler(request)

    return check


def _unknown(path: str, error: TooManyReviews | ApiError) -> web.Response:
    """The answer where it is not known who asks, or what that user may see."""
    if isinstance(error, TooManyReviews):
        answer = refusal(429, "TooManyRequests", "too many requests are waiting to be authorized, please try again")
        answer.headers["Retry-After"] = "1"
        return answer
    log.warning("Page refused: the API server can't be asked for authorization", path=path, error=str(error))
    return refusal(500, "InternalError", f"Internal Server Error: {path!r}: the API server can't be asked")


def refusal(code: int, reason: str, message: str) -> web.Response:
    """A refusal in the API server's own format."""
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
