"""The selectors of services and controllers, which group pods into workloads."""

from __future__ import annotations

from scheduler.objects.meta import ApiObject, ApiStruct
from scheduler.objects.selector_fields import LabelSelector


class EqualitySelector(ApiStruct, frozen=True):
    """The spec of a Service or a ReplicationController: the labels that it selects. None: it selects nothing."""

    selector: dict[str, str] | None = None


class WorkloadSpec(ApiStruct, frozen=True):
    """The spec of a ReplicaSet or a StatefulSet."""

    selector: LabelSelector | None = None
    replicas: int | None = None


class Service(ApiObject, frozen=True):
    spec: EqualitySelector = EqualitySelector()


class ReplicationController(ApiObject, frozen=True):
    spec: EqualitySelector = EqualitySelector()


class ReplicaSet(ApiObject, frozen=True):
    spec: WorkloadSpec = WorkloadSpec()


class StatefulSet(ApiObject, frozen=True):
    spec: WorkloadSpec = WorkloadSpec()
