"""Makes the shell's settings from a configuration and the flags: connection, Lease, pages, logs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from socket import gethostname
from typing import Final

from scheduler.cli.connection import is_loopback
from scheduler.cli.flags import StatedFlags
from scheduler.cli.version import KUBERNETES
from scheduler.compose import with_arguments
from scheduler.config.durations import Duration
from scheduler.config.feature_gates import FeatureGates
from scheduler.config.loading import Configuration
from scheduler.config.own_version import own_version
from scheduler.config.rendering import configuration_document
from scheduler.config.tandem import TandemConfiguration
from scheduler.config.types import LeaderElection
from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.record.recorder import DEFAULT_LIMIT_BYTES, MIN_LIMIT_BYTES, RecordSettings
from scheduler.controller.report.log_settings import LogSettings
from scheduler.controller.serve.serving_settings import AccessSettings, ServingSettings
from scheduler.controller.serve.tls import ServingCertificate, TlsSettings
from scheduler.controller.settings import RECONCILE_SECONDS, OperatorOptions, ShellSettings
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.errors import ConfigurationError, Fault
from scheduler.messages.references import PodReference
from scheduler.objects.kinds import COSCHEDULING, READ_KINDS, Kind
from scheduler.objects.quantity import NANO, InvalidQuantity, parse

_LOG_FORMATS: Final = ("json", "text")
_HIGHEST_PORT: Final = 65535


def shell_settings(
    configuration: Configuration, flags: StatedFlags, serving: ServingSettings, logs: LogSettings
) -> ShellSettings:
    """The settings of the shell, from the configuration and the flags."""
    kube = configuration.kube
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
        leader_election=leader_election_of(kube.leader_election),
        serving=serving,
        logs=logs,
        delay_cache_until_active=kube.delay_cache_until_active,
        journal=Path(journal) if journal else None,
        kinds=kinds_read(configuration.gates, configuration.tandem),
        keeps_group_counts=_keeps_group_counts(configuration.tandem),
        component_config=configuration_document(with_arguments(configuration), with_keys=False),
        tandem=configuration.tandem,
        gates=configuration.gates,
        version=own_version() or "(not installed)",
        kubernetes=KUBERNETES,
        configuration_file=_watched_file(flags),
        is_shadow=flags.get("shadow", False),
        is_tracing=flags.get("tracing", False),
        reconcile_seconds=_seconds(flags.get("cache-reconcile-period"), RECONCILE_SECONDS),
        own_pod=own_pod(os.environ),
    )


def kinds_read(gates: FeatureGates, own: TandemConfiguration | None = None) -> tuple[Kind, ...]:
    """The kinds that decisions depend on with these feature gates and settings."""

    def is_read(gate: str) -> bool:
        if gate == COSCHEDULING:
            return own is not None and own.groups.coscheduling.enabled
        return gates.enabled(gate)

    return tuple(kind for kind in READ_KINDS if not kind.entry.gate or is_read(kind.entry.gate))


def _keeps_group_counts(own: TandemConfiguration) -> bool:
    coscheduling = own.groups.coscheduling
    return coscheduling.enabled and coscheduling.writes_status


def _watched_file(flags: StatedFlags) -> str:
    """The file to watch. Standard input is not watched, and a watched ConfigMap replaces the file."""
    path: str = flags.get("config", "")
    return "" if path == "-" or flags.get("config-map") else path


def own_pod(environment: Mapping[str, str]) -> PodReference | None:
    """The scheduler's pod, from ``POD_NAMESPACE``, ``POD_NAME`` and ``POD_UID``, which the manifests set (downward
    API)."""
    namespace, name = environment.get("POD_NAMESPACE", ""), environment.get("POD_NAME", "")
    return PodReference(namespace, name, environment.get("POD_UID", "")) if namespace and name else None


def operator_of(flags: StatedFlags, faults: list[Fault]) -> OperatorOptions:
    """The settings of kopf, from the flags. Adds to ``faults`` a ConfigMap whose name can't be read."""
    stated: str = flags.get("config-map", "")
    if not stated:
        return OperatorOptions()
    parts = stated.split("/")
    if len(parts) not in (2, 3) or not all(parts[:2]):
        faults.append(Fault("", f'--config-map "{stated}": must be NAMESPACE/NAME or NAMESPACE/NAME/KEY'))
        return OperatorOptions()
    return OperatorOptions(config_map_namespace=parts[0], config_map_name=parts[1], config_map_key="".join(parts[2:]))


def leader_election_of(stated: LeaderElection) -> LeaderElectionSettings:
    """The settings of leader election, with durations in seconds."""
    return LeaderElectionSettings(
        leader_elect=stated.leader_elect,
        lease_duration=stated.lease_duration.seconds,
        renew_deadline=stated.renew_deadline.seconds,
        retry_period=stated.retry_period.seconds,
        resource_namespace=stated.resource_namespace,
        resource_name=stated.resource_name,
    )


def serving_of(flags: StatedFlags, faults: list[Fault]) -> ServingSettings:
    """The settings of the page server, from the flags. Adds contradictions to ``faults``."""
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
    """Access to the pages: open over plain HTTP on the loopback; elsewhere the cluster authorizes each request."""
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
    """The values of a flag that may be repeated and may hold several, comma-separated."""
    return tuple(part for value in values for part in value.split(",") if part)


def record_of(flags: StatedFlags, faults: list[Fault]) -> RecordSettings | None:
    """Where to record; None for nowhere. Adds a fault to ``faults`` for a limit that is none."""
    folder = flags.get("record")
    stated = flags.get("record-limit")
    limit = DEFAULT_LIMIT_BYTES
    if stated is not None:
        try:
            limit = parse(stated) // NANO
        except InvalidQuantity as error:
            faults.append(Fault("--record-limit", str(error)))
        else:
            if limit < MIN_LIMIT_BYTES:
                faults.append(Fault("--record-limit", f"{stated}: must be at least {MIN_LIMIT_BYTES // 2**20}Mi"))
            if not folder:
                faults.append(Fault("--record-limit", "says nothing without --record"))
    return RecordSettings(Path(folder), limit) if folder else None


def logs_of(flags: StatedFlags, faults: list[Fault]) -> LogSettings:
    defaults = LogSettings()
    form = flags.get("logging-format", defaults.format)
    if form not in (*_LOG_FORMATS, defaults.format):
        faults.append(Fault("format", f'Invalid value: "{form}": Unsupported log format'))
    return LogSettings(format=form, verbosity=flags.get("v", defaults.verbosity))
