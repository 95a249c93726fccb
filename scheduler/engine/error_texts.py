"""The error texts of failed plugins: kube-scheduler's wording for each extension point."""

from __future__ import annotations

from scheduler.errors import PluginError, failed_at, message_of, type_and_message
from scheduler.framework.classes.score_slot import InvalidScore


def text_of(error: PluginError) -> str:
    """The text for the event and the condition. A ValueError contributes its message; other exceptions also their
    type."""
    if isinstance(error, InvalidScore):
        return str(error)
    return failed_at(error.point, error.plugin, cause_of(error.cause))


def cause_of(error: BaseException) -> str:
    return message_of(error) if isinstance(error, ValueError) else type_and_message(error)


def go_duration(seconds: float) -> str:
    """The duration as Go writes it: ``10s``, ``1m0s``, ``15m0s``, ``1h0m0s``."""
    total = round(seconds * 1000)
    whole, milliseconds = divmod(total, 1000)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{milliseconds:03d}".rstrip("0") if milliseconds else ""
    if not whole and milliseconds:
        return f"{milliseconds}ms"
    text = f"{rest}{fraction}s"
    if minutes or hours:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text
