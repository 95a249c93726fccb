"""Commands: work for the shell. Those with a ticket are answered by a stimulus.

The engine adds two of its own, ``RecordAttempt`` and ``RecordGroupAttempt`` (``engine/commands.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from scheduler.cluster.groups.group import GroupReference
from scheduler.cluster.pod_info import PodInfo
from scheduler.messages.claim_commands import ClaimCommand
from scheduler.messages.references import LeaseReference, PodReference
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import Condition

Subject = PodReference | GroupReference | LeaseReference
"""The object that an event is about."""


class BindPod(msgspec.Struct, frozen=True):
    """POST the Binding (with the UID). Answered with WriteFinished.

    ``is_again``: a bind of the pod had no answer; where this one is refused the writer reads the pod.
    """

    ticket: int
    pod: PodReference
    node: str
    is_again: bool = False


class PatchPodStatus(msgspec.Struct, frozen=True):
    """PATCH ``pods/NAME/status`` (strategic merge) with one condition and, or, the nominated node.

    ``condition`` None leaves the conditions; ``nominated_node_name`` None leaves the nomination, "" clears it (null).
    ``ticket`` 0: no outcome is reported.
    """

    ticket: int
    pod: PodReference
    condition: Condition | None = None
    nominated_node_name: str | None = None
    is_continuation: bool = False
    """An earlier write of the same removal has been answered: this one leaves before those that begin a removal."""
    is_announcement: bool = False
    """The nomination only says where the pod will be bound: nothing waits for it, and the binding replaces it."""


class PatchGroupStatus(msgspec.Struct, frozen=True):
    """PATCH a group's status (strategic merge) with one condition. ``ticket`` 0: no outcome is reported."""

    ticket: int
    group: GroupReference
    condition: Condition


class PatchGroupCounts(msgspec.Struct, frozen=True):
    """PATCH the status of a custom resource's group (merge): ``changes`` of its fields, None takes one away. No outcome
    is reported."""

    group: GroupReference
    changes: dict[str, Any]
    ticket: int = 0


class DeletePod(msgspec.Struct, frozen=True):
    """DELETE with the pod's own grace period and its UID as precondition. Answered with WriteFinished."""

    ticket: int
    pod: PodReference
    is_continuation: bool = False
    """See ``PatchPodStatus.is_continuation``."""


class EvictPod(msgspec.Struct, frozen=True):
    """POST an Eviction (the API server keeps the budgets; 429 = refused). Answered with WriteFinished."""

    ticket: int
    pod: PodReference
    is_continuation: bool = False
    """See ``PatchPodStatus.is_continuation``."""


class UpdateObject(msgspec.Struct, frozen=True):
    """PATCH an object (merge), with the resourceVersion in it: a conflict is an answer. Answered with WriteFinished."""

    ticket: int
    kind: Kind
    key: str
    changes: dict[str, Any]
    """JSON merge patch that turns the stored object into the wanted one, ``metadata.resourceVersion`` included."""

    def with_ticket(self, ticket: int) -> UpdateObject:
        """The same write, to be answered under this ticket."""
        return msgspec.structs.replace(self, ticket=ticket)


class WriteEvent(msgspec.Struct, frozen=True, gc=False):
    """An events.k8s.io/v1 Event, best effort."""

    regarding: Subject
    type: str
    """``Normal`` or ``Warning``."""
    reason: str
    action: str
    note: str
    reporting_controller: str
    related: Subject | None = None


class RunPlugin(msgspec.Struct, frozen=True):
    """Run a user plugin's PreBind, Bind or PostBind in the shell. Answered with PluginFinished."""

    ticket: int
    point: str
    profile: str
    plugin: str
    pod: PodInfo
    node: str


class StopPlugins(msgspec.Struct, frozen=True):
    """The pod's binding has failed: its PreBind calls that are under way are cancelled. Not answered."""

    uid: str


class CallExtender(msgspec.Struct, frozen=True):
    """POST ``body`` (JSON) to the URL of extender number ``extender``. Answered with ExtenderAnswered."""

    ticket: int
    extender: int
    verb: str
    url: str
    body: bytes
    timeout_seconds: float
    binds: tuple[PodReference, str] | None = None
    """The pod and the node, where the extender is asked to bind."""


class ReportKnownObjects(msgspec.Struct, frozen=True):
    """What the engine knows, for a comparison with the API server: the names of all nodes and the UIDs of all pods,
    some of them twice.

    ``unconfirmed``: pods whose bindings were answered, and that no watch has shown on their nodes; with these nodes.
    """

    nodes: Sequence[str]
    pods: Sequence[str]
    unconfirmed: Sequence[tuple[PodReference, str]] = ()


class ReportRepairs(msgspec.Struct, frozen=True):
    """The cache differed from the API server and was repaired. By kind, a line each, for logs and metrics."""

    repairs: tuple[tuple[Kind, str], ...]


class ReportProblem(msgspec.Struct, frozen=True):
    """An unexpected failure that affects one pod or plugin, for the log. ``error``: of a bug of the engine."""

    message: str
    error: BaseException | None = None


BaseCommand = (
    BindPod
    | PatchPodStatus
    | PatchGroupStatus
    | DeletePod
    | EvictPod
    | UpdateObject
    | ClaimCommand
    | WriteEvent
    | RunPlugin
    | StopPlugins
    | CallExtender
    | ReportKnownObjects
    | ReportRepairs
    | ReportProblem
)
