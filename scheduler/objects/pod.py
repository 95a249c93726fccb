"""Pod: the fields of spec and status that scheduling reads."""

from __future__ import annotations

import msgspec

from scheduler.objects.meta import ApiObject, ApiStruct, Condition
from scheduler.objects.quantity import Quantities
from scheduler.objects.selector_fields import LabelSelector, NodeSelectorFields, PreferredSchedulingTerm
from scheduler.objects.volume_sources import DiskSources

# --- spec -------------------------------------------------------------------------------------------------------------


class ResourceRequirements(ApiStruct, frozen=True):
    requests: Quantities = msgspec.field(default_factory=dict)
    limits: Quantities = msgspec.field(default_factory=dict)


NO_RESOURCES = ResourceRequirements()


class ContainerPort(ApiStruct, frozen=True):
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class ContainerRestartRule(ApiStruct, frozen=True):
    action: str = ""


class Container(ApiStruct, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = NO_RESOURCES
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()

    @property
    def is_sidecar(self) -> bool:
        """Whether an init container keeps running beside the others."""
        return self.restart_policy == "Always"


class Toleration(ApiStruct, frozen=True, cache_hash=True):
    """A toleration. Hashable, so that equal lists of tolerations can be interned."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeAffinity(ApiStruct, frozen=True):
    required: NodeSelectorFields | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(ApiStruct, frozen=True):
    """A term of pod (anti-)affinity. The API server has merged `matchLabelKeys` and `mismatchLabelKeys` into the
    selector."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""


class WeightedPodAffinityTerm(ApiStruct, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(ApiStruct, frozen=True):
    """Affinity or anti-affinity to other pods; both have the same fields."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(ApiStruct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(ApiStruct, frozen=True):
    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class ClaimVolume(ApiStruct, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class EphemeralVolume(ApiStruct, frozen=True):
    """A generic ephemeral volume: a controller creates its claim, named `<pod>-<volume>`."""


class ImageVolume(ApiStruct, frozen=True):
    reference: str = ""


class Volume(DiskSources, frozen=True):
    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    image: ImageVolume | None = None


class SchedulingGate(ApiStruct, frozen=True):
    name: str = ""


class PodResourceClaim(ApiStruct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGroup(ApiStruct, frozen=True):
    """The PodGroup, in the pod's namespace, that the pod belongs to."""

    pod_group_name: str = ""


class PodSpec(ApiStruct, frozen=True):
    """`priority` and `host_users` are as written, None if absent; use `Pod.priority`."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: Quantities = msgspec.field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    restart_policy: str = ""


# --- status -----------------------------------------------------------------------------------------------------------


class ContainerStatus(ApiStruct, frozen=True):
    """`resources` is None until the kubelet has reported the container's actual resources."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities = msgspec.field(default_factory=dict)


class PodResourceClaimStatus(ApiStruct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(ApiStruct, frozen=True):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(ApiStruct, frozen=True):
    resource_claim_name: str = ""


class PodStatus(ApiStruct, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    reason: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities = msgspec.field(default_factory=dict)
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    qos_class: str = ""


# --- pod --------------------------------------------------------------------------------------------------------------


class Pod(ApiObject, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def priority(self) -> int:
        """The priority, a signed 32-bit integer; 0 if none is set."""
        return self.spec.priority or 0

    @property
    def node_name(self) -> str:
        """The node it is bound to, or ""."""
        return self.spec.node_name

    @property
    def nominated_node_name(self) -> str:
        return self.status.nominated_node_name

    @property
    def scheduler_name(self) -> str:
        return self.spec.scheduler_name

    @property
    def is_assigned(self) -> bool:
        return self.spec.node_name != ""

    @property
    def is_finished(self) -> bool:
        """Whether it has ended (Succeeded or Failed) and holds no resources any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def node_affinity(self) -> NodeAffinity | None:
        affinity = self.spec.affinity
        return affinity.node_affinity if affinity is not None else None

    @property
    def pod_affinity(self) -> PodAffinity | None:
        affinity = self.spec.affinity
        return affinity.pod_affinity if affinity is not None else None

    @property
    def pod_anti_affinity(self) -> PodAffinity | None:
        affinity = self.spec.affinity
        return affinity.pod_anti_affinity if affinity is not None else None

    def condition(self, type: str) -> Condition | None:
        """The first condition of this type, or None."""
        for condition in self.status.conditions:
            if condition.type == type:
                return condition
        return None

    def on_node(self, node_name: str) -> Pod:
        """A copy bound to a node ("" for none)."""
        return msgspec.structs.replace(self, spec=msgspec.structs.replace(self.spec, node_name=node_name))

    def nominated_to(self, node_name: str) -> Pod:
        """A copy with another nominated node ("" for none)."""
        status = msgspec.structs.replace(self.status, nominated_node_name=node_name)
        return msgspec.structs.replace(self, status=status)
