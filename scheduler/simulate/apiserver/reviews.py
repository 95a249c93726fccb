"""Token and access reviews. The embedded cluster allows everything."""

from __future__ import annotations

from typing import Any, Final

from scheduler.simulate.apiserver.connecting import claims_of
from scheduler.simulate.apiserver.kinds import SELF_REVIEWS, SELF_RULES_REVIEWS, TOKEN_REVIEWS, Kind

Object = dict[str, Any]

_ADMINISTRATOR: Final = {"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]}
_EVERYTHING: Final = ["*"]
_ALL_RULES: Final[Object] = {
    "resourceRules": [{"verbs": _EVERYTHING, "apiGroups": _EVERYTHING, "resources": _EVERYTHING}],
    "nonResourceRules": [{"verbs": _EVERYTHING, "nonResourceURLs": _EVERYTHING}],
    "incomplete": False,
}


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
            audiences = ["https://kubernetes.default.svc"]
            status = {"authenticated": True, "user": _ADMINISTRATOR, "audiences": audiences}
        else:
            status = {"user": {}, "error": "invalid bearer token"}
    elif kind is SELF_RULES_REVIEWS:
        status = _ALL_RULES
    elif kind is SELF_REVIEWS:
        status = {"userInfo": _ADMINISTRATOR}
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": review.get("metadata") or {},
        "spec": review.get("spec") or {},
        "status": status,
    }
