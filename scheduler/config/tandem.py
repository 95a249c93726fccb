"""TandemConfiguration: the settings that kube-scheduler doesn't have, as a further document of the same file.

A file without it behaves as kube-scheduler does, wherever a choice exists.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from scheduler.config import validators
from scheduler.config.durations import MINUTE, Duration
from scheduler.config.field_faults import child, duplicate, invalid, not_supported, required
from scheduler.config.names import NODE_SCOPE_PLUGIN
from scheduler.config.rendering import public_form
from scheduler.config.strict import DurationOrZero
from scheduler.errors import Fault
from scheduler.objects.selector_fields import LabelSelector
from scheduler.objects.selectors import SelectorError, parse_selector

API_GROUP: Final = "tandem.scheduling"
API_VERSION: Final = f"{API_GROUP}/v1alpha1"
KIND: Final = "TandemConfiguration"

_CLASS_PATH: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

Count = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class Nominations(enum.Enum):
    """Whose nominated pods count when a node is filtered."""

    OURS = "ours"
    ALL = "all"


class PDBPolicy(enum.Enum):
    """How strictly disruption budgets are kept: kube-scheduler's best effort, or a guarantee."""

    BEST_EFFORT = "bestEffort"
    STRICT = "strict"


class VictimScope(enum.Enum):
    """Which pods preemption may remove: any, or only those that our profiles schedule."""

    ALL = "all"
    OWN = "own"


class PreemptionMode(enum.Enum):
    """Whether the removal of victims runs beside the scheduling cycle, or within it."""

    ASYNC = "async"
    SYNC = "sync"


class Breaker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Ends preemption that another scheduler undoes again and again.

    After ``rounds`` preemptions by one preemptor on one node within ``window`` the node is left out for it; 0 rounds
    switch this off.
    """

    rounds: Count = 0
    window: Duration = Duration(10 * MINUTE)


class PreemptionSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How preemption differs from kube-scheduler's.

    ``nomination_timeout``: how long a preemptor waits for its victims to end before it may choose again; 0 = for ever.
    ``prefer_other_than_daemon_sets``: of equal candidates, prefer one whose victims would not be recreated there.
    """

    pdb_policy: PDBPolicy = PDBPolicy.BEST_EFFORT
    victim_scope: VictimScope = VictimScope.ALL
    nomination_timeout: DurationOrZero = DurationOrZero(0)
    mode: PreemptionMode = PreemptionMode.ASYNC
    breaker: Breaker = Breaker()
    prefer_other_than_daemon_sets: bool = False


class UserPlugin(msgspec.Struct, frozen=True, rename="camel"):
    """A plugin from outside: the name that profiles use, and ``module:Class``, where its class is found."""

    name: str = ""
    path: str = ""


class Limits(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Limits of concurrent and remembered items; all are counts."""

    requests_in_flight: Count = 128
    """Maximum of writes sent and not yet answered: bindings, conditions, deletions, events."""
    queued_writes: Count = 256
    """Maximum of queued bindings; at the limit scheduling pauses."""
    running_preemptions: Count = 1_000
    """Maximum of preemptions whose victims are being removed."""
    remembered_attempts: Count = 10_000
    """Maximum of attempts remembered for ``tandem why``, one a pod."""
    cached_classes: Count = 1_000
    """Maximum of pod classes whose answers are cached."""
    cached_selectors: Count = 5_000
    """Maximum of selectors whose matching pods are counted."""


class Coscheduling(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Groups by the PodGroup of scheduler-plugins (``scheduling.x-k8s.io/v1alpha1``)."""

    enabled: bool = False
    writes_status: bool = True
    """Whether their status is kept; false where the controller of scheduler-plugins runs, which keeps it then."""


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """APIs of groups of pods besides that of Kubernetes, which feature gates switch."""

    coscheduling: Coscheduling = Coscheduling()


class TandemConfiguration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Tandem's own settings and their defaults; ``apiVersion`` and ``kind`` have been checked."""

    api_version: str = API_VERSION
    kind: str = KIND
    nominations: Nominations = Nominations.OURS
    preemption: PreemptionSettings = PreemptionSettings()
    groups: GroupSettings = GroupSettings()
    node_scope: dict[str, LabelSelector] = msgspec.field(default_factory=dict)
    """Scheduler name of a profile → the labels of the nodes that it may use; profiles not named may use all."""
    plugins: tuple[UserPlugin, ...] = ()
    limits: Limits = Limits()
    pod_max_in_unschedulable_pods_duration: Duration = Duration(5 * MINUTE)


RETIRED: Final = {
    (
        "limits",
        "bindsInFlight",
    ): "limits.bindsInFlight has no effect any more: limits.requestsInFlight bounds all writes"
}
"""Settings of the previous version without effect, by section and name: accepted with this warning."""

RENAMED: Final = {("limits", "journalEntries"): "rememberedAttempts"}
"""Settings of the previous version that have another name, by section and old name: accepted with a warning."""

LIMIT_RANGES: Final = {
    "requests_in_flight": (24, 256),
    "queued_writes": (1, 100_000),
    "running_preemptions": (1, 100_000),
    "remembered_attempts": (0, 10_000_000),
    "cached_classes": (1, 1_000_000),
    "cached_selectors": (1, 1_000_000),
}
"""Lowest and highest of each limit."""


def validate(
    configuration: TandemConfiguration, built_in_plugins: frozenset[str], profiles: Sequence[str]
) -> tuple[Fault, ...]:
    """Every fault of our settings. ``built_in_plugins`` are the names that a plugin from outside can't take,
    ``profiles`` the scheduler names that there are."""
    found = _faults(configuration, built_in_plugins | {NODE_SCOPE_PLUGIN})
    return (*found, *_scope_faults(configuration.node_scope, profiles))


def configuration_document(configuration: TandemConfiguration) -> dict[str, Any]:
    """Our settings as plain values; they read back as the same."""
    form: dict[str, Any] = public_form(configuration)
    return form


def _faults(configuration: TandemConfiguration, built_in_plugins: frozenset[str]) -> Iterator[Fault]:
    preemption = configuration.preemption
    if preemption.nomination_timeout < 0:
        detail = "must be zero or positive"
        yield invalid("preemption.nominationTimeout", preemption.nomination_timeout, detail)
    if preemption.breaker.rounds < 0:
        yield invalid("preemption.breaker.rounds", preemption.breaker.rounds, "must be non-negative")
    if preemption.breaker.window <= 0:
        yield invalid("preemption.breaker.window", preemption.breaker.window, "must be greater than zero")
    yield from _plugin_faults(configuration.plugins, built_in_plugins)
    for field in msgspec.structs.fields(Limits):
        low, high = LIMIT_RANGES[field.name]
        value = getattr(configuration.limits, field.name)
        yield from validators.in_range(f"limits.{field.encode_name}", value, low, high)
    longest = configuration.pod_max_in_unschedulable_pods_duration
    if longest < 0:
        yield invalid("podMaxInUnschedulablePodsDuration", longest, "must be zero or positive")


def _scope_faults(scopes: Mapping[str, LabelSelector], profiles: Sequence[str]) -> Iterator[Fault]:
    for name, selector in scopes.items():
        path = child("nodeScope", name)
        if name not in profiles:
            yield not_supported(path, name, profiles)
        if not selector.match_labels and not selector.match_expressions:
            yield required(path, "matchLabels or matchExpressions; a profile that may use all nodes is not named here")
        for index, part in enumerate(selector.match_expressions):
            yield from _selector_faults(LabelSelector(match_expressions=(part,)), f"{path}.matchExpressions[{index}]")
        for key, value in selector.match_labels.items():
            yield from _selector_faults(LabelSelector(match_labels={key: value}), f"{path}.matchLabels")


def _selector_faults(selector: LabelSelector, path: str) -> Iterator[Fault]:
    try:
        parse_selector(selector)
    except SelectorError as error:
        yield Fault(path, str(error))


def _plugin_faults(plugins: tuple[UserPlugin, ...], built_in_plugins: frozenset[str]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, plugin in enumerate(plugins):
        path = f"plugins[{index}]"
        if not plugin.name:
            yield required(f"{path}.name")
        elif plugin.name in seen:
            yield duplicate(f"{path}.name", plugin.name)
        elif plugin.name in built_in_plugins:
            yield invalid(f"{path}.name", plugin.name, "is the name of a built-in plugin")
        seen.add(plugin.name)
        if not plugin.path:
            yield required(f"{path}.path")
        elif not _CLASS_PATH.fullmatch(plugin.path):
            yield invalid(f"{path}.path", plugin.path, 'must have the form "module:Class"')
