"""Fault injection for tests of clients: requests that fail, hang or lose their connection."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct, field

Action = Literal["status", "answer", "drop", "drop_after", "delay"]


class Fault(Struct):
    """One rule, applied to the next `times` matching requests. `path` is a regular expression searched in the path.

    `status` answers with `code` instead of serving the request, `answer` with 200 and `body`; `drop` closes the
    connection before serving and `drop_after` after it; `delay` waits `seconds` and then serves.
    """

    action: Action
    method: str = ""
    path: str = ""
    times: int = 1
    code: int = 500
    reason: str = "InternalError"
    message: str = "injected fault"
    retry_after: float = 0
    seconds: float = 0.0
    body: bytes = b""

    def matches(self, method: str, path: str) -> bool:
        return self.times > 0 and self.method in ("", method) and re.search(self.path, path) is not None


class Faults(Struct):
    """The active rules, tried in order; the first that matches is used."""

    rules: list[Fault] = field(default_factory=list)

    def fail(
        self, method: str, path: str, code: int, *, times: int = 1, reason: str = "InternalError",
        message: str = "injected fault", retry_after: float = 0,
    ) -> None:  # fmt: skip
        """Answers the next `times` matching requests with this status without serving them."""
        fault = Fault("status", method, path, times, code, reason, message, retry_after)
        self.rules.append(fault)

    def answer(self, method: str, path: str, body: bytes, *, times: int = 1) -> None:
        """Answers the next `times` matching requests with 200 and this body; a watch ends after it."""
        self.rules.append(Fault("answer", method, path, times, body=body))

    def drop(self, method: str, path: str, *, times: int = 1, after: bool = False) -> None:
        """Closes the connection of the next matching requests, before serving or after it (the answer is lost)."""
        self.rules.append(Fault("drop_after" if after else "drop", method, path, times))

    def delay(self, method: str, path: str, seconds: float, *, times: int = 1) -> None:
        """Delays the next matching requests by `seconds` before serving."""
        self.rules.append(Fault("delay", method, path, times, seconds=seconds))

    def clear(self) -> None:
        self.rules.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """The fault for this request, counted as used once; None without one."""
        for rule in self.rules:
            if rule.matches(method, path):
                rule.times -= 1
                if rule.times <= 0:
                    self.rules.remove(rule)
                return rule
        return None
