"""The API server's answer in place of an object: how a request ended, and why."""

from __future__ import annotations

import msgspec

from scheduler.errors import ApiError
from scheduler.objects.meta import ApiStruct
from scheduler.objects.salvage import DECODER_ERRORS


class Status(ApiStruct, frozen=True):
    """A Status. ``reason`` is for programs, ``message`` for people; ``code`` is the HTTP status."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0

    def as_error(self) -> ApiError:
        return ApiError(self.code, self.reason, self.message)


_STATUS = msgspec.json.Decoder(Status)


def decode_status(data: bytes) -> Status | None:
    """The Status in a response's body, or None if there is none."""
    try:
        return _STATUS.decode(data)
    except DECODER_ERRORS:
        return None
