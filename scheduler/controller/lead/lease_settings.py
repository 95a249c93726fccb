"""The settings of leader election, and what is wrong with them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from scheduler.errors import ConfigurationError, Fault

KUBE_SCHEDULER_LEASE: Final = ("kube-system", "kube-scheduler")


class LeaderElectionSettings(Struct, frozen=True):
    """kube-scheduler's ``leaderElection`` block, with a lease name of our own. Durations in seconds."""

    leader_elect: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    resource_namespace: str = "kube-system"
    resource_name: str = "tandem-scheduler"

    @property
    def request_seconds(self) -> float:
        """The time-out of one request about the Lease: that of client-go, so that one which hangs, as on a connection
        to an API server that is gone, leaves time for another on a new connection."""
        return max(self.renew_deadline / 2, 1.0)

    def check(self) -> None:
        """Check the durations and names. Raises ConfigurationError with every fault (texts of kube-scheduler's
        validation where it has one)."""
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
