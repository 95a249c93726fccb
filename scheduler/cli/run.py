"""``tandem run``: from flags and a configuration file to a running scheduler.

``prepare`` does everything that can go wrong by somebody's configuration, so that all of its faults are told at once,
before anything is started.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from socket import gethostname
from typing import Final

import msgspec
import structlog

from scheduler.cli.connection import is_loopback
from scheduler.cli.flags import StatedFlags
from scheduler.cli.reload import new_configuration
from scheduler.compose import build_engine, build_profiles
from scheduler.config.defaults import OWN_NAMESPACE
from scheduler.config.durations import Duration
from scheduler.config.feature_gates import FeatureGates, parse_feature_gates
from scheduler.config.loading import Configuration, load, write_config
from scheduler.config.rendering import configuration_document
from scheduler.config.types import ClientConnection, LeaderElection
from scheduler.config.validation import BOTH_SCHEDULE
from scheduler.controller.calls.extender_tls import ExtenderTLS, extender_contexts, is_unverified
from scheduler.controller.parts import Parts
from scheduler.controller.reload import NewConfiguration
from scheduler.controller.report.engine_gauges import GaugesOfEngine
from scheduler.controller.report.logs import configure_logs
from scheduler.controller.run import run_blocking
from scheduler.controller.serve import pages
from scheduler.controller.serve.tls import ServingCertificate, TlsSettings
from scheduler.controller.settings import (
    RECONCILE_SECONDS,
    AccessSettings,
    ConnectionSettings,
    LeaderElectionSettings,
    LogSettings,
    OperatorOptions,
    ServingSettings,
    ShellSettings,
    WriterSettings,
)
from scheduler.controller.write.client import ApiClient
from scheduler.controller.write.credentials import CredentialSource
from scheduler.engine.engine import Engine
from scheduler.engine.explain import PreemptionMemory
from scheduler.errors import ConfigurationError, Fault
from scheduler.extenders.documents import kinds_sent_whole
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.messages.references import PodReference
from scheduler.user_plugins.calls import plugin_calls

SERVICE_ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_LOG_FORMATS: Final = ("json", "text")
_HIGHEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that is settled before anything starts."""

    configuration: Configuration
    profiles: Mapping[str, Profile]
    settings: ShellSettings
    extender_ssl: Mapping[int, ExtenderTLS]
    warnings: tuple[str, ...]


def run(flags: StatedFlags) -> int:
    """Schedule until stopped; the exit code. Raises ConfigurationError with every fault."""
    prepared = prepare(flags)
    target = flags.get("write-config-to")
    if target:
        write_configuration(prepared.configuration, Path(target))
        return 0
    configure_logs(prepared.settings.logs)
    log = structlog.get_logger()
    for warning in prepared.warnings:
        log.warning(warning)
    seed = flags.get("seed")

    def factory() -> Parts:
        engine = build_engine(
            prepared.configuration,
            started=Now(time.monotonic(), time.time_ns()),
            seed=seed,
            profiles=prepared.profiles,
        )
        return parts_of(engine, prepared, flags)

    return run_blocking(prepared.settings, factory, os.environ)


def parts_of(engine: Engine, prepared: Prepared, flags: StatedFlags) -> Parts:
    connection = prepared.settings.connection

    def client_for_plugins() -> ApiClient:
        return ApiClient(CredentialSource(connection, os.environ), timeout_seconds=connection.timeout_seconds)

    def prepare_again(text: bytes) -> NewConfiguration:
        configuration = load_with_flags(text, flags, parse_feature_gates(flags.get("feature-gates", ())))
        faults: list[Fault] = []
        profiles, _ = checked_parts(configuration, faults)
        if faults:
            raise ConfigurationError(faults)
        warnings = warnings_of(configuration)
        return new_configuration(engine, prepared.configuration, configuration, profiles, client_for_plugins, warnings)

    memory = PreemptionMemory()
    return Parts(
        engine=engine,
        prepare=prepare_again,
        gauges=GaugesOfEngine(engine),
        plugin_calls=plugin_calls(prepared.profiles, client_for_plugins),
        extender_ssl=prepared.extender_ssl,
        kinds_sent_whole=kinds_sent_whole(prepared.configuration.kube.extenders),
        routes=pages.routes(engine, lambda: Now(time.monotonic(), time.time_ns()), memory),
        observers=(memory.observe,),
    )


def prepare(flags: StatedFlags) -> Prepared:
    """Raises ConfigurationError with the faults of the flags, the file and the plugins' args."""
    faults: list[Fault] = []
    gates = FeatureGates()
    try:
        gates = parse_feature_gates(flags.get("feature-gates", ()))
    except ConfigurationError as error:
        faults += error.faults
    serving = _serving(flags, faults)
    logs = _logs(flags, faults)
    configuration: Configuration | None = None
    text: bytes | None = None
    operator = _operator(flags, faults)
    try:
        text = read_configuration(flags.get("config", ""))
        configuration = load_with_flags(text, flags, gates)
    except ConfigurationError as error:
        faults += error.faults
    if configuration is None:
        raise ConfigurationError(faults)
    profiles, contexts = checked_parts(configuration, faults)
    if faults:
        raise ConfigurationError(faults)
    settings = replace(
        _shell_settings(configuration, flags, serving, logs), operator=operator, configuration_text=text or b""
    )
    warnings = flags.warnings + gates.warnings + warnings_of(configuration)
    if serving.port and serving.certificate is None and serving.access is not None:
        warnings += ("the pages, and the tokens of those who ask for them, go over the network in plain text",)
    if settings.is_shadow:
        warnings = tuple([warning for warning in warnings if not warning.endswith(BOTH_SCHEDULE)])
    return Prepared(configuration, profiles, settings, contexts, warnings)


def load_with_flags(text: bytes | None, flags: StatedFlags, gates: FeatureGates) -> Configuration:
    """What the text states, with what the flags say over it. Raises ConfigurationError."""
    return load(text, own_namespace=own_namespace(), gates=gates, adjust=lambda stated: with_flags(stated, flags))


def warnings_of(configuration: Configuration) -> tuple[str, ...]:
    """What is legal but deserves a second look."""
    return configuration.warnings + tuple(
        f"extenders[{number}]: HTTPS to {extender.url_prefix} is not verified, since no certificate authority is stated"
        for number, extender in enumerate(configuration.kube.extenders)
        if extender.enable_https and is_unverified(extender)
    )


def checked_parts(
    configuration: Configuration, faults: list[Fault]
) -> tuple[dict[str, Profile], Mapping[int, ExtenderTLS]]:
    """What only building shows: plugin args, the Lease, extenders' certificates. Adds to ``faults``."""
    profiles: dict[str, Profile] = {}
    contexts: Mapping[int, ExtenderTLS] = {}
    try:
        profiles = build_profiles(configuration)
    except ConfigurationError as error:
        faults += error.faults
    try:
        contexts = extender_contexts(configuration.kube.extenders)
    except ConfigurationError as error:
        faults += error.faults
    try:
        _leader_election(configuration.kube.leader_election).check()
    except ConfigurationError as error:
        faults += error.faults
    return profiles, contexts


def read_configuration(path: str) -> bytes | None:
    """A configuration file's text, standard input's for ``-``, None for "". Raises ConfigurationError."""
    if not path:
        return None
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError([Fault("", f"open {path}: {error.strerror or error}")]) from error


def write_configuration(configuration: Configuration, target: Path) -> None:
    """Raises ConfigurationError if the file can't be written."""
    text = write_config(configuration).encode()
    try:
        # Extenders' keys may be in it. A file that is there gets the mode as well, before anything is written to it.
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, 0o600)
                os.ftruncate(descriptor, 0)
            file.write(text)
    except OSError as error:
        raise ConfigurationError([Fault("", f"open {target}: {error.strerror or error}")]) from error


def own_namespace(file: Path = SERVICE_ACCOUNT_NAMESPACE) -> str:
    """Where the Lease goes unless somebody says otherwise: the namespace that the pod runs in."""
    try:
        return file.read_text().strip() or OWN_NAMESPACE
    except OSError:
        return OWN_NAMESPACE


# --- flags over the file ----------------------------------------------------------------------------------------------


def with_flags(configuration: Configuration, flags: StatedFlags) -> Configuration:
    """The configuration with what the flags say. Only ``--leader-elect*`` and the time in the pool win over a file."""
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


# --- the shell's settings ---------------------------------------------------------------------------------------------


def _shell_settings(
    configuration: Configuration, flags: StatedFlags, serving: ServingSettings, logs: LogSettings
) -> ShellSettings:
    kube, limits = configuration.kube, configuration.tandem.limits
    connection = kube.client_connection
    journal = flags.get("journal")
    return ShellSettings(
        hostname=gethostname(),
        connection=ConnectionSettings(
            kubeconfig=connection.kubeconfig,
            master=flags.get("master", ""),
            requests_per_second=connection.qps if connection.qps > 0 else None,
            burst=connection.burst,
        ),
        leader_election=_leader_election(kube.leader_election),
        serving=serving,
        writer=WriterSettings(
            binds_in_flight=limits.binds_in_flight,
            binds_queued=limits.queued_writes,
        ),
        logs=logs,
        delay_cache_until_active=kube.delay_cache_until_active,
        journal=Path(journal) if journal else None,
        component_config=configuration_document(kube, with_keys=False),
        configuration_file=_watched_file(flags),
        is_shadow=flags.get("shadow", False),
        is_tracing=flags.get("tracing", False),
        reconcile_seconds=_seconds(flags.get("cache-reconcile-period"), RECONCILE_SECONDS),
        own_pod=own_pod(os.environ),
    )


def _watched_file(flags: StatedFlags) -> str:
    """Standard input does not change, and a ConfigMap that is watched speaks in the file's place."""
    path: str = flags.get("config", "")
    return "" if path == "-" or flags.get("config-map") else path


def own_pod(environment: Mapping[str, str]) -> PodReference | None:
    """By ``POD_NAMESPACE``, ``POD_NAME`` and ``POD_UID``, which the manifests set from the downward API."""
    namespace, name = environment.get("POD_NAMESPACE", ""), environment.get("POD_NAME", "")
    return PodReference(namespace, name, environment.get("POD_UID", "")) if namespace and name else None


def _operator(flags: StatedFlags, faults: list[Fault]) -> OperatorOptions:
    stated: str = flags.get("config-map", "")
    if not stated:
        return OperatorOptions()
    namespace, _, rest = stated.partition("/")
    name, _, key = rest.partition("/")
    if not namespace or not name:
        faults.append(Fault("", f'--config-map "{stated}": must be NAMESPACE/NAME or NAMESPACE/NAME/KEY'))
    return OperatorOptions(config_map_namespace=namespace, config_map_name=name, config_map_key=key)


def _leader_election(stated: LeaderElection) -> LeaderElectionSettings:
    return LeaderElectionSettings(
        leader_elect=stated.leader_elect,
        lease_duration=stated.lease_duration.seconds,
        renew_deadline=stated.renew_deadline.seconds,
        retry_period=stated.retry_period.seconds,
        resource_namespace=stated.resource_namespace,
        resource_name=stated.resource_name,
    )


def _serving(flags: StatedFlags, faults: list[Fault]) -> ServingSettings:
    defaults = ServingSettings()
    port: int = flags.get("secure-port", defaults.port)
    if not 0 <= port <= _HIGHEST_PORT:
        text = "must be between 0 and 65535, inclusive. 0 for turning off secure port"
        faults.append(Fault("", f"--secure-port {port} {text}"))
    address = flags.get("bind-address", defaults.bind_address)
    is_plain = flags.get("serving-http", False)
    if is_plain and flags.get("tls-cert-file"):
        faults.append(Fault("", "--serving-http and --tls-cert-file contradict each other"))
    return ServingSettings(
        bind_address=address,
        port=port,
        certificate=None if is_plain or not port else _certificate(flags, faults),
        access=None if is_plain and is_loopback(address) else _access(flags),
    )


def _certificate(flags: StatedFlags, faults: list[Fault]) -> ServingCertificate | None:
    stated = TlsSettings(
        certificate_file=flags.get("tls-cert-file", ""),
        key_file=flags.get("tls-private-key-file", ""),
        certificate_folder=flags.get("cert-dir", ""),
        minimum_version=flags.get("tls-min-version", "") or TlsSettings().minimum_version,
        cipher_suites=_listed(flags.get("tls-cipher-suites", ())),
        client_authority_file=flags.get("client-ca-file", ""),
    )
    try:
        return ServingCertificate(stated, gethostname())
    except ConfigurationError as error:
        faults += error.faults
        return None


def _access(flags: StatedFlags) -> AccessSettings:
    """Plain HTTP on the loopback asks nobody; everywhere else a page is shown to those whom the cluster allows it."""
    defaults = AccessSettings()
    paths = flags.get("authorization-always-allow-paths")
    return AccessSettings(
        open_paths=defaults.open_paths if paths is None else _listed(paths),
        token_life=_seconds(flags.get("authentication-token-webhook-cache-ttl"), defaults.token_life),
        allowed_life=_seconds(flags.get("authorization-webhook-cache-authorized-ttl"), defaults.allowed_life),
        refused_life=_seconds(flags.get("authorization-webhook-cache-unauthorized-ttl"), defaults.refused_life),
        skips_lookup=flags.get("authentication-skip-lookup", False),
    )


def _seconds(stated: Duration | None, default: float) -> float:
    return default if stated is None else stated.seconds


def _listed(values: Iterable[str]) -> tuple[str, ...]:
    """A flag that may be repeated and may hold several, with commas."""
    return tuple(part for value in values for part in value.split(",") if part)


def _logs(flags: StatedFlags, faults: list[Fault]) -> LogSettings:
    defaults = LogSettings()
    form = flags.get("logging-format", defaults.format)
    if form not in (*_LOG_FORMATS, defaults.format):
        faults.append(Fault("format", f'Invalid value: "{form}": Unsupported log format'))
    return LogSettings(format=form, verbosity=flags.get("v", defaults.verbosity))
