"""What an answer of the API server means, and what it means that there is none."""

from __future__ import annotations

import contextlib
import ssl
from typing import Final

from scheduler.controller.write.http_exchange import AnswerTooLong
from scheduler.errors import ApiError
from scheduler.objects.status import NAMESPACE_TERMINATING, Status, decode_status

MAX_ANSWER_BYTES: Final = 128 * 2**20
"""Maximum of an answer's bytes, unpacked, watches aside. A list's page of 500 common objects has 1 to 10 MB."""
ANSWER_TOO_LONG: Final = "AnswerTooLong"
"""The reason of an ApiError for an answer of more bytes than its limit."""
MAX_RETRY_AFTER_SECONDS: Final = 60.0
"""Maximum seconds of a wait that a server asks for; a longer one is cut to it."""


def no_answer(error: BaseException) -> ApiError:
    if isinstance(error, TimeoutError):
        return ApiError(0, "Timeout", "the API server did not answer in time")
    if isinstance(error, ssl.SSLCertVerificationError):
        return ApiError(0, "BadCertificate", f"the API server's certificate is not trusted: {error}")
    if isinstance(error, AnswerTooLong):
        return ApiError(0, ANSWER_TOO_LONG, str(error))
    return ApiError(0, "NoAnswer", f"no answer from the API server: {str(error) or type(error).__name__}")


def refused(status: int, phrase: str, retry_header: str, body: bytes) -> ApiError:
    said = decode_status(body) or Status(message=body[:200].decode(errors="replace").strip())
    retry_after: float | None = None
    with contextlib.suppress(ValueError):
        retry_after = float(retry_header)
        # Not a usable wait: no number, not above 0, or days.
        retry_after = min(retry_after, MAX_RETRY_AFTER_SECONDS) if retry_after > 0.0 else None
    reason = NAMESPACE_TERMINATING if said.names_ending_namespace else said.reason or phrase
    return ApiError(status, reason, said.message, retry_after=retry_after)
