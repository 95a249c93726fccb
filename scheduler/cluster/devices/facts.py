"""What the cluster cache knows of devices: slices, allocated devices, and what is set aside for pods on their way."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.cluster.devices.allocated import Holdings
from scheduler.cluster.devices.answers import KeptAnswers
from scheduler.cluster.devices.extended_resources import ClassesByResource
from scheduler.cluster.devices.pools import Pool, foreign_pool, pools_of
from scheduler.cluster.devices.reserved import ClaimInFlight, SetAside
from scheduler.cluster.devices.slices import PoolKey, SliceIndex
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.errors import InvariantViolation
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import controller_of
from scheduler.objects.resource_claims import EXTENDED_RESOURCE_CLAIM_ANNOTATION, ResourceClaim

MAX_SIGNATURES = 65_536
"""Different looks of a node's devices that are distinguished before all are forgotten."""


def special_claim_uid(pod_uid: str) -> str:
    """What stands for the UID of the claim that is yet to be made for a pod's extended resources."""
    return f"extended-resources:{pod_uid}"


class Devices:
    """One of the tallies of the cluster cache. Rows mean rows of ``table``."""

    def __init__(self, table: NodeTable, objects: ObjectStore) -> None:
        self._table = table
        self._objects = objects
        self._slices = SliceIndex()
        self._foreign: dict[PoolKey, Pool] = {}
        """Pools of which something is wrong with the counters, as nodes see them that have nothing else of them."""
        self.stored = Holdings()
        """What claims hold as the API server says."""
        self.in_flight = Holdings()
        """What is set aside besides."""
        self.classes = ClassesByResource()
        self._set_aside: dict[str, SetAside] = {}
        self._pod_of_claim: dict[str, str] = {}
        """Claim UID → the pod that has it in flight."""
        self._writes: dict[int, str] = {}
        """Ticket → UID of the claim whose allocation is being written."""
        self._orphans: dict[str, ClaimInFlight] = {}
        """Claims whose pod is not coming, but whose allocation may still be written: their devices stay taken."""
        self._contents: dict[bytes, int] = {}
        self._signatures: dict[Hashable, int] = {}
        self._signature_of_row: dict[int, tuple[tuple[int, int], int]] = {}
        self._pools_of_row: dict[int, tuple[tuple[int, int], tuple[Pool, ...]]] = {}
        self._row_versions: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.common_version = 0
        """Grows with what concerns every node."""
        self.version = 0
        """Grows with every change."""
        self.answers = KeptAnswers()
        self.now_nanoseconds = 0
        """Wall clock of the attempt in hand."""
        self._special: dict[str, dict[str, ResourceClaim]] = {}
        """Pod UID → the claims that were made for its extended resources, by UID."""
        self._seen = dict.fromkeys((Kind.RESOURCE_SLICE, Kind.RESOURCE_CLAIM, Kind.DEVICE_CLASS), 0)

    # --- pods and nodes -----------------------------------------------------------------------------------------------

    def add(self, info: PodInfo, row: int) -> None:
        """A pod came to a row: nothing to count, claims say who holds what."""

    def remove(self, info: PodInfo, row: int) -> None:
        """What is set aside lasts as long as the pod is on its node."""
        self.give_back(info.uid)

    def replace(self, known: PodInfo, info: PodInfo, row: int) -> None:
        """Another version of a pod on its row."""

    def node_changed(self, row: int) -> None:
        """The Node of the row is another one, or gone."""
        self._touch_row(row)
        self.version += 1

    # --- objects ------------------------------------------------------------------------------------------------------

    def observe(self, kind: Kind, old: Any, new: Any) -> None:
        """The store has just put ``new`` in the place of ``old`` (None: there was none, or there is none any more)."""
        seen = self._seen.get(kind)
        if seen is None or (old is None and new is None) or seen + 1 != self._objects.version(kind):
            return
        self._seen[kind] = seen + 1
        self.version += 1
        if kind is Kind.RESOURCE_SLICE:
            pools = {(one.spec.driver, one.spec.pool.name) for one in (old, new) if one is not None}
            before = {pool: self._slices.nodes_of(pool) for pool in pools}
            self._slices.observe(old, new)
            for pool in pools:
                self._touch_nodes(before[pool])
                self._touch_pool(pool)
                self._look_from_afar(pool)
        elif kind is Kind.RESOURCE_CLAIM:
            self._claim_changed(old, new)
        else:
            self.classes.observe(old, new)

    def _look_from_afar(self, key: PoolKey) -> None:
        """Every node sees the counters of every pool, but they matter to others only while something is wrong."""
        found = foreign_pool(self._slices, key)
        known = self._foreign.pop(key, None)
        if found is not None:
            self._foreign[key] = found
        if (None if found is None else found.state) is not (None if known is None else known.state):
            self.common_version += 1

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Allocations are distinguished by the claim's UID: one that was made again under its name is another claim."""
        self._note_special(old, new)
        if old is not None and new is not None and old.uid == new.uid and old.allocation == new.allocation:
            return
        if old is not None and old.allocation is not None:
            self._touch_pools(self.stored.remove(old.allocation))
        if new is not None and new.allocation is not None:
            self._touch_pools(self.stored.add(new.key, new.allocation))
            self._landed(new.uid)
            owner = controller_of(new.metadata)
            if owner is not None and new.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true":
                self._landed(special_claim_uid(owner.uid))
        if old is not None and (new is None or new.uid != old.uid):
            self._landed(old.uid)

    def _note_special(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for claim in (old, new):
            if claim is None or claim.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
                continue
            owner = controller_of(claim.metadata)
            if owner is None:
                continue
            if claim is new:
                self._special.setdefault(owner.uid, {})[claim.uid] = claim
            else:
                claims = self._special.get(owner.uid, {})
                claims.pop(claim.uid, None)
                if not claims:
                    self._special.pop(owner.uid, None)

    def special_claims_of(self, pod_uid: str) -> tuple[ResourceClaim, ...]:
        """The claims that the scheduler made for the pod's extended resources."""
        return tuple(self._special.get(pod_uid, {}).values())

    def catch_up(self) -> None:
        """Rebuild what was put into the store without a word (tests, copies)."""
        for kind, seen in self._seen.items():
            version = self._objects.version(kind)
            if seen == version:
                continue
            self._seen[kind] = version
            self.version += 1
            self.common_version += 1
            if kind is Kind.RESOURCE_SLICE:
                self._slices.rebuild(self._objects.all(kind).values())
                self._foreign = {}
                for key in self._slices.pools_with_counters:
                    self._look_from_afar(key)
            elif kind is Kind.DEVICE_CLASS:
                self.classes = ClassesByResource()
                for device_class in self._objects.all(kind).values():
                    self.classes.observe(None, device_class)
            else:
                self.stored = Holdings()
                self._special = {}
                for claim in self._objects.all(kind).values():
                    self._note_special(None, claim)
                    if claim.allocation is not None:
                        self.stored.add(claim.key, claim.allocation)

    # --- assumptions --------------------------------------------------------------------------------------------------

    def set_aside_for(self, pod_uid: str) -> SetAside | None:
        return self._set_aside.get(pod_uid)

    def pod_with_claim_in_flight(self, claim_uid: str) -> str | None:
        """The UID of the pod for which the claim is being allocated; "" where that pod has given up meanwhile."""
        return "" if claim_uid in self._orphans else self._pod_of_claim.get(claim_uid)

    def set_aside(self, change: SetAside) -> None:
        """Raises InvariantViolation for a claim that is in flight already, and then has changed nothing."""
        for claim in change.claims:
            if claim.claim_uid in self._pod_of_claim or claim.claim_uid in self._orphans:
                raise InvariantViolation(f"claim {claim.claim_key} is in flight already")
        self.give_back(change.pod_uid)
        self._set_aside[change.pod_uid] = change
        self.version += 1
        for claim in change.claims:
            self._pod_of_claim[claim.claim_uid] = change.pod_uid
            self._touch_pools(self.in_flight.add(claim.claim_key, claim.allocation))

    def give_back(self, pod_uid: str) -> None:
        held = self._set_aside.pop(pod_uid, None)
        if held is None:
            return
        open_writes = set(self._writes.values())
        for claim in held.claims:
            if self._pod_of_claim.pop(claim.claim_uid, None) is None:
                continue
            if claim.claim_uid in open_writes:
                self._orphans[claim.claim_uid] = claim
            else:
                self._touch_pools(self.in_flight.remove(claim.allocation))
        self.version += 1

    def write_sent(self, ticket: int, claim_uid: str) -> None:
        """The allocation of a claim in flight is on its way to the API server."""
        self._writes[ticket] = claim_uid

    def write_finished(self, ticket: int) -> None:
        """It was written or not; what was, has been observed by now."""
        claim_uid = self._writes.pop(ticket, None)
        if claim_uid is not None and claim_uid not in self._writes.values():
            self._drop_orphan(claim_uid)

    def _drop_orphan(self, claim_uid: str) -> None:
        claim = self._orphans.pop(claim_uid, None)
        if claim is not None:
            self._touch_pools(self.in_flight.remove(claim.allocation))
            self.version += 1

    def _landed(self, claim_uid: str) -> None:
        """The API server knows of the claim's allocation, or the claim is gone: nothing is in flight any more."""
        self._drop_orphan(claim_uid)
        pod_uid = self._pod_of_claim.pop(claim_uid, None)
        if pod_uid is None:
            return
        for claim in self._set_aside[pod_uid].claims:
            if claim.claim_uid == claim_uid:
                self._touch_pools(self.in_flight.remove(claim.allocation))

    # --- what a node can reach ----------------------------------------------------------------------------------------

    def pools(self, row: int) -> tuple[Pool, ...]:
        """The pools that the node of a row can reach, in the order in which they are searched."""
        stamp = self._stamp(row)
        kept = self._pools_of_row.get(row)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        node = self._table.nodes[row]
        pools = (
            pools_of(self._slices, self._foreign, node.metadata.name, node.metadata.labels) if node is not None else ()
        )
        self._pools_of_row[row] = (stamp, pools)
        return pools

    def signature(self, row: int) -> int:
        """Equal for nodes whose devices look alike and are taken alike, whatever the nodes are called."""
        stamp = self._stamp(row)
        kept = self._signature_of_row.get(row)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        parts = tuple([self._look_of(pool, self._table.names[row]) for pool in self.pools(row)])
        if len(self._signatures) >= MAX_SIGNATURES:
            self._forget_signatures()
            stamp = self._stamp(row)
        number = self._signatures.setdefault(parts, len(self._signatures))
        self._signature_of_row[row] = (stamp, number)
        return number

    def _forget_signatures(self) -> None:
        """Numbers are given again, so that every answer by number is void."""
        self._signatures.clear()
        self._contents.clear()
        self._signature_of_row.clear()
        self.common_version += 1

    def _look_of(self, pool: Pool, node: str) -> Hashable:
        driver, name = pool.key
        own = all(part.slice.spec.node_name == node for part in pool.parts)
        contents = tuple([(part.name if not own else "", self._content(part.content)) for part in pool.parts])
        # What other nodes' slices of the pool add is known by their names: such pools look like no other.
        beyond = () if own and len(pool.consumers) <= len(pool.devices) else tuple([one.id for one in pool.consumers])
        reach = () if own else tuple([one.is_reachable for one in pool.devices])
        where = () if own else tuple([part.slice.spec.node_name == node for part in pool.parts])
        held = tuple([_held(holdings, pool.key) for holdings in (self.stored, self.in_flight)])
        return driver, "" if name == node else name, pool.state, contents, reach, where, beyond, held

    def _content(self, content: bytes) -> int:
        return self._contents.setdefault(content, len(self._contents))

    def row_versions(self, size: int) -> npt.NDArray[np.int64]:
        """By row, at least so many: grows with what concerns the row alone."""
        self._grow(size)
        return self._row_versions

    def _stamp(self, row: int) -> tuple[int, int]:
        self._grow(row + 1)
        return self.common_version, int(self._row_versions[row])

    def _grow(self, size: int) -> None:
        known = len(self._row_versions)
        if known < size:
            self._row_versions = np.append(self._row_versions, np.zeros(max(size, 2 * known) - known, np.int64))

    def _touch_row(self, row: int) -> None:
        self._grow(row + 1)
        self._row_versions[row] += 1

    def _touch_pools(self, pools: tuple[PoolKey, ...]) -> None:
        for pool in pools:
            self._touch_pool(pool)

    def _touch_pool(self, pool: PoolKey) -> None:
        self._touch_nodes(self._slices.nodes_of(pool))

    def _touch_nodes(self, nodes: frozenset[str] | None) -> None:
        if nodes is None:
            self.common_version += 1
            return
        for name in nodes:
            row = self._table.row(name)
            if row is not None:
                self._touch_row(row)

    def is_of(self, table: NodeTable) -> bool:
        """Whether rows here mean rows of this table."""
        return table is self._table

    def row_of(self, name: str) -> int | None:
        return self._table.existing_row(name)

    # --- copies and invariants ----------------------------------------------------------------------------------------

    def fork(self, table: NodeTable, objects: ObjectStore) -> Devices:
        """The same over forks of the table and the objects; neither side sees what the other does from now on. Pools
        and signatures are worked out again as they are asked for."""
        other = Devices(table, objects)
        other.catch_up()
        other.classes = self.classes.copy()
        other.in_flight = self.in_flight.copy()
        other._set_aside = dict(self._set_aside)
        other._pod_of_claim = dict(self._pod_of_claim)
        other._orphans = dict(self._orphans)
        other._writes = dict(self._writes)
        other.now_nanoseconds = self.now_nanoseconds
        other.version = self.version
        return other

    def check(self) -> None:
        """Raise InvariantViolation unless a recount of all claims gives the same."""
        self.catch_up()
        recount = Holdings()
        for claim in self._objects.all(Kind.RESOURCE_CLAIM).values():
            if claim.allocation is not None:
                recount.add(claim.key, claim.allocation)
        if recount != self.stored:
            raise InvariantViolation("allocated devices differ from a recount")
        placed = {uid for pods in self._table.pods for uid in pods}
        flying = Holdings()
        for uid, held in self._set_aside.items():
            if uid not in placed:
                raise InvariantViolation(f"{uid} has devices set aside but is on no node")
            for claim in held.claims:
                if self._pod_of_claim.get(claim.claim_uid) == uid:
                    flying.add(claim.claim_key, claim.allocation)
        for orphan in self._orphans.values():
            flying.add(orphan.claim_key, orphan.allocation)
        if flying != self.in_flight:
            raise InvariantViolation("devices in flight differ from a recount")
        for device in self.in_flight:
            if device in set(self.stored):
                raise InvariantViolation(f"device {'/'.join(device)} is allocated and set aside for another claim")


def _held(holdings: Holdings, pool: PoolKey) -> Hashable:
    taken, shares = holdings.taken_in(pool), holdings.shares_in(pool)
    if not taken and not shares:
        return ()
    shared = []
    for device in sorted(shares):
        for share in sorted(shares[device]):
            shared.append((device, share, tuple(sorted(shares[device][share].items()))))
    return tuple(sorted(taken)), tuple(shared)
