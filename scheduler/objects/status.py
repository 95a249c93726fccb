"""The API server's answer in place of an object: how a request ended, and why."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.errors import ApiError
from scheduler.objects.meta import ApiStruct
from scheduler.objects.salvage import DECODER_ERRORS

NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
"""The cause of a refusal to create something in a namespace that is being deleted."""


class StatusCause(ApiStruct, frozen=True):
    """One of the causes of a Status."""

    reason: str = ""


class StatusDetails(ApiStruct, frozen=True):
    """The details of a Status: of them the causes are read."""

    causes: tuple[StatusCause, ...] | None = None


class Status(ApiStruct, frozen=True):
    """A Status. ``reason`` is for programs, ``message`` for people; ``code`` is the HTTP status."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None

    @property
    def names_ending_namespace(self) -> bool:
        """Whether something was refused because its namespace is being deleted; ``reason`` is Forbidden then."""
        causes = (self.details and self.details.causes) or ()
        return any(cause.reason == NAMESPACE_TERMINATING for cause in causes)

    def as_error(self) -> ApiError:
        return ApiError(self.code, self.reason, self.message)


_STATUS = msgspec.json.Decoder(Status)


def decode_status(data: bytes) -> Status | None:
    """The Status in a response's body, or None if there is none."""
    try:
        return _STATUS.decode(data)
    except DECODER_ERRORS:
        return None
