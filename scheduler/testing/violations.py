"""The error for a violation of the plugin contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from scheduler.errors import message_of, type_and_message

Answer = TypeVar("Answer")


class ContractViolation(AssertionError):
    """``rule`` names the violated rule; the message describes the violation."""

    def __init__(self, plugin: str, rule: str, message: str) -> None:
        self.rule = rule
        super().__init__(f"{plugin} breaks the plugin contract ({rule}): {message}")


def asked(plugin: Any, what: str, call: Callable[[], Answer], check: Callable[[Answer], None] | None = None) -> Answer:
    """The plugin's answer. Raises ContractViolation if the call or ``check`` raises."""
    try:
        answer = call()
    except ContractViolation:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ContractViolation(plugin.name, "raises", f"{what} raised {type_and_message(error)}") from error
    if check is not None:
        try:
            check(answer)
        except Exception as error:
            raise ContractViolation(plugin.name, "answers", f"{what} {message_of(error)}") from error
    return answer
