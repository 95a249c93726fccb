"""Validation of a completed configuration: kube-scheduler 1.36's rules and texts, and our warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, Final

from scheduler.config import validators
from scheduler.config.default_plugins import GATE_OF
from scheduler.config.extender_validation import extender_faults
from scheduler.config.feature_gates import FeatureGates
from scheduler.config.field_faults import duplicate, invalid, required, too_many
from scheduler.config.points import EVERY_PLUGIN, PluginSet, Point
from scheduler.config.rendering import public_form
from scheduler.config.suggestions import did_you_mean
from scheduler.config.types import (
    API_VERSION,
    ClientConnection,
    KubeSchedulerConfiguration,
    LeaderElection,
    ProfileConfiguration,
)
from scheduler.errors import Fault

_PLACEMENTS_GATE: Final = "TopologyAwareWorkloadScheduling"

KUBE_SCHEDULER_LEASE: Final = ("kube-system", "kube-scheduler")
KUBE_SCHEDULER_PROFILE: Final = "default-scheduler"

MAX_PROFILES: Final = 100
"""Each takes 1 ms to make, and a running scheduler makes all of them in one step of its loop."""

MAX_FLOAT32: Final = 3.4028234663852886e38

REMOVED_PLUGINS: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Plugins that older configurations name and v1 refuses."""

# A renewal may be late by this factor of the retry period before the Lease is given up.
_RETRY_JITTER: Final = (12, 10)


def validate(configuration: KubeSchedulerConfiguration) -> tuple[Fault, ...]:
    """Every fault of a completed configuration; none if it can be used. Plugin args are left to the plugins."""
    return tuple(_faults(configuration))


BOTH_SCHEDULE = "where it runs too, both schedule the same pods"
"""The end of a warning that does not apply in shadow mode."""


def warnings(configuration: KubeSchedulerConfiguration, gates: FeatureGates) -> tuple[str, ...]:
    """Warnings about valid settings that are most likely mistakes."""
    return tuple(_warnings(configuration, gates))


def unknown_plugins(configuration: KubeSchedulerConfiguration, known: Collection[str]) -> tuple[str, ...]:
    """Warnings about arguments for plugins, and disabled plugins, that are not among the ``known``: kube-scheduler
    takes them, and they do nothing."""
    return tuple(_unknown_plugins(configuration, known))


def _unknown_plugins(configuration: KubeSchedulerConfiguration, known: Collection[str]) -> Iterator[str]:
    for index, profile in enumerate(configuration.profiles):
        named = [(f"pluginConfig[{place}]", config.name) for place, config in enumerate(profile.plugin_config)]
        sets = {
            "multiPoint": profile.plugins.multi_point,
            **{point.value: profile.plugins.at(point) for point in Point},
        }
        for name, plugin_set in sets.items():
            disabled = enumerate(plugin_set.disabled)
            named += [(f"plugins.{name}.disabled[{place}]", entry.name) for place, entry in disabled]
        for path, name in named:
            if name != EVERY_PLUGIN and name not in known:
                yield f'profiles[{index}].{path}: ignored: plugin "{name}" does not exist{did_you_mean(name, known)}'


def _faults(configuration: KubeSchedulerConfiguration) -> Iterator[Fault]:
    if configuration.parallelism <= 0:
        detail = "should be an integer value greater than zero"
        yield invalid("parallelism", configuration.parallelism, detail)
    yield from _leader_election_faults(configuration.leader_election)
    yield from _client_connection_faults(configuration.client_connection)
    yield from _profile_list_faults(configuration.profiles)
    yield from validators.percentage("percentageOfNodesToScore", configuration.percentage_of_nodes_to_score)
    initial, longest = configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
    if initial <= 0:
        yield invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid("podMaxBackoffSeconds", longest, detail)
    yield from extender_faults(configuration.extenders)


def _warnings(configuration: KubeSchedulerConfiguration, gates: FeatureGates) -> Iterator[str]:
    for index, profile in enumerate(configuration.profiles):
        if profile.scheduler_name == KUBE_SCHEDULER_PROFILE:
            yield (
                f'profiles[{index}].schedulerName: "{KUBE_SCHEDULER_PROFILE}" is kube-scheduler\'s own profile: '
                f"{BOTH_SCHEDULE}"
            )
        yield from _idle_plugins(profile, f"profiles[{index}].plugins", gates)
    if configuration.delay_cache_until_active and not configuration.leader_election.leader_elect:
        yield "delayCacheUntilActive: ignored: it has no meaning without leader election"


def _idle_plugins(profile: ProfileConfiguration, path: str, gates: FeatureGates) -> Iterator[str]:
    """Plugins that do nothing, and points at which nothing runs, since a feature gate is off."""
    has_placements = gates.enabled(_PLACEMENTS_GATE)
    for name in ("multiPoint", *(point.value for point in Point)):
        plugin_set = profile.plugins.multi_point if name == "multiPoint" else profile.plugins.at(Point(name))
        if name in ("placementGenerate", "placementScore"):
            if plugin_set.enabled and not has_placements:
                yield f"{path}.{name}.enabled: {_ignored(_PLACEMENTS_GATE)}"
            continue
        for index, entry in enumerate(plugin_set.enabled):
            gate = GATE_OF.get(entry.name)
            if gate == _PLACEMENTS_GATE and not has_placements:
                yield f"{path}.{name}.enabled[{index}]: {entry.name} is {_ignored(gate)}"
            elif gate == "GangScheduling" and not (gates.enabled(gate) or gates.enabled("GenericWorkload")):
                yield f"{path}.{name}.enabled[{index}]: {entry.name} is {_ignored('GenericWorkload')}"


def _ignored(gate: str) -> str:
    return f"ignored: the feature gate {gate} is alpha and off"


def _leader_election_faults(election: LeaderElection) -> Iterator[Fault]:
    if not election.leader_elect:
        return
    durations = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for field, duration in durations.items():
        if duration <= 0:
            yield invalid(f"leaderElection.{field}", duration, "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        detail = "must be greater than `RenewDeadline`"
        yield invalid("leaderElection.leaseDuration", election.renew_deadline, detail)
    times, parts = _RETRY_JITTER
    if election.renew_deadline * parts <= election.retry_period * times:
        detail = "must be greater than retryPeriod*JitterFactor"
        yield invalid("leaderElection.renewDeadline", election.renew_deadline, detail)
    for field, text in (
        ("resourceLock", election.resource_lock),
        ("resourceNamespace", election.resource_namespace),
        ("resourceName", election.resource_name),
    ):
        if not text:
            yield invalid(f"leaderElection.{field}", text, f"{field} is required")
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        yield invalid("leaderElection.resourceLock", election.resource_lock, detail)
    if (election.resource_namespace, election.resource_name) == KUBE_SCHEDULER_LEASE:
        detail = "the Lease kube-system/kube-scheduler is kube-scheduler's own: with it only one of the two would run"
        yield invalid("leaderElection.resourceName", election.resource_name, detail)


def _client_connection_faults(connection: ClientConnection) -> Iterator[Fault]:
    if abs(connection.qps) > MAX_FLOAT32:
        yield invalid("clientConnection.qps", connection.qps, f"must be between -{MAX_FLOAT32} and {MAX_FLOAT32}")
    if connection.burst < 0:
        yield invalid("clientConnection.burst", connection.burst, "must be non-negative")


def _profile_list_faults(profiles: tuple[ProfileConfiguration, ...]) -> Iterator[Fault]:
    if not profiles:
        yield required("profiles")
        return
    if len(profiles) > MAX_PROFILES:
        yield too_many("profiles", len(profiles), MAX_PROFILES)
        return
    names: set[str] = set()
    for index, profile in enumerate(profiles):
        path = f"profiles[{index}]"
        yield from _profile_faults(profile, path)
        # Two missing names are reported as missing, not as repeated.
        if profile.scheduler_name and profile.scheduler_name in names:
            yield duplicate(f"{path}.schedulerName", profile.scheduler_name)
        names.add(profile.scheduler_name)
    yield from _queue_sort_faults(profiles)


def _profile_faults(profile: ProfileConfiguration, path: str) -> Iterator[Fault]:
    if not profile.scheduler_name:
        yield required(f"{path}.schedulerName")
    yield from validators.percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
    for point in Point:
        for index, entry in enumerate(profile.plugins.at(point).enabled):
            if entry.name in REMOVED_PLUGINS:
                yield _removed_plugin(f"{path}.plugins.{point.value}.enabled[{index}]", entry.name)
    seen: Counter[str] = Counter()
    for index, config in enumerate(profile.plugin_config):
        place = f"{path}.pluginConfig[{index}]"
        if seen[config.name]:
            yield duplicate(place, config.name)
        seen[config.name] += 1
        if config.name in REMOVED_PLUGINS:
            yield _removed_plugin(place, config.name)


def _removed_plugin(path: str, name: str) -> Fault:
    detail = f'was invalid in version "{API_VERSION}" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    return invalid(path, name, detail)


def _queue_sort_faults(profiles: tuple[ProfileConfiguration, ...]) -> Iterator[Fault]:
    """One queue serves all profiles, so they must agree on its order."""
    first = profiles[0]
    canon = first.plugins.queue_sort
    if len(canon.enabled) > 1:
        detail = "only one queue sort plugin can be enabled"
        yield invalid("profiles[0].plugins.queueSort.Enabled", len(canon.enabled), detail)
    sorter = canon.enabled[0].name if canon.enabled else ""
    canon_args = first.args_of(sorter) if sorter else None
    for index, profile in enumerate(profiles[1:], start=1):
        mine = profile.plugins.queue_sort
        if mine != canon:
            detail = "must be the same for all profiles"
            yield invalid(f"profiles[{index}].plugins.queueSort", _set_form(mine), detail)
        for config in profile.plugin_config:
            if sorter and config.name == sorter and (config.args or {}) != (canon_args or {}):
                detail = "queueSort must be the same for all profiles"
                yield invalid(f"profiles[{index}].pluginConfig.args", config.args, detail)


def _set_form(plugin_set: PluginSet) -> dict[str, Any]:
    form = public_form(plugin_set)
    return form if isinstance(form, dict) else {}
