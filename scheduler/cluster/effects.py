"""The changes that Reserve and Unreserve may ask for. The cluster cache applies each by its type."""

from __future__ import annotations

from scheduler.cluster.devices.reserved import GiveBack, SetAside
from scheduler.cluster.volumes.reserved import Release, Reservation

Effect = Reservation | Release | SetAside | GiveBack
"""Every effect there is; ``ClusterCache.apply`` has a case for each."""
