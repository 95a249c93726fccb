"""What users read of a plugin that failed, in kube-scheduler's words for each extension point."""

from __future__ import annotations

from scheduler.errors import PluginError
from scheduler.framework.classes.score_slot import InvalidScore


def text_of(error: PluginError) -> str:
    """For the event and the condition. A ValueError carries the plugin's own words; of other exceptions the type is
    told too."""
    if isinstance(error, InvalidScore):
        return str(error)
    return failed_at(error.point, error.plugin, cause_of(error.cause))


def cause_of(error: BaseException) -> str:
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def failed_at(point: str, plugin: str, message: str) -> str:
    if point == "Filter":
        return f'running "{plugin}" filter plugin: {message}'
    if point == "Score":
        return f'running Score plugins: plugin "{plugin}" failed with: {message}'
    return f'running {point} plugin "{plugin}": {message}'
