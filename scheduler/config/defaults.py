"""Default values: kube-scheduler 1.36's, except where a second scheduler must differ.

Ours are the profile name, the Lease (a second scheduler that shares kube-scheduler's Lease never becomes active, or
drives it out), no request limit on our side, JSON to the API server, and all nodes scored when no percentage is stated.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from scheduler.config.default_plugins import default_plugins
from scheduler.config.durations import SECOND, Duration
from scheduler.config.feature_gates import FeatureGates
from scheduler.config.names import OWN_NAMESPACE, SCHEDULER_NAME
from scheduler.config.plugin_sets import merge_plugins
from scheduler.config.types import (
    ClientConnection,
    Extender,
    KubeSchedulerConfiguration,
    LeaderElection,
    ProfileConfiguration,
)
from scheduler.config.wire import StatedClientConnection, StatedConfiguration, StatedLeaderElection, StatedProfile

T = TypeVar("T")

NO_REQUEST_LIMIT: Final = -1.0

DEFAULT_PARALLELISM: Final = 16
DEFAULT_BURST: Final = 100
DEFAULT_CONTENT_TYPE: Final = "application/json"
DEFAULT_RESOURCE_LOCK: Final = "leases"
DEFAULT_LEASE_DURATION: Final = Duration(15 * SECOND)
DEFAULT_RENEW_DEADLINE: Final = Duration(10 * SECOND)
DEFAULT_RETRY_PERIOD: Final = Duration(2 * SECOND)
DEFAULT_POD_INITIAL_BACKOFF_SECONDS: Final = 1
DEFAULT_POD_MAX_BACKOFF_SECONDS: Final = 10
DEFAULT_EXTENDER_TIMEOUT: Final = Duration(5 * SECOND)


def complete(
    stated: StatedConfiguration, own_namespace: str = OWN_NAMESPACE, gates: FeatureGates | None = None
) -> KubeSchedulerConfiguration:
    """The configuration with all defaults filled in. The Lease goes to ``own_namespace`` unless another is stated."""
    profiling = _unless_none(stated.enable_profiling, True)
    return KubeSchedulerConfiguration(
        parallelism=_unless_none(stated.parallelism, DEFAULT_PARALLELISM),
        leader_election=_leader_election(stated.leader_election, own_namespace),
        client_connection=_client_connection(stated.client_connection),
        enable_profiling=profiling,
        enable_contention_profiling=_unless_none(stated.enable_contention_profiling, profiling),
        percentage_of_nodes_to_score=stated.percentage_of_nodes_to_score,
        pod_initial_backoff_seconds=_unless_none(
            stated.pod_initial_backoff_seconds, DEFAULT_POD_INITIAL_BACKOFF_SECONDS
        ),
        pod_max_backoff_seconds=_unless_none(stated.pod_max_backoff_seconds, DEFAULT_POD_MAX_BACKOFF_SECONDS),
        profiles=_profiles(stated.profiles, gates or FeatureGates()),
        extenders=tuple(_extender(extender) for extender in stated.extenders),
        delay_cache_until_active=stated.delay_cache_until_active,
    )


def _unless_none(value: T | None, default: T) -> T:
    return default if value is None else value


def _leader_election(stated: StatedLeaderElection, own_namespace: str) -> LeaderElection:
    return LeaderElection(
        leader_elect=_unless_none(stated.leader_elect, True),
        lease_duration=stated.lease_duration or DEFAULT_LEASE_DURATION,
        renew_deadline=stated.renew_deadline or DEFAULT_RENEW_DEADLINE,
        retry_period=stated.retry_period or DEFAULT_RETRY_PERIOD,
        resource_lock=stated.resource_lock or DEFAULT_RESOURCE_LOCK,
        resource_name=stated.resource_name or SCHEDULER_NAME,
        resource_namespace=stated.resource_namespace or own_namespace,
    )


def _client_connection(stated: StatedClientConnection) -> ClientConnection:
    return ClientConnection(
        kubeconfig=stated.kubeconfig,
        accept_content_types=stated.accept_content_types,
        content_type=stated.content_type or DEFAULT_CONTENT_TYPE,
        qps=stated.qps or NO_REQUEST_LIMIT,
        burst=stated.burst or DEFAULT_BURST,
    )


def _profiles(stated: tuple[StatedProfile, ...], gates: FeatureGates) -> tuple[ProfileConfiguration, ...]:
    defaults = default_plugins(gates)
    profiles = stated or (StatedProfile(),)
    # Several profiles must each state a name: with the default they would share one.
    default_name = SCHEDULER_NAME if len(profiles) == 1 else ""
    return tuple(
        ProfileConfiguration(
            scheduler_name=_unless_none(profile.scheduler_name, default_name),
            percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
            plugins=merge_plugins(profile.plugins, defaults),
            plugin_config=profile.plugin_config,
        )
        for profile in profiles
    )


def _extender(stated: Extender) -> Extender:
    return msgspec.structs.replace(stated, http_timeout=stated.http_timeout or DEFAULT_EXTENDER_TIMEOUT)
