"""The composition root: makes an engine from a configuration. The one module that imports all parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Final

import msgspec

from scheduler.cluster.groups.coscheduling import coscheduling
from scheduler.cluster.groups.group import GroupApi
from scheduler.cluster.groups.v1alpha2 import v1alpha2
from scheduler.config.default_plugins import BUILT_IN_NAMES, GATE_OF
from scheduler.config.loading import Configuration
from scheduler.config.plugin_sets import expand
from scheduler.config.points import PluginSet, Point
from scheduler.config.rendering import public_form
from scheduler.config.types import (
    API_VERSION,
    Extender,
    KubeSchedulerConfiguration,
    PluginConfig,
    ProfileConfiguration,
)
from scheduler.engine.engine import Engine
from scheduler.engine.engine_settings import EngineSettings
from scheduler.errors import ConfigurationError, Fault
from scheduler.extenders.extender import build_extenders
from scheduler.framework.profile import Profile, Registry, Scope, build_profile, implementing
from scheduler.messages.now import Now
from scheduler.objects.selectors import parse_selector
from scheduler.plugins.node_scope import NodeScope
from scheduler.plugins.registry import registry, switched_off
from scheduler.plugins.resources.node_resources_fit import NodeResourcesFit
from scheduler.queue.queue_settings import QueueSettings
from scheduler.user_plugins.loading import PluginClasses, load_user_plugins

PLACEMENTS_GATE = "TopologyAwareWorkloadScheduling"

WAKING_STEPS_A_SLICE: Final = 50
"""Asked groups and moved pods: 13 us each, some 50 with long node affinities; so a slice takes 1 to 3 ms."""


def build_profiles(configuration: Configuration, plugins: Registry | None = None) -> dict[str, Profile]:
    """Every profile by its scheduler name. Raises ConfigurationError with the faults of all of them.

    ``plugins`` None: the built-in ones and those of installed packages that the configuration or a profile names.
    """
    known = all_plugins(configuration, PluginClasses()) if plugins is None else plugins
    known = {**switched_off(configuration.plugin_gates), **known}
    has_placements = configuration.gates.enabled(PLACEMENTS_GATE)
    profiles: dict[str, Profile] = {}
    faults: list[Fault] = []
    ignored = ignored_by_scheduler(configuration.kube.extenders)
    for index, profile in enumerate(configuration.kube.profiles):
        try:
            stated = leaving_out(profile, ignored)
            active = stated if has_placements else without_placements(stated)
            if active is not stated:
                # What is ignored is checked all the same, as by kube-scheduler.
                whole = expand(stated.plugins, implementing(known), known.keys(), profile.scheduler_name)
                faults += [Fault(f"profiles[{index}]", fault.message) for fault in whole.faults]
            scope = scope_of(profile, configuration)
            made = build_profile(active, known, index, scope, tries_placements=has_placements)
            profiles[profile.scheduler_name] = made
        except ConfigurationError as error:
            faults.extend(error.faults)
    faults += _queue_sort_faults(configuration.kube.profiles, profiles)
    if faults:
        raise ConfigurationError(dict.fromkeys(faults))
    return profiles


def _queue_sort_faults(stated: tuple[ProfileConfiguration, ...], made: Mapping[str, Profile]) -> Iterator[Fault]:
    """One queue serves all profiles: also where multiPoint names the plugin that sorts it."""
    sorts = [(each, made[each.scheduler_name].queue_sort.name) for each in stated if each.scheduler_name in made]
    for index, (profile, name) in enumerate(sorts):
        first, first_name = sorts[0]
        what = f'profile "{profile.scheduler_name}"'
        if name != first_name:
            yield Fault(
                f"profiles[{index}]", f'different queue sort plugins for {what}: "{name}", first: "{first_name}"'
            )
        elif profile.args_of(name) != first.args_of(name):
            yield Fault(f"profiles[{index}]", f"different queue sort plugin args for {what}")


def scope_of(profile: ProfileConfiguration, configuration: Configuration) -> Scope | None:
    """The nodes that the profile may use; None: all of them."""
    written = configuration.tandem.node_scope.get(profile.scheduler_name)
    if written is None:
        return None
    selector = parse_selector(written)
    return Scope(selector, NodeScope(selector))


def without_placements(profile: ProfileConfiguration) -> ProfileConfiguration:
    """The profile without what it says of placements of groups, which is ignored while the gate is off."""
    plugins = profile.plugins
    enabled = tuple(entry for entry in plugins.multi_point.enabled if GATE_OF.get(entry.name) != PLACEMENTS_GATE)
    others = msgspec.structs.replace(plugins.multi_point, enabled=enabled)
    plugins = msgspec.structs.replace(
        plugins, placement_generate=PluginSet(), placement_score=PluginSet(), multi_point=others
    )
    return msgspec.structs.replace(profile, plugins=plugins)


def group_apis(configuration: Configuration) -> tuple[GroupApi, ...]:
    """The APIs that name groups of pods, as switched on; the first that names one for a pod counts."""
    gates = configuration.gates
    found: list[GroupApi] = []
    if gates.enabled("GenericWorkload"):
        constraints, preemption = gates.enabled(PLACEMENTS_GATE), gates.enabled("WorkloadAwarePreemption")
        claims = gates.enabled("DRAWorkloadResourceClaims")
        found.append(v1alpha2(reads_constraints=constraints, preempts_as_one=preemption, has_claims=claims))
    if configuration.tandem.groups.coscheduling.enabled:
        found.append(coscheduling())
    return tuple(found)


def ignored_by_scheduler(extenders: Iterable[Extender]) -> tuple[str, ...]:
    """The resources that extenders account for instead of the scheduler, in the order of the configuration."""
    managed = (resource for extender in extenders for resource in extender.managed_resources)
    return tuple(dict.fromkeys(resource.name for resource in managed if resource.ignored_by_scheduler))


def leaving_out(profile: ProfileConfiguration, resources: tuple[str, ...]) -> ProfileConfiguration:
    """The profile with these resources added to those that NodeResourcesFit ignores by the user's configuration;
    kube-scheduler drops the latter here."""
    if not resources:
        return profile
    name = NodeResourcesFit.name
    args = profile.args_of(name) or {}
    stated = args.get("ignoredResources") or []
    if not isinstance(stated, list):
        return profile
    merged = {**args, "ignoredResources": [*stated, *(each for each in resources if each not in stated)]}
    configured = {config.name: config for config in profile.plugin_config} | {name: PluginConfig(name, merged)}
    return msgspec.structs.replace(profile, plugin_config=tuple(configured.values()))


def with_arguments(configuration: Configuration) -> KubeSchedulerConfiguration:
    """The configuration as kube-scheduler shows it: with the arguments of each built-in plugin of a profile, its own
    defaults where none are stated."""
    known = registry(gates=configuration.plugin_gates)
    profiles = tuple(
        msgspec.structs.replace(profile, plugin_config=tuple(_arguments(profile, known)))
        for profile in configuration.kube.profiles
    )
    return msgspec.structs.replace(configuration.kube, profiles=profiles)


def _arguments(profile: ProfileConfiguration, known: Registry) -> Iterator[PluginConfig]:
    """Those that are stated in their order, then the others by the names of their plugins."""
    sets = [profile.plugins.multi_point, *(profile.plugins.at(point) for point in Point)]
    enabled = {entry.name for plugins in sets for entry in plugins.enabled}
    stated = {config.name: config for config in profile.plugin_config}
    for name in (*stated, *sorted(enabled - stated.keys())):
        args = known[name].Args if name in known else None
        if args is not None:
            head = {"kind": f"{name}Args", "apiVersion": API_VERSION}
            yield PluginConfig(name, head | public_form(args()) | (profile.args_of(name) or {}))
        elif name in stated:
            yield stated[name]


def all_plugins(configuration: Configuration, classes: PluginClasses) -> Registry:
    """The built-in plugins and the user's. Raises ConfigurationError with every plugin that can't be loaded."""
    built_in = registry(gates=configuration.plugin_gates)
    enabled = [profile.plugins for profile in configuration.kube.profiles]
    return {**built_in, **load_user_plugins(configuration.tandem.plugins, enabled, BUILT_IN_NAMES, classes)}


def build_engine(
    configuration: Configuration,
    *,
    started: Now,
    seed: int | None = None,
    stopwatch: Callable[[], float] = time.perf_counter,
    profiles: Mapping[str, Profile] | None = None,
) -> Engine:
    """An engine as configured. ``seed`` None draws one from the system; one seed replays one run.

    Raises ConfigurationError.
    """
    return Engine(
        build_profiles(configuration) if profiles is None else profiles,
        started=started,
        rng=Random(seed),
        stopwatch=stopwatch,
        extenders=build_extenders(configuration.kube.extenders),
        settings=engine_settings(configuration),
    )


def engine_settings(configuration: Configuration) -> EngineSettings:
    """The engine's settings from the configuration, without its profiles and extenders."""
    kube, tandem = configuration.kube, configuration.tandem
    return EngineSettings(
        queue=QueueSettings(
            initial_backoff=kube.pod_initial_backoff_seconds,
            maximum_backoff=kube.pod_max_backoff_seconds,
            maximum_in_pool=tandem.pod_max_in_unschedulable_pods_duration.seconds,
            pops_from_backoff=configuration.gates.enabled("SchedulerPopFromBackoffQ"),
            steps_a_slice=WAKING_STEPS_A_SLICE,
        ),
        percentage_of_nodes_to_score=kube.percentage_of_nodes_to_score,
        tandem=tandem,
        announces_nodes=configuration.gates.enabled("NominatedNodeNameForExpectation"),
        group_apis=group_apis(configuration),
    )
