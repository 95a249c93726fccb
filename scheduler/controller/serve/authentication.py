"""Authenticates requests for pages: by a bearer token (TokenReview by the API server) or a client certificate.

As in kube-scheduler 1.36, a request without credentials is ``system:anonymous``, which the cluster may authorize, and
one with invalid credentials is refused. Tokens are not stored, only their digests.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from scheduler.controller.lead.announcement import AUDIENCE
from scheduler.controller.serve.reviews import REVIEW_SECONDS, Reviews, decode_reply
from scheduler.controller.write.client import ApiClient

REVIEWS_PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
AUTHORITY_PATH: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
MAX_TOKEN_CHARACTERS: Final = 16_384
AUTHENTICATED: Final = "system:authenticated"


class Identity(Struct, frozen=True):
    """A user as in the API server's reviews."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


ANONYMOUS: Final = Identity("system:anonymous", groups=("system:unauthenticated",))


class Unauthenticated(Exception):
    """The credentials are invalid."""


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _Status(msgspec.Struct, frozen=True):
    authenticated: bool = False
    audiences: tuple[str, ...] | None = None
    user: _User | None = None


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


class Authenticator:
    """``life`` is the time in seconds for which the API server's answer about a token is cached, valid or not."""

    def __init__(self, client: ApiClient, life: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._life = life
        self._reviews: Reviews[bytes, Identity | Unauthenticated] = Reviews(clock)

    async def identify(self, authorization: str, certificate: Mapping[str, Any] | None, address: str = "") -> Identity:
        """The identity by the Authorization header and the certificate that the TLS library has verified, if any.

        ``address`` is the client's. Raises Unauthenticated for invalid credentials, TooManyReviews, and ApiError if the
        API server can't be reached.
        """
        if certificate and (shown := identity_of(certificate)) is not None:
            return shown
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if not authorization.isascii():
            # Bytes that are not UTF-8 arrive as surrogates; valid tokens have none.
            raise Unauthenticated
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise Unauthenticated
        digest = hashlib.sha256(token.encode()).digest()
        known = await self._reviews.answer(digest, address, lambda: self._review(token), lambda _: self._life)
        if isinstance(known, Unauthenticated):
            raise Unauthenticated
        return known

    async def _review(self, token: str) -> Identity | Unauthenticated:
        is_for_us = AUDIENCE in _audiences(token)
        spec: dict[str, Any] = {"token": token, "audiences": [AUDIENCE]} if is_for_us else {"token": token}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        encoded = msgspec.json.encode(body)
        reply = await self._client.request("POST", REVIEWS_PATH, body=encoded, timeout_seconds=REVIEW_SECONDS)
        status = decode_reply(reply.body, _REVIEW, "TokenReview").status
        user = status.user
        # An API server that leaves the audiences out has not looked at them.
        is_meant = not is_for_us or AUDIENCE in (status.audiences or ())
        if not status.authenticated or not is_meant or user is None or not user.username:
            return Unauthenticated()
        extra = tuple(sorted((name, tuple(values)) for name, values in (user.extra or {}).items()))
        return Identity(user.username, user.uid, tuple(user.groups or ()), extra)


def _audiences(token: str) -> tuple[str, ...]:
    """The audiences that a JWT names, unverified: they only decide what to ask the API server. () for any other
    token."""
    try:
        text = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Claims)
    except (IndexError, ValueError, RecursionError):
        return ()
    return (claims.aud,) if isinstance(claims.aud, str) else tuple(claims.aud)


class _Claims(msgspec.Struct):
    aud: str | list[str] = ""


def identity_of(certificate: Mapping[str, Any]) -> Identity | None:
    """The user of a verified client certificate: the common name, with its organisations as groups.

    ``certificate`` as returned by ``ssl.SSLSocket.getpeercert``. None if it has no common name.
    """
    fields = [field for names in certificate.get("subject", ()) for field in names]
    names = [value for key, value in fields if key == "commonName"]
    if not names:
        return None
    groups = tuple(value for key, value in fields if key == "organizationName")
    return Identity(names[0], groups=(*groups, *(() if AUTHENTICATED in groups else (AUTHENTICATED,))))


async def cluster_client_authority(client: ApiClient) -> str:
    """The certificate authority (PEM) of the cluster's client certificates, "" if not published. Raises ApiError."""
    reply = await client.request("GET", AUTHORITY_PATH, timeout_seconds=REVIEW_SECONDS)
    data = decode_reply(reply.body, _CONFIG_MAP, "ConfigMap").data or {}
    return data.get("client-ca-file", "")


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


_REVIEW: Final = msgspec.json.Decoder(_Review)
_CONFIG_MAP: Final = msgspec.json.Decoder(_ConfigMap)


def is_of(identity: Identity, groups: Sequence[str]) -> bool:
    """Whether the user is in one of these groups."""
    return any(group in groups for group in identity.groups)
