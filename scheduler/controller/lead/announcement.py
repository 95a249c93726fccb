"""What the leader writes beside its Lease: where its pages are, and by which certificate they are known.

Who may read the Lease finds the leader's pod by it, and can tell its certificate from any other, be it self-made.
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
    """The Lease's annotations as things are now; none outside a pod, or where nothing is served over HTTPS."""
    pod, serving = settings.own_pod, settings.serving
    if pod is None or not serving.port or serving.certificate is None:
        return {}
    announcement = Announcement(pod.namespace, pod.name, serving.port, serving.certificate.fingerprint)
    return {ANNOTATION: msgspec.json.encode(announcement).decode()}


def read_announcement(annotations: dict[str, str]) -> Announcement | None:
    """None where there is none that can be read."""
    try:
        return msgspec.json.decode(annotations.get(ANNOTATION, ""), type=Announcement)
    except (msgspec.DecodeError, RecursionError):
        return None
