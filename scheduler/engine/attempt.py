"""The Attempt: one try at one pod, as a value. Events, conditions, metrics, logs and ``why`` are all made from it."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.plugin_times import PluginTimes
from scheduler.framework.post_filter import NominationMode
from scheduler.preemption.summary import RefusedNodes

SCHEDULED = "scheduled"
UNSCHEDULABLE = "unschedulable"
ERROR = "error"


class ExtenderFault(msgspec.Struct, frozen=True):
    """A call of an extender that failed. ``is_skipped``: the attempt went on as if the extender were not there."""

    extender: str
    """Its name: the prefix of its URL."""
    verb: str
    """filter, prioritize, preempt or bind, whatever the configured path."""
    message: str
    is_skipped: bool


class Attempt(msgspec.Struct, eq=False):
    """Filled in by the cycle as it goes, then handed on; later only its evidence is cut down (``attempt_memory``).

    Durations are seconds from the injected stopwatch; they feed no decision.
    """

    pod: str
    """namespace/name"""
    uid: str
    scheduler_name: str
    number: int
    """How many times the pod has been taken from the queue, this one included."""
    started_wall: int
    """Nanoseconds since 1970."""
    result: str = ""
    """SCHEDULED, UNSCHEDULABLE or ERROR; "" while it is under way."""
    node: str = ""
    message: str = ""
    """What the event and the condition say."""
    total_nodes: int = 0
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    was_class_known: bool = False
    """Answers were shared with a pod that looks alike."""
    diagnosis: Diagnosis | None = None
    """Why nodes were refused; of an attempt that found a node only where everything was asked for."""
    refused: tuple[RefusedNodes, ...] = ()
    """What is left of the diagnosis of an attempt of long ago."""
    only_nodes: frozenset[str] | None = None
    """The only nodes that PreFilter plugins left to look at; None = all."""
    scores: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """Plugin → node → weighted final score, for the leading nodes (all of them when asked for in full)."""
    total: dict[str, int] = msgspec.field(default_factory=dict)
    shares: dict[str, int] | None = None
    """Plugin → weighted final score of the chosen node, where ``scores`` was not asked for."""
    nominated_node: str = ""
    """The node, where ``nomination_mode`` is SET."""
    victims: tuple[str, ...] = ()
    """namespace/name, most important first."""
    preemption: Any = None
    """The evidence of the PostFilter plugin that decided: candidates, budgets, the criterion. Of DefaultPreemption a
    ``PreemptionEvidence``, of an attempt of long ago a ``PreemptionSummary``."""
    nomination_mode: NominationMode = NominationMode.KEEP
    rejectors: tuple[str, ...] = ()
    extender_faults: tuple[ExtenderFault, ...] = ()
    durations: dict[str, float] = msgspec.field(default_factory=dict)
    """Extension point → seconds."""
    bind_seconds: float | None = None
    """What the last write of the Binding took; None where there was none."""
    plugin_times: PluginTimes | None = None
    """What the plugins' calls took, in one attempt of ten."""
    evaluated: frozenset[tuple[str, str]] = frozenset()
    """Plugin and point (PreFilter, Filter) of those that had something to say; one object for all pods of a class."""
    evaluated_scores: frozenset[tuple[str, str]] = frozenset()
    """The same for PreScore and Score."""
    permit_wait: tuple[str, float] | None = None
    """How a wait in Permit ended (a status code's name), and the seconds that it took."""
    was_flushed: bool = False
    """No event had moved the pod since its last attempt, only the flush of the pool."""
    queued_seconds: float = 0.0
    """From when the pod was first ready to be tried until this attempt began."""
    finished_monotonic: float = 0.0
