"""Cluster events that may make a rejected pod schedulable, and plugins' registrations for them.

The bits and labels are kube-scheduler's (docs/kube-scheduler/queue.md §6.4, §6.5); the matching rule compares
``Action`` values as integers, so their order is part of the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from enum import Enum, EnumMeta, IntFlag
from functools import cache
from typing import Any, TypeAlias

from msgspec import Struct

from scheduler.cluster.devices.extended_resources import ClassesByResource
from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject


class Action(IntFlag):
    """What happened to a resource, as bits: kube-scheduler's action types with its values. A registration may combine
    them."""

    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_POD_LABEL = 256
    UPDATE_POD_SCALE_DOWN = 512
    UPDATE_POD_TOLERATION = 1024
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 2048
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 4096
    UPDATE = 8188
    ALL = 8191


class _WithKinds(EnumMeta):
    """For type checkers, which do not see the members that are made of kinds."""

    def __getattr__(cls, name: str) -> Resource:
        raise AttributeError(f"{cls.__name__} has no {name}: no kind of this name has events")


class Resource(Enum, metaclass=_WithKinds):
    """The resource of an event; the value is the text used in labels.

    Each kind with events (``objects/kinds.py``) is a member of its name: ``Resource.CSI_NODE`` is that of
    ``Kind.CSI_NODE``. Pods and nodes have resources of their own.
    """

    # By identity, which is constant for members: each event of each pod is looked up by it, and Enum's hash is slow.
    __hash__ = object.__hash__

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnschedulablePod"
    NODE = "Node"
    ANY = "*"
    vars().update({kind.name: kind.entry.event_resource for kind in Kind if kind.entry.has_events})


_ACTION_LABELS = {
    Action.ADD: "Add",
    Action.DELETE: "Delete",
    Action.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    Action.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    Action.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    Action.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    Action.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    Action.UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    Action.UPDATE_POD_LABEL: "UpdatePodLabel",
    Action.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    Action.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    Action.UPDATE: "Update",
    Action.ALL: "All",
}


@cache
def _label(resource: Resource, action: Action) -> str:
    return resource.value + _action_label(action)


def _action_label(action: Action) -> str:
    known = _ACTION_LABELS.get(action)
    if known is not None:
        return known
    whole = [Action.UPDATE] if Action.UPDATE in action else []
    rest = [single for single in action if not whole or single not in Action.UPDATE]
    return "|".join(_ACTION_LABELS[single] for single in (*rest, *whole))


class ClusterEvent(Struct, frozen=True):
    """A resource and the actions on it: registered by plugins, sent by the engine."""

    resource: Resource
    action: Action
    custom_label: str = ""

    @property
    def label(self) -> str:
        """The name used in metrics and logs, e.g. ``NodeAdd`` or ``AssignedPodUpdatePodScaleDown``.

        A registration may be for several actions at once: ``PodDelete|UpdatePodScaleDown``, ``CSINodeAdd|Update``.
        """
        return self.custom_label or _label(self.resource, self.action)

    @property
    def is_wildcard(self) -> bool:
        return self.resource is Resource.ANY and self.action == Action.ALL

    def matches(self, incoming: ClusterEvent) -> bool:
        """Whether a registration of this event matches ``incoming``.

        A general update (all Update bits) reaches only registrations that hold all of them: hence the comparison of
        the actions as integers.
        """
        if self.is_wildcard:
            return True
        if incoming.is_wildcard:
            return False
        same_resource = (
            self.resource is incoming.resource
            or self.resource is Resource.ANY
            or (
                self.resource is Resource.POD and incoming.resource in (Resource.ASSIGNED_POD, Resource.UNSCHEDULED_POD)
            )
        )
        return same_resource and bool(self.action & incoming.action) and incoming.action <= self.action


UNSCHEDULABLE_TIMEOUT = ClusterEvent(Resource.ANY, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(Resource.ANY, Action.ALL, "ForceActivate")

# Labels of queue moves without a cluster event.
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"


class Hint(Enum):
    """A plugin's answer whether an event may make a pod schedulable that it rejected."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


EventObject = ApiObject | PodInfo
"""What an event is about: pods as PodInfo, everything else as the object itself."""

RegisteredObject: TypeAlias = Any
"""An EventObject of the one type that a registration's event is about: Node for events of nodes, PodInfo for those of
pods. Functions of a registration name it in their signatures; a tuple of registrations cannot, since each has its own.
"""

HintFunction = Callable[[PodInfo, RegisteredObject | None, RegisteredObject | None], Hint]
"""``hint(pod, old, new) -> Hint``: the pending pod, and the event's object before and after (None where absent)."""

ClassHint = Callable[[PodInfo, RegisteredObject | None, RegisteredObject | None, ClassesByResource], Hint]
"""A HintFunction that also reads which extended resources DeviceClasses stand for, when the event is handled."""

Facet = Callable[[RegisteredObject], Hashable]
"""Maps an event's object (never None) to the part of it that a hint reads."""


def always_queue(_pod: PodInfo, _old: object, _new: object) -> Hint:
    """The hint of a registration without one."""
    return Hint.QUEUE


def only_itself(_object: object) -> Hashable:
    """The facet of a hint that matches only events about the waiting pod itself: all other objects are equal to it."""
    return None


Wanted = tuple[tuple[frozenset[Hashable], ...], ...]
"""Conditions, each a tuple of sets of keys, all of which must hold: see ``HintKeys``."""


class HintKeys(Struct, frozen=True):
    """The keys by which waiting pods that an event cannot concern are left out without a call of the hint.

    ``wanted`` maps a waiting PodInfo to conditions, ``offered`` an event's object (never None) to keys. For an event
    about anything but the waiting pod itself, the hint may answer Queue only if there is a condition each of whose sets
    has a key that the object offers, before or after. Either function returns None where it cannot say: then the hint
    is called.
    """

    wanted: Callable[[PodInfo], Wanted | None]
    offered: Callable[[RegisteredObject], Iterable[Hashable] | None]


class EventRegistration(Struct, frozen=True):
    """A plugin's registration of an event that may wake its rejected pods.

    ``facet`` returns what the hint depends on if the event is about anything but the waiting pod itself: two events
    whose objects, before and after, have equal facets must get the same answer for the same pod, so the hint is called
    once for both. In a large cluster thousands of pods of a few templates come and go every second. Without a facet
    the hint is called for each event.

    ``keys`` serve where neither the events nor the waiting pods are alike, as with labels of their own: they are looked
    up if there is a facet, too, and no other registration of the plugin for the same event.

    ``class_hint`` takes the place of ``hint`` once the registration is ``bound``.
    """

    event: ClusterEvent
    hint: HintFunction = always_queue
    facet: Facet | None = None
    keys: HintKeys | None = None
    class_hint: ClassHint | None = None

    def bound(self, classes: ClassesByResource) -> EventRegistration:
        """The registration with a hint that reads these classes, as they are when it is called."""
        if self.class_hint is None:
            return self
        facet = _BoundFacet(self.facet, classes) if self.facet is not None else None
        return EventRegistration(self.event, _BoundHint(self.class_hint, classes), facet, self.keys)


class _BoundHint(Struct, frozen=True, eq=False):
    """A value and no closure: the engine's state, which has it, is written into recordings and snapshots."""

    class_hint: ClassHint
    classes: ClassesByResource

    def __call__(self, pod: PodInfo, old: EventObject | None, new: EventObject | None) -> Hint:
        return self.class_hint(pod, old, new, self.classes)


class _BoundFacet(Struct, frozen=True, eq=False):
    facet: Facet
    classes: ClassesByResource

    def __call__(self, obj: EventObject) -> Hashable:
        return self.classes.version, self.facet(obj)


DEFAULT_REGISTRATIONS: tuple[EventRegistration, ...] = tuple(
    EventRegistration(ClusterEvent(resource, Action.ALL))
    for resource in (
        Resource.POD,
        Resource.NODE,
        Resource.PERSISTENT_VOLUME,
        Resource.PERSISTENT_VOLUME_CLAIM,
        Resource.CSI_NODE,
        Resource.CSI_DRIVER,
        Resource.CSI_STORAGE_CAPACITY,
        Resource.STORAGE_CLASS,
        Resource.RESOURCE_CLAIM,
        Resource.DEVICE_CLASS,
        Resource.POD_GROUP,
    )
)
"""The registration of a plugin without its own: all events, always QUEUE (docs/kube-scheduler/queue.md §6.7).

PodGroups are watched, and so have events, with the gate GenericWorkload alone.
"""
