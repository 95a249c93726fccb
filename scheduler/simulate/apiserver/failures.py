"""The API server's refusals: `Status` bodies with the real server's codes, reasons and texts."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.simulate.apiserver.kinds import Kind


class Failure(Exception):
    """A refused request. `code` is the HTTP status; `details` follows meta/v1 StatusDetails."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None, token: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.token = token
        """A continue token with which the client may resume."""

    def body(self) -> dict[str, Any]:
        """The meta/v1 Status object."""
        status: dict[str, Any] = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
        }  # fmt: skip
        if self.token:
            status["metadata"] = {"continue": self.token}
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class Cause(msgspec.Struct, frozen=True):
    """One field error of a validation: the reason of its StatusCause, and the text in the message."""

    field: str
    reason: str
    message: str


def required(field: str, more: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value{': ' + more if more else ''}")


def invalid_value(field: str, value: object, more: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {more}")


def forbidden_value(field: str, more: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {more}")


def unsupported_value(field: str, value: object, supported: tuple[str, ...]) -> Cause:
    listed = ", ".join(f'"{one}"' for one in supported)
    return Cause(field, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {listed}")


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return msgspec.json.encode(value).decode()


def _named(kind: Kind, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.plural
    return details


def not_found(kind: Kind, name: str) -> Failure:
    return Failure(404, "NotFound", f'{kind.resource} "{name}" not found', _named(kind, name))


def already_exists(kind: Kind, name: str) -> Failure:
    return Failure(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', _named(kind, name))


def conflict(kind: Kind, name: str, why: str, subresource: str = "") -> Failure:
    shown = f"{kind.resource}/{subresource}" if subresource else kind.resource
    details = _named(kind, name)
    if subresource:
        details["kind"] = f"{kind.plural}/{subresource}"
    return Failure(409, "Conflict", f'Operation cannot be fulfilled on {shown} "{name}": {why}', details)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def modified(kind: Kind, name: str) -> Failure:
    return conflict(kind, name, MODIFIED)


def forbidden(kind: Kind, name: str, why: str, causes: list[dict[str, str]] | None = None) -> Failure:
    details = _named(kind, name)
    if causes:
        details["causes"] = causes
    return Failure(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', details)


def invalid(kind: Kind, name: str, causes: list[Cause]) -> Failure:
    details: dict[str, Any] = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.kind
    details["causes"] = [{"reason": one.reason, "message": one.message, "field": one.field} for one in causes]
    shown = [f"{one.field}: {one.message}" for one in causes]
    text = shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
    kind_text = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return Failure(422, "Invalid", f'{kind_text} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> Failure:
    return Failure(400, "BadRequest", message)


def expired(message: str) -> Failure:
    return Failure(410, "Expired", message)


def method_not_allowed() -> Failure:
    return Failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def too_many_requests(message: str, causes: list[dict[str, str]] | None = None, retry_after: int = 0) -> Failure:
    details: dict[str, Any] = {}
    if causes:
        details["causes"] = causes
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return Failure(429, "TooManyRequests", message, details)


def unauthorized() -> Failure:
    return Failure(401, "Unauthorized", "Unauthorized")


def success(code: int = 200, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """The Status body of a successful request."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = details
    if code != 200:
        body["code"] = code
    return body
