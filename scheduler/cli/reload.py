"""Separates the settings that a running scheduler can apply from those that need a restart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from scheduler.compose import engine_settings, with_arguments
from scheduler.config import tandem
from scheduler.config.loading import Configuration
from scheduler.config.rendering import configuration_document
from scheduler.controller.reload import NewConfiguration
from scheduler.controller.write.client import ApiClient
from scheduler.engine.engine import Engine
from scheduler.engine.engine_settings import EngineSettings
from scheduler.errors import ConfigurationError, Fault
from scheduler.framework.plugin import QueueSortPlugin
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.user_plugins.calls import background_calls, plugin_calls
from scheduler.user_plugins.checked import written_type

Replace = Callable[[Configuration, Mapping[str, Profile], EngineSettings, Now], bool]
"""Puts profiles and settings in force, which were made from the configuration; False: not possible now."""

AT_START_ONLY: Final[tuple[tuple[str, Callable[[Configuration], object]], ...]] = (
    ("leaderElection", lambda one: one.kube.leader_election),
    ("clientConnection", lambda one: one.kube.client_connection),
    ("delayCacheUntilActive", lambda one: one.kube.delay_cache_until_active),
    ("limits", lambda one: one.tandem.limits),
)
"""Settings whose change is valid, and takes effect at the next start."""


def new_configuration(
    engine: Engine,
    started_with: Configuration,
    configuration: Configuration,
    profiles: dict[str, Profile],
    make_client: Callable[[], ApiClient],
    warnings: tuple[str, ...],
    replace: Replace,
) -> NewConfiguration:
    """The new configuration. Raises ConfigurationError for a change that would mix old and new decisions."""
    faults = []
    if configuration.kube.extenders != started_with.kube.extenders:
        faults.append(Fault("extenders", "can't change while running: start again"))
    if configuration.tandem.groups != started_with.tandem.groups:
        faults.append(Fault("groups", "can't change while running: start again"))
    sort, before = (next(iter(each.values())).queue_sort for each in (profiles, engine.profiles))
    if _order_of(sort) != _order_of(before):
        faults.append(Fault("profiles", f"queueSort {sort.name} can't take over while running: start again"))
    if faults:
        raise ConfigurationError(faults)
    waiting = tuple(
        f"{name} takes effect at the next start"
        for name, part in AT_START_ONLY
        if part(configuration) != part(started_with)
    )
    settings = engine_settings(configuration)

    def swap(now: Now) -> bool:
        return replace(configuration, profiles, settings, now)

    return NewConfiguration(
        swap,
        configuration_document(with_arguments(configuration), with_keys=False),
        plugin_calls(profiles, make_client),
        background_calls(profiles, make_client),
        warnings + waiting,
        tandem.configuration_document(configuration.tandem),
        lambda: _abandoned(engine, profiles.keys()),
    )


def _order_of(sort: QueueSortPlugin) -> tuple[object, ...]:
    """What the order of the queue comes from: the plugin of the start goes on sorting."""
    # A plugin that does not call the constructor of its base has no args.
    return written_type(sort), getattr(sort, "args", None)


def _abandoned(engine: Engine, names: Collection[str]) -> dict[str, int]:
    """The present profiles that are not among ``names``, with the number of pods that wait under theirs."""
    waiting = dict.fromkeys([name for name in engine.profiles if name not in names], 0)
    for info in engine.known_pods if waiting else ():
        if not info.pod.node_name and info.pod.spec.scheduler_name in waiting:
            waiting[info.pod.spec.scheduler_name] += 1
    return waiting
