"""Token and access reviews. The embedded cluster allows everything."""

from __future__ import annotations

from typing import Any

from scheduler.simulate.apiserver.connecting import claims_of
from scheduler.simulate.apiserver.kinds import TOKEN_REVIEWS, Kind

Object = dict[str, Any]


def answer(kind: Kind, review: Object, token: str | None) -> Object:
    """The review with its status; without a configured `token` any token is the administrator's."""
    status: Object = {"allowed": True}
    if kind is TOKEN_REVIEWS:
        sent = (review.get("spec") or {}).get("token")
        claims = claims_of(sent) if sent else None
        if claims is not None:
            asked = set((review.get("spec") or {}).get("audiences") or ["https://kubernetes.default.svc"])
            shared = sorted(asked & set(claims["aud"]))
            user = {"username": claims["sub"], "groups": ["system:serviceaccounts", "system:authenticated"]}
            status = {"authenticated": True, "user": user, "audiences": shared} if shared else {"user": {}}
        elif sent and token in (None, sent):
            user = {"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]}
            status = {"authenticated": True, "user": user, "audiences": ["https://kubernetes.default.svc"]}
        else:
            status = {"user": {}, "error": "invalid bearer token"}
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": review.get("metadata") or {},
        "spec": review.get("spec") or {},
        "status": status,
    }
