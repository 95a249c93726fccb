"""PriorityClass: where a pod's priority comes from. Admission resolves it; nothing in the scheduler reads it."""

from __future__ import annotations

from scheduler.objects.meta import ApiObject


class PriorityClass(ApiObject, frozen=True):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""
