"""PodGroup of ``scheduling.x-k8s.io/v1alpha1``, the custom resource of scheduler-plugins: pods that start together.

Its status is kept by the controller of scheduler-plugins or, where that does not run, by this scheduler
(``controller/beside/coscheduling_status.py``); no decision reads it.
"""

from __future__ import annotations

import msgspec

from scheduler.objects.meta import ApiObject, ApiStruct
from scheduler.objects.quantity import Quantities


class PodGroupSpec(ApiStruct, frozen=True):
    """``min_member``: the quorum. ``min_resources``: what must be free in the cluster before its pods are tried.
    ``schedule_timeout_seconds``: how long a member waits for the quorum in Permit; None is the scheduler's default."""

    min_member: int = 1
    min_resources: Quantities = msgspec.field(default_factory=dict)
    schedule_timeout_seconds: int | None = None


class PodGroupStatus(ApiStruct, frozen=True):
    """``phase``: "", Pending, Scheduling, Running, Finished or Failed. ``occupied_by``: the owners of its pods. The
    numbers are those of pods by their own phase."""

    phase: str = ""
    occupied_by: str = ""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: str | None = None


class PodGroup(ApiObject, frozen=True):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
