"""PodGroup of ``scheduling.x-k8s.io/v1alpha1``, the custom resource of scheduler-plugins: pods that start together.

Its status is written by the controller of scheduler-plugins, and is not read here.
"""

from __future__ import annotations

from scheduler.objects.meta import ApiObject, ApiStruct


class PodGroupSpec(ApiStruct, frozen=True):
    """``min_member``: the quorum. ``schedule_timeout_seconds``: how long a member waits for it in Permit; None is the
    scheduler's default."""

    min_member: int = 1
    schedule_timeout_seconds: int | None = None


class PodGroup(ApiObject, frozen=True):
    spec: PodGroupSpec = PodGroupSpec()
