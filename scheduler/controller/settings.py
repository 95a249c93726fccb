"""The settings of the shell: one frozen value, made by the command line from flags and configuration files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from scheduler.config.feature_gates import FeatureGates
from scheduler.config.tandem import TandemConfiguration
from scheduler.controller.lead.lease_settings import LeaderElectionSettings
from scheduler.controller.record.recorder import RecordSettings
from scheduler.controller.report.log_settings import LogSettings
from scheduler.controller.serve.serving_settings import ServingSettings
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.writer_settings import WriterSettings
from scheduler.messages.references import PodReference
from scheduler.objects.kinds import UNGATED_KINDS, Kind

RECONCILE_SECONDS = 300.0


class OperatorOptions(Struct, frozen=True):
    """kopf: the ConfigMap that is watched for a new configuration, and the liveness endpoint (port 0 = off).

    ``config_map_key`` "": it has one key only.
    """

    enabled: bool = True
    config_map_namespace: str = ""
    config_map_name: str = ""
    config_map_key: str = ""
    liveness_port: int = 0
    liveness_address: str = "0.0.0.0"


class ShellSettings(Struct, frozen=True):
    """All settings of the shell. ``component_config`` is shown by ``/configz``; ``hostname`` is used in events and the
    Lease. A part that a setting of ours concerns reads it from ``tandem``."""

    hostname: str
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)
    leader_election: LeaderElectionSettings = field(default_factory=LeaderElectionSettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    writer: WriterSettings = field(default_factory=WriterSettings)
    logs: LogSettings = field(default_factory=LogSettings)
    operator: OperatorOptions = OperatorOptions()
    kinds: tuple[Kind, ...] = UNGATED_KINDS
    keeps_group_counts: bool = False
    """Whether the status of the PodGroups of scheduler-plugins is kept here."""
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
    tandem: TandemConfiguration = TandemConfiguration()
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
