"""PodDisruptionBudget: how many of an application's pods may be disrupted."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.objects.meta import ApiObject, ApiStruct
from scheduler.objects.selector_fields import LabelSelector

ALWAYS_ALLOW: Final = "AlwaysAllow"
"""The policy that lets every pod go that is not ready."""


class BudgetSpec(ApiStruct, frozen=True):
    """`min_available` and `max_unavailable` are a number of pods or a percentage such as `50%`, as written."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(ApiStruct, frozen=True):
    """`disrupted_pods`: names of pods whose eviction was granted but not yet observed, with its time (RFC 3339)."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    disrupted_pods: dict[str, str] = msgspec.field(default_factory=dict)


class PodDisruptionBudget(ApiObject, frozen=True):
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


def may_allow_more(old: PodDisruptionBudget, new: PodDisruptionBudget) -> bool:
    """Whether pods may be removed by the new version that the old one has kept."""
    before, after = old.status, new.status
    return (
        after.disruptions_allowed > before.disruptions_allowed
        or after.disrupted_pods != before.disrupted_pods
        or old.spec != new.spec
    )
