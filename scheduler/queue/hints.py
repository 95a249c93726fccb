"""Which plugins are registered for which event, and whether an event is worth another attempt.

Source: docs/kube-scheduler/queue.md §6.2, §6.7.

What a plugin's hint may look at: the pending pod (a PodInfo), and the event's object before and after (pods as PodInfo,
everything else as the object itself, None where absent). Pods that are alike but for their identity share an answer
(``pod_template.py``), so a hint may use a pod's name, UID or status only to recognise the pod itself as the event's
object, or an object as one that the pod controls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, KeysView, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from scheduler.cluster.devices.extended_resources import ClassesByResource
from scheduler.cluster.pod_info import PodInfo
from scheduler.errors import type_and_message
from scheduler.framework.events import (
    DEFAULT_REGISTRATIONS,
    Action,
    ClusterEvent,
    EventObject,
    EventRegistration,
    Facet,
    Hint,
    HintFunction,
    HintKeys,
    Resource,
    always_queue,
)
from scheduler.framework.plugin import (
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
)
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.queued_pod import QueuedPod

Observed = EventObject | None
"""An event's object before or after it; None where absent."""

EXTENDER = "Extender"
"""The pseudo plugin that stands for all extenders among a pod's rejectors."""


class Listener(Struct, frozen=True):
    """What one plugin registered for one event. ``facets``: None if some hint has none; ``keys``: of an only hint."""

    hints: tuple[HintFunction, ...]
    facets: tuple[Facet, ...] | None
    keys: HintKeys | None

    def look_of(self, old: Observed, new: Observed) -> Hashable | None:
        """What the hints read of the event: equal looks get equal answers, if the events are not about the waiting pod
        itself. None: like no other, as where a facet raises or returns what can't be hashed; then the hint is
        called."""
        if self.facets is None:
            return None
        try:
            look = tuple([(old is not None and facet(old), new is not None and facet(new)) for facet in self.facets])
            hash(look)
        except Exception:  # noqa: BLE001 - a plugin's; without a look its hint is asked, which is always right
            return None
        return look


Interest = Mapping[str, Listener]
"""Plugin → what it registered for one event."""

_NO_INTEREST: Interest = {}
_NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
_NODE_TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)


class Strategy(Enum):
    """What to do with a waiting pod after an event."""

    SKIP = "skip"
    AFTER_BACKOFF = "after back-off"
    IMMEDIATELY = "immediately"


def registrations_of(
    plugins: Iterable[Plugin], has_extenders: bool, classes: ClassesByResource | None = None
) -> dict[str, tuple[EventRegistration, ...]]:
    """What a profile's plugins registered, by plugin, completed by what kube-scheduler 1.36 adds.

    Only plugins that can reject a pod take part. One that is registered for new nodes always gets changed
    taints: a node often gets its first useful taints only after it was added (kubernetes issue 109437).
    ``classes``: what hints read of DeviceClasses; without, there are none.
    """
    classes = ClassesByResource() if classes is None else classes
    registered: dict[str, tuple[EventRegistration, ...]] = {}
    for plugin in plugins:
        if isinstance(plugin, PreEnqueuePlugin | PreFilterPlugin | FilterPlugin | ReservePlugin | PermitPlugin):
            registered[plugin.name] = _with_taints(tuple([one.bound(classes) for one in plugin.events()]))
    if has_extenders:
        registered[EXTENDER] = DEFAULT_REGISTRATIONS
    return registered


def _with_taints(registrations: tuple[EventRegistration, ...]) -> tuple[EventRegistration, ...]:
    hears_of_nodes = any(_covers(registration.event, _NODE_ADD) for registration in registrations)
    hears_of_taints = any(_covers(registration.event, _NODE_TAINT) for registration in registrations)
    if hears_of_nodes and not hears_of_taints:
        return (*registrations, EventRegistration(_NODE_TAINT, always_queue))
    return registrations


def _covers(registered: ClusterEvent, wanted: ClusterEvent) -> bool:
    return registered.resource in (wanted.resource, Resource.ANY) and bool(registered.action & wanted.action)


class HintMap:
    """The registrations of every profile. ``profiles``: scheduler name → plugin → registrations."""

    def __init__(
        self,
        profiles: Mapping[str, Mapping[str, Sequence[EventRegistration]]],
        facts: QueueMetrics,
        stopwatch: Callable[[], float] | None = None,
    ) -> None:
        self._profiles = {name: {plugin: tuple(found) for plugin, found in of.items()} for name, of in profiles.items()}
        self._facts = facts
        self._stopwatch = stopwatch
        self._interests: dict[tuple[Resource, Action], dict[str, Interest]] = {}

    def interest(self, event: ClusterEvent) -> Mapping[str, Interest]:
        """Profile → plugin → what it registered for this event; profiles and plugins that don't care are absent."""
        known = self._interests.get((event.resource, event.action))
        if known is None:
            known = {}
            for profile, plugins in self._profiles.items():
                wanted = {
                    plugin: _listener([one for one in registrations if one.event.matches(event)])
                    for plugin, registrations in plugins.items()
                }
                wanted = {plugin: listener for plugin, listener in wanted.items() if listener.hints}
                if wanted:
                    known[profile] = wanted
            self._interests[event.resource, event.action] = known
        return known

    def is_of_interest(self, event: ClusterEvent) -> bool:
        return event.is_wildcard or bool(self.interest(event))

    def knows(self, profile: str) -> bool:
        return profile in self._profiles

    def knows_all(self, profiles: KeysView[str]) -> bool:
        return profiles <= self._profiles.keys()

    def events_of(self, profile: str, plugin: str) -> tuple[ClusterEvent, ...]:
        """What this plugin registered; nothing for a plugin that the profile hasn't got."""
        return tuple(one.event for one in self._profiles.get(profile, {}).get(plugin, ()))

    def strategy(self, record: QueuedPod, event: ClusterEvent, old: Observed, new: Observed) -> Strategy:
        """Whether the event is worth another attempt at this pod.

        One Queue among several rejectors will do: an event seldom helps with all reasons at once, and the attempt finds
        the rest. The word of a plugin that the pod waits for at its request (Pending) skips the back-off, so as long
        as there is such a plugin the others are asked too.
        """
        rejectors = record.rejectors
        if not rejectors:
            return Strategy.AFTER_BACKOFF
        if event.is_wildcard:
            is_for_another = new is not None and not (isinstance(new, PodInfo) and new.uid == record.uid)
            return Strategy.SKIP if is_for_another else Strategy.AFTER_BACKOFF
        if record.profile not in self._profiles:
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        pending = record.pending_plugins
        for plugin, listener in self.interest(event).get(record.profile, _NO_INTEREST).items():
            if plugin not in rejectors:
                continue
            for hint in listener.hints:
                if self._ask(plugin, hint, record.info, event, old, new) is Hint.SKIP:
                    continue
                if plugin in pending:
                    return Strategy.IMMEDIATELY
                if not pending:
                    return Strategy.AFTER_BACKOFF
                strategy = Strategy.AFTER_BACKOFF
        return strategy

    def would_wake(
        self,
        plugin: str,
        listener: Listener,
        pod: PodInfo,
        event: ClusterEvent,
        old: Observed,
        new: Observed,
    ) -> bool:
        """Whether this plugin, were it the only rejector, would have the pod tried again."""
        return any(self._ask(plugin, hint, pod, event, old, new) is not Hint.SKIP for hint in listener.hints)

    def _ask(
        self,
        plugin: str,
        hint: HintFunction,
        pod: PodInfo,
        event: ClusterEvent,
        old: Observed,
        new: Observed,
    ) -> Hint:
        """One plugin's opinion. A hint that raises counts as Queue: better one attempt too many than a lost pod."""
        stopwatch = self._stopwatch
        begun = stopwatch() if stopwatch is not None else 0.0
        try:
            answer = hint(pod, old, new)
            outcome = answer.value
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises must not stop the queue
            answer, outcome = Hint.QUEUE, "Error"
            self._facts.problem(
                f"QueueingHintFn returns error: {plugin}, {event.label}, {pod.key}: {type_and_message(error)}"
            )
        if stopwatch is not None:
            self._facts.hint_took(plugin, event.label, outcome, stopwatch() - begun)
        return answer


def _listener(registrations: Sequence[EventRegistration]) -> Listener:
    facets = [one.facet for one in registrations if one.facet is not None]
    return Listener(
        tuple([one.hint for one in registrations]),
        tuple(facets) if len(facets) == len(registrations) else None,
        registrations[0].keys if len(registrations) == 1 else None,
    )
