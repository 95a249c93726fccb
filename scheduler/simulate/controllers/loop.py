"""The task that runs all controllers: it collects changes and reconciles the objects concerned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from scheduler.simulate.apiserver import Change, Failure, Follower, Registry
from scheduler.simulate.apiserver import kinds as k
from scheduler.simulate.apiserver.selectors import object_selector_matches
from scheduler.simulate.controllers import budgets, claims, cleaning, pod_groups, storage, workloads
from scheduler.simulate.controllers.index import Dependents, Key, controller_of

Object = dict[str, Any]
Reconcile = Callable[[Registry, Dependents, Object], None]

_RECONCILERS: Final[dict[str, Reconcile]] = {
    k.DEPLOYMENTS.resource: workloads.deployment,
    k.REPLICA_SETS.resource: workloads.replica_set,
    k.REPLICATION_CONTROLLERS.resource: workloads.replication_controller,
    k.STATEFUL_SETS.resource: workloads.stateful_set,
    k.JOBS.resource: workloads.job,
    k.BUDGETS.resource: budgets.budget,
    k.PERSISTENT_VOLUMES.resource: storage.volume,
    k.PERSISTENT_VOLUME_CLAIMS.resource: storage.claim,
    k.PODS.resource: claims.pod,
    k.RESOURCE_CLAIMS.resource: claims.claim,
    k.POD_GROUPS.resource: pod_groups.pod_group,
    k.NAMESPACES.resource: cleaning.namespace,
}
_BY_KIND: Final = {(kind.api_version, kind.kind): kind for kind in k.KINDS if kind.stored}
_FOLLOWED: Final = tuple(kind for kind in k.KINDS if kind.stored and kind not in (k.EVENTS, k.CORE_EVENTS, k.LEASES))


class Controllers:
    """Runs until cancelled. A reconciliation that fails (a quota, a missing class) is tried again only with the next
    change that concerns it: the embedded cluster has no timed retries."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._dependents = Dependents(registry.store)
        self._dirty: dict[Key, None] = {}

    async def run(self) -> None:
        """Reconciles the present objects and then follows the store's changes, until cancelled."""
        follower = Follower(self._registry.store, *_FOLLOWED)
        try:
            for kind in _FOLLOWED:
                for stored in self._registry.store.collection(kind).every():
                    key = (kind, stored.namespace, stored.name)
                    self._dependents.add(key, stored.object)
                    self._mark(key)
            await self._settle()
            while True:
                for kind, change in await follower.changes():
                    self._note(kind, change)
                await self._settle()
        finally:
            follower.close()

    def _note(self, kind: k.Kind, change: Change) -> None:
        self._dependents.note(kind, change)
        current = change.current
        self._mark((kind, current.namespace, current.name))
        for stored in (change.previous, current):
            owner = None if stored is None else controller_of(stored.object)
            owning = None if owner is None else _BY_KIND.get((owner["apiVersion"], owner["kind"]))
            if owner is not None and owning is not None:
                self._mark((owning, current.namespace if owning.namespaced else "", owner["name"]))
        if kind is k.PODS:
            self._mark_budgets(change)
            if group := pod_groups.group_of(change.current.object):
                self._mark((k.POD_GROUPS, change.current.namespace, group))
            for name in claims.claims_of(current.object):
                self._mark((k.RESOURCE_CLAIMS, current.namespace, name))
        if kind is k.RESOURCE_CLAIM_TEMPLATES:
            for pod in self._registry.store.list(k.PODS, current.namespace):
                self._mark((k.PODS, current.namespace, pod["metadata"]["name"]))
        if change.type == "DELETED":
            cleaning.owner_gone(self._registry, self._dependents, current.object["metadata"]["uid"])
            for owner in current.object["metadata"].get("ownerReferences") or ():
                owning = _BY_KIND.get((owner["apiVersion"], owner["kind"]))
                if owning is not None:
                    self._mark((owning, current.namespace if owning.namespaced else "", owner["name"]))
            self._mark((k.NAMESPACES, "", current.namespace))

    def _mark(self, key: Key) -> None:
        self._dirty[key] = None

    def _mark_budgets(self, change: Change) -> None:
        namespace = change.current.namespace
        for budget in self._registry.store.list(k.BUDGETS, namespace):
            for stored in (change.previous, change.current):
                labels = {} if stored is None else stored.object["metadata"].get("labels") or {}
                if stored is not None and object_selector_matches(budget["spec"].get("selector"), labels):
                    self._mark((k.BUDGETS, namespace, budget["metadata"]["name"]))

    async def _settle(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for kind, namespace, name in dirty:
            obj = self._registry.store.get(kind, namespace, name)
            if obj is None:
                continue
            cleaning.owner_going(self._registry, self._dependents, kind, obj)
            reconcile = _RECONCILERS.get(kind.resource)
            if reconcile is None:
                continue
            try:
                reconcile(self._registry, self._dependents, obj)
            except Failure:
                continue
            await asyncio.sleep(0)
