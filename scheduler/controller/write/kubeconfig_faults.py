"""Faults of a kubeconfig that kubernetes_asyncio would read as something else, without a word.

A text in place of ``insecure-skip-tls-verify: false`` would turn the checks of TLS off, an authority that is not base64
would leave the system's authorities in its place, and a user to impersonate would be left out. kubectl refuses the
first two; impersonation is not supported here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

_INSECURE: Final = "insecure-skip-tls-verify"
_IMPERSONATION: Final = ("as", "as-uid", "as-groups", "as-user-extra")


def fault_of(documents: Sequence[Mapping[str, Any]], context: str) -> str:
    """What is wrong with the cluster and the user of a context ("": the current one), "" for nothing that is known
    here. Of several documents the first that has a name counts."""
    current = next((one for one in (document.get("current-context") for document in documents) if one), "")
    chosen = _named(documents, "contexts", context or current, "context")
    if chosen is None and context:
        return f"there is no context {context!a}"
    if not chosen:
        return ""
    cluster = _named(documents, "clusters", chosen.get("cluster"), "cluster")
    user = _named(documents, "users", chosen.get("user"), "user")
    if cluster is not None and not (isinstance(cluster.get("server"), str) and cluster["server"]):
        return "the cluster has no server"
    if cluster is not None and not isinstance(cluster.get(_INSECURE, False), bool):
        return f"{_INSECURE} must be true or false, without quotes"
    if chosen.get("user") and user is None:
        return f"there is no user {chosen['user']!a}"
    impersonated = next((key for key in _IMPERSONATION if (user or {}).get(key)), "")
    if impersonated:
        return f"{impersonated}: impersonation is not supported"
    data = [(key, value) for part in (cluster, user) for key, value in (part or {}).items() if key.endswith("-data")]
    return next((f"{key} is not base64" for key, value in data if not _is_base64(value)), "")


def _named(documents: Sequence[Mapping[str, Any]], section: str, name: Any, field: str) -> Mapping[str, Any] | None:
    for document in documents:
        entries = document.get(section)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get("name") == name:
                found = entry.get(field)
                return found if isinstance(found, dict) else {}
    return None


def _is_base64(value: Any) -> bool:
    """Whether the text is base64, perhaps with line breaks."""
    try:
        base64.b64decode("".join(value.split()), validate=True)
    except (AttributeError, binascii.Error, ValueError):
        return False
    return True
