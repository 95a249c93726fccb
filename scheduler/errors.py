"""Errors by cause: the configuration, an object, the API server, a plugin, or Tandem itself."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class SchedulerError(Exception):
    """The base class of all errors that Tandem raises on purpose."""


class Fault(msgspec.Struct, frozen=True):
    """A fault of a configuration. `path` names the field, such as `profiles[0].schedulerName`.

    `near`: the document, from 0, and the field of it to look at, for a fault of a whole document, which has no path.
    """

    path: str
    message: str
    near: tuple[int, str] | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigurationError(SchedulerError):
    """The configuration is invalid. Holds all its faults, so that they can be fixed at once."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__(self.faults)

    def __str__(self) -> str:
        texts = [str(fault) for fault in self.faults]
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


class InvalidObject(SchedulerError):
    """An object of the cluster can't be read. `kind` is a name such as `Pod`, `name` is `namespace/name`, `uid` the
    object's; the last two are "" if unknown."""

    def __init__(self, kind: str, name: str, reason: str, *, uid: str = "") -> None:
        self.kind = kind
        self.name = name
        self.reason = reason
        self.uid = uid
        super().__init__(kind, name, reason)

    def __str__(self) -> str:
        return f"{self.kind} {self.name or '(without a name)'} can't be read: {self.reason}"


class ApiError(SchedulerError):
    """The API server refused a request, or didn't answer.

    `status` is the HTTP status, 0 without an answer; `reason` the machine-readable reason of the Status object, such as
    `Conflict` or `AlreadyExists`; `retry_after` the value of Retry-After in seconds, if sent.
    """

    def __init__(self, status: int, reason: str, message: str, *, retry_after: float | None = None) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        super().__init__(status, reason, message)

    def __str__(self) -> str:
        return self.message or self.reason or f"HTTP status {self.status}"

    @property
    def is_conflict(self) -> bool:
        return self.status == 409

    @property
    def is_not_found(self) -> bool:
        return self.status == 404

    @property
    def is_forbidden(self) -> bool:
        return self.status in (401, 403)

    @property
    def is_gone(self) -> bool:
        """Whether the requested resource version is too old, so that the client must list again."""
        return self.status == 410

    @property
    def is_too_many_requests(self) -> bool:
        return self.status == 429

    @property
    def is_put_off(self) -> bool:
        """Whether the server has not carried out the request, and says when it may be sent again."""
        is_kind = self.is_too_many_requests or self.status >= 500
        return is_kind and self.retry_after is not None and not self.may_still_happen

    @property
    def may_still_happen(self) -> bool:
        """Whether the API server may still carry out the request: it did not wait for etcd, or a proxy did not wait for
        it. (An error of an admission webhook is a 500, too, but is final.)"""
        if self.status in (0, 502, 504) or self.reason in ("Timeout", "ServerTimeout"):
            return True
        return self.status >= 500 and any(word in self.message for word in ("etcdserver:", "context deadline exceeded"))

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later: no answer, throttled, or a server error."""
        return self.status in (0, 408, 429) or self.status >= 500


def message_of(error: BaseException) -> str:
    """The error's text, which can be sent as UTF-8. The exception of a plugin may be unable to make one, or have half
    of a surrogate pair in it."""
    try:
        text = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as fault:  # noqa: BLE001 - whatever is wrong with it, what it is about has to go on
        return f"its text can't be made: {type(fault).__name__}"
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def type_and_message(error: BaseException) -> str:
    """The error's type and its text, such as `KeyError: 'rack'`."""
    return f"{type(error).__name__}: {message_of(error)}"


def failed_at(point: str, plugin: str, message: str) -> str:
    """An error at an extension point in kube-scheduler's words."""
    if point == "Filter":
        return f'running "{plugin}" filter plugin: {message}'
    if point == "Score":
        return f'running Score plugins: plugin "{plugin}" failed with: {message}'
    if point in ("AddPod", "RemovePod"):
        return f'running {point} on PreFilter plugin "{plugin}": {message}'
    return f'running {point} plugin "{plugin}": {message}'


class PluginError(SchedulerError):
    """A plugin raised an exception. `point` is the extension point, such as `Filter`."""

    def __init__(self, plugin: str, point: str, cause: BaseException) -> None:
        self.plugin = plugin
        self.point = point
        self.cause = cause
        super().__init__(plugin, point, cause)

    def __str__(self) -> str:
        return f"plugin {self.plugin} failed in {self.point}: {type_and_message(self.cause)}"


class InvariantViolation(SchedulerError):
    """An internal invariant does not hold: a bug of Tandem."""
