"""How a broken promise of a plugin is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class ContractViolation(AssertionError):
    """``rule`` is one word for the promise that was broken; the message says by what, and what to do about it."""

    def __init__(self, plugin: str, rule: str, message: str) -> None:
        self.rule = rule
        super().__init__(f"{plugin} breaks the plugin contract ({rule}): {message}")


def asked(plugin: Any, what: str, call: Callable[[], Answer], check: Callable[[Answer], None] | None = None) -> Answer:
    """The plugin's answer. Raises ContractViolation where it raises, or where ``check`` does not like the answer."""
    try:
        answer = call()
    except ContractViolation:
        raise
    except Exception as error:
        raise ContractViolation(plugin.name, "raises", f"{what} raised {type(error).__name__}: {error}") from error
    if check is not None:
        try:
            check(answer)
        except (TypeError, ValueError) as error:
            raise ContractViolation(plugin.name, "answers", f"{what} {error}") from error
    return answer
