"""The leader's annotations on its Lease: the address of its pages and the fingerprint of their certificate.

Clients that may read the Lease find the leader's pod by it, and can verify its certificate even if it is self-signed.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.controller.settings import ShellSettings

ANNOTATION: Final = "tandem.scheduling/pages"


class Announcement(msgspec.Struct, frozen=True):
    """``certificate``: SHA-256 in hexadecimal digits; ``pod`` is in the Lease's own namespace unless stated."""

    namespace: str
    pod: str
    port: int
    certificate: str


def announced(settings: ShellSettings) -> dict[str, str]:
    """The Lease's present annotations; empty outside a pod, or if the pages are not served over HTTPS."""
    pod, serving = settings.own_pod, settings.serving
    if pod is None or not serving.port or serving.certificate is None:
        return {}
    announcement = Announcement(pod.namespace, pod.name, serving.port, serving.certificate.fingerprint)
    return {ANNOTATION: msgspec.json.encode(announcement).decode()}


def read_announcement(annotations: dict[str, str]) -> Announcement | None:
    """Decodes the announcement; None if it is missing or unreadable."""
    try:
        return msgspec.json.decode(annotations.get(ANNOTATION, ""), type=Announcement)
    except (msgspec.DecodeError, RecursionError):
        return None
