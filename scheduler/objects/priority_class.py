"""PriorityClass: the source of a pod's priority. Admission has resolved it; this is for explanations."""

from __future__ import annotations

from scheduler.objects.meta import ApiObject


class PriorityClass(ApiObject, frozen=True):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""
