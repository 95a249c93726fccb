"""The Leases by which kubelets say that their nodes are alive: kube-node-lease/NODE, renewed at an interval."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from scheduler.simulate.apiserver import Failure, Follower, Registry
from scheduler.simulate.apiserver.kinds import LEASES, NODES
from scheduler.simulate.controllers.index import owner_reference

Object = dict[str, Any]

NAMESPACE: Final = "kube-node-lease"
RENEW_SECONDS: Final = 10.0
"""Seconds between two renewals, as of a kubelet: a fourth of the duration."""
_DURATION_SECONDS: Final = 40


class Heartbeats:
    """Renews the Leases of all nodes until cancelled. A node's Lease begins and goes with the node."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def run(self) -> None:
        follower = Follower(self._registry.store, NODES)
        try:
            while True:
                for node in self._registry.store.list(NODES):
                    self._renew(node)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RENEW_SECONDS):
                        await self._follow(follower)
        finally:
            follower.close()

    async def _follow(self, follower: Follower) -> None:
        while True:
            for _, change in await follower.changes():
                if change.type == "ADDED":
                    self._renew(change.current.object)
                elif change.type == "DELETED":
                    with contextlib.suppress(Failure):
                        self._registry.delete(LEASES, NAMESPACE, change.current.name)

    def _renew(self, node: Object) -> None:
        name = node["metadata"]["name"]
        now = self._registry.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": _DURATION_SECONDS, "renewTime": now}
        if self._registry.change(LEASES, NAMESPACE, name, lambda old: {**old, "spec": spec}) is not None:
            return
        owner = {key: value for key, value in owner_reference(NODES, node).items() if "ontroller" not in key}
        try:
            body = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}
            self._registry.create(LEASES, NAMESPACE, body)
        except Failure:
            # Without its namespace a Lease can be neither written nor missed.
            return
