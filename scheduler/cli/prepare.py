"""Checks a whole configuration before anything starts, and reports all of its faults at once."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from scheduler.cli.config_warnings import args_of_no_use, names_of_no_plugin
from scheduler.cli.flags import StatedFlags
from scheduler.cli.input_file import read_input
from scheduler.cli.shell_settings import leader_election_of, logs_of, operator_of, record_of, serving_of, shell_settings
from scheduler.compose import all_plugins, build_profiles, with_arguments
from scheduler.config.feature_gates import FeatureGates, parse_feature_gates
from scheduler.config.loading import Configuration, examine, load, without_followers, write_config
from scheduler.config.names import OWN_NAMESPACE
from scheduler.config.positions import placed
from scheduler.config.types import ClientConnection, LeaderElection
from scheduler.config.validation import BOTH_SCHEDULE, MAX_PROFILES
from scheduler.controller.calls.extender_tls import ExtenderTLS, extender_contexts, is_unverified
from scheduler.controller.settings import ShellSettings
from scheduler.errors import ConfigurationError, Fault
from scheduler.framework.profile import Profile
from scheduler.user_plugins.loading import PluginClasses
from scheduler.user_plugins.sources import PluginSources, plugin_folder

SERVICE_ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Prepared(Struct, frozen=True):
    """The checked configuration and the parts built from it, before anything starts."""

    configuration: Configuration
    profiles: Mapping[str, Profile]
    settings: ShellSettings
    extender_ssl: Mapping[int, ExtenderTLS]
    warnings: tuple[str, ...]
    plugin_classes: PluginClasses


def prepare(flags: StatedFlags) -> Prepared:
    """Read and check everything. Raises ConfigurationError with the faults of the flags, the file and the plugins'
    args."""
    faults: list[Fault] = []
    gates = FeatureGates()
    try:
        gates = parse_feature_gates(flags.get("feature-gates", ()))
    except ConfigurationError as error:
        faults += error.faults
    serving = serving_of(flags, faults)
    logs = logs_of(flags, faults)
    record = record_of(flags, faults)
    configuration: Configuration | None = None
    operator = operator_of(flags, faults)
    text: bytes | None = None
    stated_faults: tuple[Fault, ...] = ()
    try:
        text = read_configuration(flags.get("config", ""))
        configuration, stated_faults = examine_with_flags(text, flags, gates)
    except ConfigurationError as error:
        stated_faults = error.faults
    faults += _placed(stated_faults, text, flags)
    classes = _plugin_classes(flags, faults)
    if configuration is None or len(configuration.kube.profiles) > MAX_PROFILES:
        raise ConfigurationError(faults)
    if stated_faults:
        # To find further faults, without the selectors, which may be among those that can't be parsed.
        configuration = replace(configuration, tandem=replace(configuration.tandem, node_scope={}))
    found: list[Fault] = []
    profiles, contexts = checked_parts(configuration, classes, found)
    faults += _placed(without_followers(tuple(found), stated_faults), text, flags)
    if faults:
        raise ConfigurationError(faults)
    settings = replace(
        shell_settings(configuration, flags, serving, logs),
        operator=operator,
        record=record,
        configuration_text=text or b"",
    )
    warnings = flags.warnings + gates.warnings + warnings_of(configuration, profiles)
    if serving.port and serving.certificate is None and serving.access is not None:
        warnings += ("the pages, and the tokens of those who ask for them, go over the network in plain text",)
    if settings.is_shadow:
        warnings = tuple([warning for warning in warnings if not warning.endswith(BOTH_SCHEDULE)])
    return Prepared(configuration, profiles, settings, contexts, warnings, classes)


def _placed(faults: tuple[Fault, ...], text: bytes | None, flags: StatedFlags) -> tuple[Fault, ...]:
    """The faults with their lines and columns in the configuration file, if there is one."""
    if text is None:
        return faults
    name: str = flags.get("config", "")
    return placed(faults, text.decode(errors="replace"), "standard input" if name == "-" else name)


def load_with_flags(text: bytes | None, flags: StatedFlags, gates: FeatureGates) -> Configuration:
    """The text's configuration, overridden by the flags. Raises ConfigurationError."""
    return load(text, own_namespace=own_namespace(), gates=gates, adjust=lambda stated: with_flags(stated, flags))


def examine_with_flags(
    text: bytes | None, flags: StatedFlags, gates: FeatureGates
) -> tuple[Configuration, tuple[Fault, ...]]:
    """As ``load_with_flags``, with the faults beside the configuration. Raises ConfigurationError for a text that
    can't be read at all."""
    return examine(text, own_namespace=own_namespace(), gates=gates, adjust=lambda stated: with_flags(stated, flags))


def warnings_of(configuration: Configuration, profiles: Mapping[str, Profile]) -> tuple[str, ...]:
    """Warnings about valid settings that are probably mistakes. ``profiles``: made from the configuration."""
    unverified = tuple(
        f"extenders[{number}]: HTTPS to {extender.url_prefix} is not verified, since no certificate authority is stated"
        for number, extender in enumerate(configuration.kube.extenders)
        if extender.enable_https and is_unverified(extender)
    )
    useless = names_of_no_plugin(configuration) + args_of_no_use(configuration, profiles)
    return configuration.warnings + useless + unverified


def _plugin_classes(flags: StatedFlags, faults: list[Fault]) -> PluginClasses:
    file: str = flags.get("config", "")
    try:
        folder = plugin_folder(flags.get("plugin-folder", ""), "" if file == "-" else file)
    except ConfigurationError as error:
        faults += error.faults
        return PluginClasses()
    return PluginClasses(PluginSources(folder))


def checked_parts(
    configuration: Configuration, classes: PluginClasses, faults: list[Fault]
) -> tuple[dict[str, Profile], Mapping[int, ExtenderTLS]]:
    """The parts whose faults only building shows: plugin args, the Lease, extenders' certificates. Adds to
    ``faults``."""
    profiles: dict[str, Profile] = {}
    contexts: Mapping[int, ExtenderTLS] = {}
    try:
        profiles = build_profiles(configuration, all_plugins(configuration, classes))
    except ConfigurationError as error:
        faults += error.faults
    try:
        contexts = extender_contexts(configuration.kube.extenders)
    except ConfigurationError as error:
        faults += error.faults
    try:
        leader_election_of(configuration.kube.leader_election).check()
    except ConfigurationError as error:
        faults += error.faults
    return profiles, contexts


def read_configuration(path: str) -> bytes | None:
    """A configuration file's text, standard input's for ``-``, None for "". Raises ConfigurationError."""
    return read_input(path) if path else None


def write_configuration(configuration: Configuration, target: Path) -> None:
    """Write the completed configuration. Raises ConfigurationError if the file can't be written."""
    text = write_config(replace(configuration, kube=with_arguments(configuration))).encode()
    try:
        # It may hold extenders' keys. An existing file gets the mode too, before anything is written to it.
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, 0o600)
                os.ftruncate(descriptor, 0)
            file.write(text)
    except OSError as error:
        raise ConfigurationError([Fault("", f"open {target}: {error.strerror or error}")]) from error


def own_namespace(file: Path = SERVICE_ACCOUNT_NAMESPACE) -> str:
    """The default namespace of the Lease: the one that the pod runs in."""
    try:
        return file.read_text().strip() or OWN_NAMESPACE
    except OSError:
        return OWN_NAMESPACE


# --- flags over the file ----------------------------------------------------------------------------------------------


def with_flags(configuration: Configuration, flags: StatedFlags) -> Configuration:
    """The configuration with the flags applied. Only ``--leader-elect*`` and the time in the pool override a file."""
    kube = configuration.kube
    kube = msgspec.structs.replace(
        kube,
        leader_election=_with_leader_flags(kube.leader_election, flags),
        client_connection=_with_connection_flags(kube.client_connection, flags),
    )
    tandem = configuration.tandem
    longest = flags.get("pod-max-in-unschedulable-pods-duration")
    if longest is not None:
        tandem = msgspec.structs.replace(tandem, pod_max_in_unschedulable_pods_duration=longest)
    return msgspec.structs.replace(configuration, kube=kube, tandem=tandem)


def _with_leader_flags(stated: LeaderElection, flags: StatedFlags) -> LeaderElection:
    fields = {
        "leader_elect": "leader-elect",
        "lease_duration": "leader-elect-lease-duration",
        "renew_deadline": "leader-elect-renew-deadline",
        "retry_period": "leader-elect-retry-period",
        "resource_lock": "leader-elect-resource-lock",
        "resource_name": "leader-elect-resource-name",
        "resource_namespace": "leader-elect-resource-namespace",
    }
    return msgspec.structs.replace(
        stated, **{field: flags.get(name) for field, name in fields.items() if name in flags}
    )


def _with_connection_flags(stated: ClientConnection, flags: StatedFlags) -> ClientConnection:
    changes: dict[str, object] = {}
    if not stated.kubeconfig:
        changes["kubeconfig"] = flags.get("kubeconfig", "")
    if not flags.get("config"):
        changes["qps"] = flags.get("kube-api-qps", stated.qps)
        changes["burst"] = flags.get("kube-api-burst", stated.burst)
    return msgspec.structs.replace(stated, **changes)
