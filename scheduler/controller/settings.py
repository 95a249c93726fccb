"""The settings of the shell: one frozen value, made by the command line from flags and configuration files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scheduler.config.feature_gates import FeatureGates
from scheduler.controller.record.recorder import RecordSettings
from scheduler.controller.serve.connections import ConnectionLimits
from scheduler.controller.serve.tls import ServingCertificate
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.errors import ConfigurationError, Fault
from scheduler.messages.references import PodReference
from scheduler.objects.kinds import UNGATED_KINDS, Kind

RECONCILE_SECONDS = 300.0

KUBE_SCHEDULER_LEASE = ("kube-system", "kube-scheduler")


@dataclass(frozen=True, slots=True)
class LeaderElectionSettings:
    """kube-scheduler's ``leaderElection`` block, with a lease name of our own. Durations in seconds."""

    leader_elect: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    resource_namespace: str = "kube-system"
    resource_name: str = "tandem-scheduler"

    def check(self) -> None:
        """Raises ConfigurationError with every fault (texts of kube-scheduler's validation where it has one)."""
        if not self.leader_elect:
            return
        faults = [
            Fault(f"leaderElection.{name}", f"Invalid value: {value:g}: must be greater than zero")
            for name, value in (
                ("leaseDuration", self.lease_duration),
                ("renewDeadline", self.renew_deadline),
                ("retryPeriod", self.retry_period),
            )
            if value <= 0
        ]
        if self.lease_duration <= self.renew_deadline:
            text = f"Invalid value: {self.renew_deadline:g}: must be greater than `RenewDeadline`"
            faults.append(Fault("leaderElection.leaseDuration", text))
        if self.renew_deadline <= 1.2 * self.retry_period:
            faults.append(
                Fault("", "couldn't create leader elector: renewDeadline must be greater than retryPeriod*1.2")
            )
        if (self.resource_namespace, self.resource_name) == KUBE_SCHEDULER_LEASE:
            text = f"Invalid value: {self.resource_name!r}: belongs to kube-scheduler, choose another name"
            faults.append(Fault("leaderElection.resourceName", text))
        if faults:
            raise ConfigurationError(faults)


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Access to pages. Lifetimes in seconds: how long an answer of the API server is cached.

    ``open_paths``: open to everyone; a path that ends in ``*`` is a prefix. ``skips_lookup``: the cluster's own
    authority for client certificates is not looked up.
    """

    open_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    token_life: float = 10.0
    allowed_life: float = 10.0
    refused_life: float = 10.0
    skips_lookup: bool = False


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """The page server. ``port`` 0 turns it off. ``certificate`` None: plain HTTP. ``access`` None: every page is
    open."""

    bind_address: str = "0.0.0.0"
    port: int = 10259
    certificate: ServingCertificate | None = None
    access: AccessSettings | None = None
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Limits of writes. Their order is decided by ``write/pacing.py``."""

    requests_in_flight: int = 128
    """Maximum of writes sent and not answered: bindings, conditions, deletions, events."""
    binds_queued: int = 256
    """Maximum of queued bindings; at the limit no further pod is popped. None is ever dropped."""
    bind_timeout_seconds: float = 15.0
    write_timeout_seconds: float = 10.0
    events_queued: int = 20_000
    """Maximum of queued events, for ``Scheduled`` and for others each; beyond it the oldest are dropped."""
    event_series_kept: int = 20_000


@dataclass(frozen=True, slots=True)
class LogSettings:
    """``format`` is ``json``, ``text`` or ``auto`` (JSON unless standard error is a terminal)."""

    format: str = "auto"
    verbosity: int = 2


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """kopf: the ConfigMap that is watched for a new configuration, and the liveness endpoint (port 0 = off).

    ``config_map_key`` "": it has one key only.
    """

    enabled: bool = True
    config_map_namespace: str = ""
    config_map_name: str = ""
    config_map_key: str = ""
    liveness_port: int = 0
    liveness_address: str = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class ShellSettings:
    """All settings of the shell. ``component_config`` is shown by ``/configz``; ``hostname`` is used in events and the
    Lease."""

    hostname: str
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)
    leader_election: LeaderElectionSettings = LeaderElectionSettings()
    serving: ServingSettings = ServingSettings()
    writer: WriterSettings = WriterSettings()
    logs: LogSettings = LogSettings()
    operator: OperatorOptions = OperatorOptions()
    kinds: tuple[Kind, ...] = UNGATED_KINDS
    delay_cache_until_active: bool = False
    journal: Path | None = None
    record: RecordSettings | None = None
    settle_seconds: float = 10.0
    """Maximum seconds for binds under way to end after SIGTERM."""
    reconcile_seconds: float = RECONCILE_SECONDS
    """Seconds between comparisons of the cache with the API server; 0 for never."""
    is_shadow: bool = False
    """Shadow mode: only the Lease is written, and decisions are compared with those of the scheduler that places the
    pods."""
    is_tracing: bool = False
    """Export one OpenTelemetry trace per pod, configured by the ``OTEL_`` variables."""
    component_config: Mapping[str, Any] = field(default_factory=dict)
    tandem_config: Mapping[str, Any] = field(default_factory=dict)
    gates: FeatureGates = field(default_factory=FeatureGates)
    version: str = ""
    """Tandem's own."""
    kubernetes: str = ""
    """The version of kube-scheduler that it decides as."""
    configuration_file: str = ""
    """Path of the configuration file, reloaded when it changes; "" for none."""
    configuration_text: bytes = b""
    """The file's text at the start."""
    own_pod: PodReference | None = None
    """The pod that the scheduler runs in, which gets events about invalid configurations. None outside a cluster."""
