"""Lease: the lock that leader election holds."""

from __future__ import annotations

from scheduler.objects.meta import ApiObject, ApiStruct


class LeaseSpec(ApiStruct, frozen=True):
    """Times are RFC 3339 with microseconds; see `timestamps.format_micros`."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(ApiObject, frozen=True):
    spec: LeaseSpec = LeaseSpec()
