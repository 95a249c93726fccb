"""Checks queueing hints: they return a Hint, never raise, and have equal answers for equivalent pods and events.

The queue calls a hint once for all waiting pods that differ only in their identity. So a hint may use a pod's name or
UID only to recognise the pod itself as the object of the event. And if a registration has a facet, the hint is called
once for all events with equal facets, so their answers must be equal; and if it has keys, not for events without one
that the pod wants, so their answer must be QueueSkip.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import Facet, Hint, HintKeys, Resource
from scheduler.framework.plugin import Plugin
from scheduler.objects.kinds import kind_of
from scheduler.testing.clusters import Cluster, World, twin
from scheduler.testing.violations import ContractViolation, asked
from scheduler.user_plugins import answers

Change = tuple[Any, Any]
"""The event's object before and after; None where absent."""

_PODS_PAIRED = 8
_PODS = (Resource.POD, Resource.ASSIGNED_POD, Resource.UNSCHEDULED_POD)


def check_hints(plugin: Plugin, cluster: Cluster) -> None:
    """Raises ContractViolation for a queueing hint that breaks the rule ``hints`` of ``check_contract``."""
    world = World(cluster)
    registrations = asked(plugin, "events", plugin.events, answers.check_events)
    for registration in registrations:
        for pod in world.pending:
            double = PodInfo(twin(pod.pod, f"{pod.name}-twin"))
            known: dict[Hashable, Hint] = {}
            for old, new in _changes(registration.event.resource, world, cluster):
                one = _hint(plugin, registration.hint, pod, old, new)
                if one is not _hint(plugin, registration.hint, double, old, new):
                    message = f"the hint for {registration.event.label} depends on the name or UID of pod {pod.name}"
                    raise ContractViolation(plugin.name, "hints", message)
                if registration.facet is not None:
                    look = (
                        old is None,
                        _facet(plugin, registration.facet, old),
                        _facet(plugin, registration.facet, new),
                    )
                    if known.setdefault((new is None, look), one) is not one:
                        message = (
                            f"the hint for {registration.event.label} about pod {pod.name} "
                            f"depends on more than its facet shows: two events with the facets {look} differ"
                        )
                        raise ContractViolation(plugin.name, "hints", message)
                if registration.keys is not None and one is not Hint.SKIP:
                    _check_keys(plugin, registration.keys, pod, old, new)


def _check_keys(plugin: Plugin, keys: HintKeys, pod: PodInfo, old: Any, new: Any) -> None:
    """Raises ContractViolation unless the keys lead from the event to the pod that its hint would queue."""
    things = [thing for thing in (old, new) if thing is not None]
    wanted = asked(plugin, f"the keys of pod {pod.name}", lambda: keys.wanted(pod))
    offered = [asked(plugin, "the keys of an object", partial(keys.offered, thing)) for thing in things]
    if wanted is None or None in offered or pod.uid in [thing.uid for thing in things]:
        return

    def lead() -> bool:
        return any(all(not found.isdisjoint(keys) for keys in condition) for condition in wanted)

    found = asked(plugin, "the keys of an object", lambda: {key for each in offered for key in each or ()})
    if not asked(plugin, f"the keys of pod {pod.name}", lead):
        message = (
            f"the hint would queue pod {pod.name} for an event that offers none of its keys: {sorted(map(str, found))}"
        )
        raise ContractViolation(plugin.name, "hints", message)


def _facet(plugin: Plugin, facet: Facet, thing: Any) -> Hashable:
    if thing is None:
        return None
    found: Hashable = asked(plugin, "a facet", lambda: facet(thing), answers.check_fragment)
    return found


def _hint(plugin: Plugin, hint: Any, pod: PodInfo, old: Any, new: Any) -> Hint:
    what = f"a hint about pod {pod.name}"
    found: Hint = asked(plugin, what, lambda: hint(pod, old, new), answers.check_hint)
    return found


def _changes(resource: Resource, world: World, cluster: Cluster) -> Iterator[Change]:
    if resource in (Resource.NODE, Resource.ANY):
        nodes = world.nodes
        yield from ((None, node) for node in nodes)
        yield from ((node, None) for node in nodes)
        yield from ((old, new) for old in nodes for new in nodes)
    if resource in _PODS or resource is Resource.ANY:
        others: list[PodInfo] = [*world.cache.pods.values()]
        yield from ((None, other) for other in others)
        yield from ((other, None) for other in others)
        yield from ((old, new) for old in others[:_PODS_PAIRED] for new in others[:_PODS_PAIRED])
    named = resource.value.rpartition("/")[2]
    for thing in cluster.objects:
        if resource is Resource.ANY or kind_of(thing).entry.name == named:
            yield None, thing
            yield thing, thing
            yield thing, None
