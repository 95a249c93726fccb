"""PodGroup of ``scheduling.k8s.io/v1alpha2``: pods that are scheduled together. The whole spec is immutable."""

from __future__ import annotations

from scheduler.objects.meta import ApiObject, ApiStruct, Condition


class BasicPolicy(ApiStruct, frozen=True):
    """No quorum: each pod may run alone."""


class GangPolicy(ApiStruct, frozen=True):
    min_count: int = 0


class SchedulingPolicy(ApiStruct, frozen=True):
    """Exactly one of them is set."""

    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(ApiStruct, frozen=True):
    """All pods are on nodes with one value of the node label ``key``."""

    key: str = ""


class SchedulingConstraints(ApiStruct, frozen=True):
    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupResourceClaim(ApiStruct, frozen=True):
    """A claim that the group's pods share. One of the two names is set: of a claim, or of a template for one."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupResourceClaimStatus(ApiStruct, frozen=True):
    """The claim that was made from a template; None: none was needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodGroupSpec(ApiStruct, frozen=True):
    """``disruption_mode`` is ``Pod`` or ``PodGroup``; None is ``Pod``. ``priority`` None is 0."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: str | None = None
    priority: int | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()


class PodGroupStatus(ApiStruct, frozen=True):
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(ApiObject, frozen=True):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    def condition(self, type: str) -> Condition | None:
        """The first condition of this type, or None."""
        return next((condition for condition in self.status.conditions if condition.type == type), None)
