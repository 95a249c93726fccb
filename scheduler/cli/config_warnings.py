"""Warnings about what a configuration says in vain: valid settings that change no decision, though they look so."""

from __future__ import annotations

from scheduler.config.default_plugins import BUILT_IN_NAMES
from scheduler.config.loading import Configuration
from scheduler.config.validation import BOTH_SCHEDULE, unknown_plugins
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
