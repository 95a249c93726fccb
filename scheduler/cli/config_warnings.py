"""Warnings about what a configuration says in vain: valid settings that change no decision, though they look so."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.config.args import args_path
from scheduler.config.default_plugins import BUILT_IN_NAMES
from scheduler.config.loading import Configuration
from scheduler.config.validation import BOTH_SCHEDULE, unknown_plugins
from scheduler.framework.profile import Profile
from scheduler.user_plugins.checked import is_checked
from scheduler.user_plugins.loading import installed_names


def warnings_about_decisions(configuration: Configuration) -> tuple[str, ...]:
    """Those for a configuration that decides questions, or a recording, and runs nowhere: beside what another scheduler
    does to the same pods."""
    stated = [warning for warning in configuration.warnings if not warning.endswith(BOTH_SCHEDULE)]
    return (*stated, *names_of_no_plugin(configuration))


def names_of_no_plugin(configuration: Configuration) -> tuple[str, ...]:
    known = BUILT_IN_NAMES | {entry.name for entry in configuration.tandem.plugins}
    if not unknown_plugins(configuration.kube, known):
        return ()
    # All packages of this Python are searched, so only for a name that may be of one of them.
    return unknown_plugins(configuration.kube, known | installed_names())


def args_of_no_use(configuration: Configuration, profiles: Mapping[str, Profile]) -> tuple[str, ...]:
    """Warnings about args for plugins of users whose classes take none."""
    found: list[str] = []
    for index, stated in enumerate(configuration.kube.profiles):
        without = {one.name for one in profiles[stated.scheduler_name].plugins if is_checked(one) and one.Args is None}
        found += [
            f'{args_path(index, place)}: ignored: plugin "{config.name}" takes none, as its class has no Args'
            for place, config in enumerate(stated.plugin_config)
            if config.args and config.name in without
        ]
    return tuple(found)
