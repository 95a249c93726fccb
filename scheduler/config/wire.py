"""The configuration as a file states it: None, 0 or empty where the file is silent. ``defaults.py`` completes it."""

from __future__ import annotations

import msgspec

from scheduler.config.durations import Duration
from scheduler.config.points import Plugins
from scheduler.config.types import Extender, Int32, Int64, PluginConfig


class StatedLeaderElection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``leaderElection`` as stated."""

    leader_elect: bool | None = None
    lease_duration: Duration = Duration(0)
    renew_deadline: Duration = Duration(0)
    retry_period: Duration = Duration(0)
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class StatedClientConnection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``clientConnection`` as stated."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: Int32 = 0


class StatedProfile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One of ``profiles`` as stated. A name that is stated as empty is not a name that is absent."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class StatedConfiguration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A KubeSchedulerConfiguration v1 as stated; ``apiVersion`` and ``kind`` have been checked."""

    api_version: str = ""
    kind: str = ""
    parallelism: Int32 | None = None
    leader_election: StatedLeaderElection = StatedLeaderElection()
    client_connection: StatedClientConnection = StatedClientConnection()
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 | None = None
    pod_max_backoff_seconds: Int64 | None = None
    profiles: tuple[StatedProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
