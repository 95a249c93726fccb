"""The completed KubeSchedulerConfiguration: every default filled in, plugin sets merged with the default plugins.

Field names are those of ``kubescheduler.config.k8s.io/v1`` in snake case. Plugin args stay raw: plugins own them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from scheduler.config.durations import Duration
from scheduler.config.points import Plugins

API_GROUP: Final = "kubescheduler.config.k8s.io"
API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The Lease by which one of several copies is chosen to schedule."""

    leader_elect: bool
    lease_duration: Duration
    renew_deadline: Duration
    retry_period: Duration
    resource_lock: str
    resource_name: str
    resource_namespace: str


class ClientConnection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the API server is reached. ``qps`` below 0 means no limit on our side; ``burst`` counts requests."""

    kubeconfig: str
    accept_content_types: str
    content_type: str
    qps: float
    burst: int


class PluginConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The args of one plugin, raw. None means that the plugin's own defaults apply."""

    name: str = ""
    args: dict[str, Any] | None = None


class ProfileConfiguration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One scheduler by name: which plugins it runs, in which order, with which args.

    ``percentage_of_nodes_to_score``: None follows the configuration's; 0 is a value and means adaptive.
    """

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    plugins: Plugins
    plugin_config: tuple[PluginConfig, ...]

    def args_of(self, plugin: str) -> dict[str, Any] | None:
        """The raw args of a plugin, None if there are none."""
        return next((config.args for config in self.plugin_config if config.name == plugin), None)


class ExtenderTLSConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """TLS towards an extender. The ``…_data`` fields are PEM bytes and win over the files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderManagedResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An extended resource whose pods concern the extender."""

    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A webhook that takes part in scheduling. An empty verb means that it is not called there.

    ``http_timeout`` is complete: 5 s unless stated. No ``managed_resources`` means that every pod concerns it.
    """

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = msgspec.field(default=Duration(0), name="httpTimeout")
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings of kube-scheduler's own configuration file, completed.

    ``percentage_of_nodes_to_score``: None, when the file is silent, means that all nodes are scored; an explicit 0
    means kube-scheduler's adaptive sampling. Back-offs are in seconds.
    """

    parallelism: int
    leader_election: LeaderElection
    client_connection: ClientConnection
    enable_profiling: bool
    enable_contention_profiling: bool
    percentage_of_nodes_to_score: int | None
    pod_initial_backoff_seconds: int
    pod_max_backoff_seconds: int
    profiles: tuple[ProfileConfiguration, ...]
    extenders: tuple[Extender, ...]
    delay_cache_until_active: bool
