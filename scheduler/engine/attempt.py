"""One attempt to schedule one pod, as a value: the source of events, conditions, metrics, logs and ``tandem why``."""

from __future__ import annotations

import msgspec

from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.plugin_times import PluginTimes
from scheduler.framework.post_filter import NominationMode
from scheduler.preemption.summary import RefusedNodes

SCHEDULED = "scheduled"
UNSCHEDULABLE = "unschedulable"
ERROR = "error"


class ExtenderFault(msgspec.Struct, frozen=True):
    """A failed extender call. ``is_skipped``: the extender is ignorable and the attempt went on without it."""

    extender: str
    """The extender's name: its URL prefix."""
    verb: str
    """filter, prioritize, preempt or bind; independent of the configured path."""
    message: str
    is_skipped: bool


class DeviceWait(msgspec.Struct, frozen=True):
    """A wait before the bind for devices to get ready. ``ending`` is success, failure, timeout or error."""

    drivers: tuple[str, ...]
    """Of each device of the pod's claims."""
    awaited: tuple[str, ...]
    """Of each device that was waited for."""
    ending: str
    seconds: float


class Attempt(msgspec.Struct, eq=False, gc=False):
    """The record of one attempt. The cycle fills it in; afterwards only its evidence is reduced (``attempt_memory``).
    Nothing that it holds leads back to it, so the garbage collector need not look at each one that is remembered.

    Durations are seconds from the injected stopwatch; they feed no decision.
    """

    pod: str
    """namespace/name"""
    uid: str
    scheduler_name: str
    number: int
    """How often the pod has been popped from the queue, this attempt included."""
    started_wall: int
    """Nanoseconds since 1970."""
    result: str = ""
    """SCHEDULED, UNSCHEDULABLE or ERROR; "" while it is under way."""
    node: str = ""
    message: str = ""
    """The message of the event and of the condition."""
    total_nodes: int = 0
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    was_class_known: bool = False
    """Whether answers cached for an equivalent pod were used."""
    diagnosis: Diagnosis | None = None
    """Why nodes were refused. For an attempt that found a node it is kept only at full depth."""
    refused: tuple[RefusedNodes, ...] = ()
    """The summary that replaces ``diagnosis`` in an old attempt."""
    only_nodes: frozenset[str] | None = None
    """The nodes to which PreFilter plugins restricted the search; None = all."""
    scores: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """Plugin → node → weighted final score, at full depth or where extenders score; else empty."""
    total: dict[str, int] = msgspec.field(default_factory=dict)
    shares: dict[str, int] | None = None
    """Plugin → weighted final score of the chosen node, if ``scores`` was not requested."""
    nominated_node: str = ""
    """The nominated node if ``nomination_mode`` is SET."""
    victims: tuple[str, ...] = ()
    """namespace/name, most important first."""
    preemption: object = None
    """The evidence of the PostFilter plugin that decided: candidates, budgets, the criterion. A ``PreemptionEvidence``
    for DefaultPreemption, a ``PreemptionSummary`` in an old attempt."""
    nomination_mode: NominationMode = NominationMode.KEEP
    rejectors: tuple[str, ...] = ()
    extender_faults: tuple[ExtenderFault, ...] = ()
    durations: dict[str, float] = msgspec.field(default_factory=dict)
    """Extension point → seconds."""
    statuses: dict[str, str] = msgspec.field(default_factory=dict)
    """Extension point → name of its status code, for the points that did not end in a success."""
    failed: tuple[tuple[str, str], ...] = ()
    """Extension point and plugin of each that ended in an error at Filter, Reserve or PreBind, where a plugin that is
    stopped since another failed or the pod is preempted has failed, too."""
    bind_seconds: float | None = None
    """Seconds that the last write of the Binding took; None without one."""
    plugin_times: PluginTimes | None = None
    """The durations of plugin calls; measured in one attempt of ten."""
    evaluated: frozenset[tuple[str, str]] = frozenset()
    """Plugin and point (PreFilter, Filter) of the plugins that did not skip; shared by all pods of a class."""
    evaluated_scores: frozenset[tuple[str, str]] = frozenset()
    """The same for PreScore and Score."""
    permit_wait: tuple[str, float] | None = None
    """The status code's name with which a wait in Permit ended, and its duration in seconds."""
    device_waits: tuple[DeviceWait, ...] = ()
    was_flushed: bool = False
    """The pod was moved by the periodic flush of the unschedulable pods, not by an event."""
    queued_seconds: float = 0.0
    """Seconds from the pod's first entry into the active queue to the start of this attempt."""
    started_monotonic: float = 0.0
    """In seconds: the wall clock may be set meanwhile."""
