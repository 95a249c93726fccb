"""The leader's annotations on its Lease: the address of its pages and the fingerprint of their certificate.

Clients that may read the Lease find the leader's pod by it, and can verify its certificate even if it is self-signed.
They ask the API server for that pod with their own rights, and who may write the Lease chooses the names: only
names that can be a pod's are taken.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from scheduler.messages.references import PodReference

ANNOTATION: Final = "tandem.scheduling/pages"
AUDIENCE: Final = "tandem-scheduler"
"""Tokens that name this audience are good for the pages and nowhere else, the API server included."""


_Name = Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")]
_Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
_Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class Announcement(msgspec.Struct, frozen=True):
    """``certificate``: SHA-256 in hexadecimal digits; ``pod`` is in the Lease's own namespace unless stated."""

    namespace: _Name
    pod: _Name
    port: _Port
    certificate: _Digest


def announced(pod: PodReference | None, port: int, fingerprint: str) -> dict[str, str]:
    """The Lease's present annotations; empty outside a pod, or if the pages are not served (port 0) over HTTPS ("")."""
    if pod is None or not port or not fingerprint:
        return {}
    return {ANNOTATION: msgspec.json.encode(Announcement(pod.namespace, pod.name, port, fingerprint)).decode()}


def read_announcement(annotations: dict[str, str]) -> Announcement | None:
    """Decodes the announcement; None if it is missing or unreadable."""
    try:
        return msgspec.json.decode(annotations.get(ANNOTATION, ""), type=Announcement)
    except (msgspec.DecodeError, RecursionError):
        return None
