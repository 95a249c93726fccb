"""The devices of the cluster: published slices, allocations, and what is set aside for pods that are being bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from scheduler.cluster.devices.allocated import Holdings, takes_the_same
from scheduler.cluster.devices.answers import KeptAnswers, KeptNeeds
from scheduler.cluster.devices.extended_resources import ClassesByResource
from scheduler.cluster.devices.looks import Looks, PoolLooks
from scheduler.cluster.devices.pools import Pool, foreign_pool, reachable_devices
from scheduler.cluster.devices.reached import ReachedPools
from scheduler.cluster.devices.reserved import ClaimInFlight, GivenUp, SetAside
from scheduler.cluster.devices.slices import DeviceId, PoolKey, SliceDevice, SliceIndex
from scheduler.cluster.devices.special_claims import SpecialClaims, pod_of_special_claim, special_claim_uid
from scheduler.cluster.devices.tallies import KeptTallies
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.errors import InvariantViolation
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.resource_claims import Allocation, ResourceClaim


class Devices:
    """One of the tallies of the cluster cache. Rows mean rows of ``table``."""

    def __init__(self, table: NodeTable, objects: ObjectStore) -> None:
        self._table = table
        self._objects = objects
        self._slices = SliceIndex()
        self._reached = ReachedPools(table, self._slices)
        self._foreign: dict[PoolKey, Pool] = {}
        """Pools with a fault in their counters, as nodes see them that have nothing else of them."""
        self.stored = Holdings()
        """What claims hold as the API server says."""
        self.in_flight = Holdings()
        """What is set aside besides ``stored``."""
        self.classes = ClassesByResource()
        self._set_aside: dict[str, SetAside] = {}
        self._pods_of_claim: dict[str, tuple[str, ...]] = {}
        """Claim UID → the pods that have it in flight, with one allocation for all of them."""
        self._writes: dict[int, str] = {}
        """Ticket → UID of the claim whose allocation is being written."""
        self._orphans: dict[str, ClaimInFlight] = {}
        """Claims whose pod is not coming, but whose allocation may still be written: their devices stay taken."""
        self._uncertain: set[str] = set()
        """UIDs of claims in flight of which a write has ended that may have been done."""
        self._given_up: list[GivenUp] = []
        self.looks = Looks()
        """The looks that ``signatures`` number."""
        self.version = 0
        """Grows with every change."""
        self.answers = KeptAnswers()
        self.needs = KeptNeeds()
        self.tallies = KeptTallies()
        self.now_nanoseconds = 0
        """Wall clock of the attempt in hand."""
        self._special = SpecialClaims()
        self._seen = dict.fromkeys((Kind.RESOURCE_SLICE, Kind.RESOURCE_CLAIM, Kind.DEVICE_CLASS), 0)

    # --- pods and nodes -----------------------------------------------------------------------------------------------

    def add(self, info: PodInfo, row: int) -> None:
        """Count a pod on a row: nothing to do, since claims say which pod holds what."""

    def remove(self, info: PodInfo, row: int) -> None:
        """Release what is set aside for a pod that leaves its node."""
        self.give_back(info.uid)

    def replace(self, known: PodInfo, info: PodInfo, row: int) -> None:
        """Replace a pod of a row by another version: nothing to do."""

    def node_changed(self, row: int) -> None:
        """Note that the Node of a row was replaced or removed."""
        self._reached.touch_row(row, with_pools=True)
        self.version += 1

    # --- objects ------------------------------------------------------------------------------------------------------

    def observe(self, kind: Kind, old: ApiObject | None, new: ApiObject | None) -> None:
        """Apply a change of the store, just after it: ``old`` is None for a new object, ``new`` for a removed one."""
        seen = self._seen.get(kind)
        if seen is None or (old is None and new is None) or seen + 1 != self._objects.version(kind):
            return
        self._seen[kind] = seen + 1
        self.version += 1
        if kind is Kind.RESOURCE_SLICE:
            slices = [one for one in (old, new) if isinstance(one, ResourceSlice)]
            pools = dict.fromkeys((one.spec.driver, one.spec.pool.name) for one in slices)
            self._reached.touch_pools(pools)
            self._slices.observe(cast(ResourceSlice | None, old), cast(ResourceSlice | None, new))
            self._reached.touch_pools(pools)
            for one in slices:
                self._reached.touch_nodes((one.spec.node_name or "",), with_pools=True)
            for pool in pools:
                self._look_from_afar(pool)
        elif kind is Kind.RESOURCE_CLAIM:
            self._claim_changed(cast(ResourceClaim | None, old), cast(ResourceClaim | None, new))
        else:
            self.classes.observe(cast(DeviceClass | None, old), cast(DeviceClass | None, new))

    def _look_from_afar(self, key: PoolKey) -> None:
        """Note a pool's counters as other nodes see them: they matter there only while the pool has a fault."""
        found = foreign_pool(self._slices, key)
        known = self._foreign.pop(key, None)
        if found is not None:
            self._foreign[key] = found
        if _from_afar(found) != _from_afar(known):
            self._reached.touch_all(with_pools=True)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Allocations are distinguished by the claim's UID: one that was made again under its name is another claim.

        Where an allocation in flight lands as it was decided, no node has more or less than before.
        """
        self._special.observe(old, new)
        if old is not None and new is not None and old.uid == new.uid and old.allocation == new.allocation:
            return
        if old is not None and old.allocation is not None:
            self._reached.touch_held(self.stored.remove(old.key, old.allocation))
        if new is not None and new.allocation is not None:
            uids = [new.uid]
            pod_uid = pod_of_special_claim(new)
            if pod_uid is not None:
                uids.append(special_claim_uid(pod_uid))
            expected = [found for uid in uids if (found := self._flying(uid)) is not None]
            is_expected = len(expected) == 1 and takes_the_same(expected[0].allocation, new.allocation)
            taken = self.stored.add(new.key, new.allocation)
            if not is_expected:
                self._reached.touch_held(taken)
            for uid in uids:
                self._landed(uid, is_expected=is_expected)
        if old is not None and (new is None or new.uid != old.uid):
            self._landed(old.uid)

    def _flying(self, claim_uid: str) -> ClaimInFlight | None:
        orphan = self._orphans.get(claim_uid)
        pods = self._pods_of_claim.get(claim_uid)
        if orphan is not None or pods is None:
            return orphan
        return next(claim for claim in self._set_aside[pods[0]].claims if claim.claim_uid == claim_uid)

    def special_claims_of(self, pod_uid: str) -> tuple[ResourceClaim, ...]:
        """The claims that the scheduler made for the pod's extended resources."""
        return self._special.of(pod_uid)

    def catch_up(self) -> None:
        """Rebuild from the store where it changed without ``observe`` (tests, copies)."""
        for kind, seen in self._seen.items():
            version = self._objects.version(kind)
            if seen == version:
                continue
            self._seen[kind] = version
            self.version += 1
            self._reached.touch_all(with_pools=kind is Kind.RESOURCE_SLICE)
            if kind is Kind.RESOURCE_SLICE:
                self._slices.rebuild(self._objects.all_of(ResourceSlice).values())
                self._foreign = {}
                for key in self._slices.pools_with_counters:
                    self._look_from_afar(key)
            elif kind is Kind.DEVICE_CLASS:
                self.classes.clear()
                for device_class in self._objects.all_of(DeviceClass).values():
                    self.classes.observe(None, device_class)
            else:
                self.stored = Holdings()
                self._special = SpecialClaims()
                for claim in self._objects.all_of(ResourceClaim).values():
                    self._special.observe(None, claim)
                    if claim.allocation is not None:
                        self.stored.add(claim.key, claim.allocation)

    # --- assumptions --------------------------------------------------------------------------------------------------

    def set_aside_for(self, pod_uid: str) -> SetAside | None:
        return self._set_aside.get(pod_uid)

    def pods_with_claim_in_flight(self, claim_uid: str) -> tuple[str, ...] | None:
        """The UIDs of the pods for which the claim is being allocated, none where they have given up meanwhile; None
        where it is not."""
        return () if claim_uid in self._orphans else self._pods_of_claim.get(claim_uid)

    def allocation_in_flight(self, claim_uid: str) -> Allocation | None:
        return None if (found := self._flying(claim_uid)) is None else found.allocation

    def set_aside(self, change: SetAside) -> None:
        """Set devices aside for a pod. Raises InvariantViolation for a claim that is in flight already with another
        allocation, and then has changed nothing."""
        for claim in change.claims:
            known = self._flying(claim.claim_uid)
            if known is not None and (claim.claim_uid in self._orphans or known.allocation != claim.allocation):
                raise InvariantViolation(f"claim {claim.claim_key} is in flight already")
        self.give_back(change.pod_uid)
        self._set_aside[change.pod_uid] = change
        self.version += 1
        for claim in change.claims:
            holders = self._pods_of_claim.get(claim.claim_uid, ())
            self._pods_of_claim[claim.claim_uid] = (*holders, change.pod_uid)
            if not holders:
                self._reached.touch_held(self.in_flight.add(claim.claim_key, claim.allocation))

    def give_back(self, pod_uid: str) -> None:
        """Release what is set aside for a pod. Devices of a claim whose write is under way stay taken until it ends."""
        held = self._set_aside.pop(pod_uid, None)
        if held is None:
            return
        open_writes = set(self._writes.values())
        for claim in held.claims:
            rest = self._without_holder(claim.claim_uid, pod_uid)
            if rest is None or rest:
                continue
            if claim.claim_uid in open_writes:
                self._orphans[claim.claim_uid] = claim
            else:
                self._drop_from_flight(claim, is_expected=False)
        self.version += 1

    def _without_holder(self, claim_uid: str, pod_uid: str) -> tuple[str, ...] | None:
        """The other pods that have the claim in flight; None if this one no longer has it."""
        holders = self._pods_of_claim.pop(claim_uid, None)
        if holders is None:
            return None
        rest = tuple([uid for uid in holders if uid != pod_uid])
        if rest:
            self._pods_of_claim[claim_uid] = rest
        return rest

    def write_sent(self, ticket: int, claim_uid: str) -> None:
        """Note that the allocation of a claim in flight has been sent to the API server."""
        self._writes[ticket] = claim_uid

    def write_finished(self, ticket: int, *, is_certain: bool = True) -> None:
        """Note that the write of an allocation has ended; if it succeeded, the claim has been observed. ``is_certain``:
        if not, it may have been done all the same."""
        claim_uid = self._writes.pop(ticket, None)
        if claim_uid is None:
            return
        if not is_certain and self._flying(claim_uid) is not None:
            self._uncertain.add(claim_uid)
        if claim_uid not in self._writes.values():
            self._drop_orphan(claim_uid)

    def take_given_up(self) -> Sequence[GivenUp]:
        """The claims since the last call that were in flight and have not got their devices."""
        given_up, self._given_up = self._given_up, []
        return given_up

    def _drop_orphan(self, claim_uid: str, *, is_expected: bool = False) -> None:
        claim = self._orphans.pop(claim_uid, None)
        if claim is not None:
            self._drop_from_flight(claim, is_expected=is_expected)
            self.version += 1

    def _landed(self, claim_uid: str, *, is_expected: bool = False) -> None:
        """The API server knows of the claim's allocation, or the claim is gone: nothing is in flight any more.
        ``is_expected``: what was in flight is what the API server has."""
        self._drop_orphan(claim_uid, is_expected=is_expected)
        claim = self._flying(claim_uid)
        if claim is not None:
            del self._pods_of_claim[claim_uid]
            self._drop_from_flight(claim, is_expected=is_expected)

    def _drop_from_flight(self, claim: ClaimInFlight, *, is_expected: bool) -> None:
        devices = self.in_flight.remove(claim.claim_key, claim.allocation)
        is_certain = claim.claim_uid not in self._uncertain
        self._uncertain.discard(claim.claim_uid)
        if not is_expected:
            self._reached.touch_held(devices)
            known = self._objects.find(ResourceClaim, claim.claim_key)
            self._given_up.append(GivenUp.of(claim, known, is_certain=is_certain))

    # --- what a node can reach ----------------------------------------------------------------------------------------

    def pools(self, row: int) -> tuple[Pool, ...]:
        """The pools that the node of a row can reach, in the order in which they are searched."""
        return self._reached.pools(row, self._foreign)

    def reachable(self, row: int) -> Iterator[SliceDevice]:
        """All devices that the node of a row can reach, whatever the state of their pools."""
        node = self._table.nodes[row]
        return iter(()) if node is None else reachable_devices(self._slices, node.metadata.name, node.metadata.labels)

    def is_held(self, device: DeviceId) -> bool:
        """Whether a claim holds all or a part of the device."""
        driver, pool, name = device
        key = (driver, pool)
        return any(name in one.taken_in(key) or name in one.shares_in(key) for one in (self.stored, self.in_flight))

    def signatures(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """A number for each row asked: equal for nodes whose devices look alike and are taken alike, whatever the nodes
        are called. Numbers of one version of ``looks`` compare."""
        versions, holdings = self.row_versions(), (self.stored, self.in_flight)
        return self.looks.of_rows(rows, versions, self.common_version, PoolLooks(self._pools_and_name, holdings))

    def signatures_in_parts(self, rows: npt.NDArray[np.int64], size: int) -> Iterator[npt.NDArray[np.int64]]:
        """The same, of ``size`` rows after the other. Nothing may change in between."""
        versions, holdings = self.row_versions(), (self.stored, self.in_flight)
        looks = PoolLooks(self._pools_and_name, holdings)
        for begin in range(0, len(rows), size):
            yield self.looks.of_rows(rows[begin : begin + size], versions, self.common_version, looks)

    def _pools_and_name(self, row: int) -> tuple[tuple[Pool, ...], str]:
        return self.pools(row), self._table.names[row]

    def signature(self, row: int) -> int:
        return int(self.signatures(np.array([row], np.int64))[0])

    @property
    def common_version(self) -> int:
        """Grows with what concerns every node."""
        return self._reached.common_version

    def row_versions(self) -> npt.NDArray[np.int64]:
        """A version for each row, which grows with what concerns the row alone."""
        return self._reached.versions()

    def is_of(self, table: NodeTable) -> bool:
        """Whether rows here mean rows of this table."""
        return table is self._table

    def name_of(self, row: int) -> str:
        return self._table.names[row]

    def node_of(self, row: int) -> Node | None:
        return self._table.nodes[row]

    def row_of(self, name: str) -> int | None:
        return self._table.existing_row(name)

    # --- copies and invariants ----------------------------------------------------------------------------------------

    def fork(self, table: NodeTable, objects: ObjectStore) -> Devices:
        """The same over forks of the table and the objects; neither side sees what the other does from now on. Costs
        no more with more slices and claims: both are layers (``docs/forks.md``)."""
        self.catch_up()
        other = Devices(table, objects)
        other._seen = dict(self._seen)
        other._slices = self._slices.fork()
        other._reached = self._reached.fork(table, other._slices)
        other._foreign = dict(self._foreign)
        other.stored = self.stored.fork()
        other.in_flight = self.in_flight.fork()
        other.classes = self.classes.copy()
        other._special = self._special.fork()
        other._set_aside = dict(self._set_aside)
        other._pods_of_claim = dict(self._pods_of_claim)
        other._orphans = dict(self._orphans)
        other._writes = dict(self._writes)
        other.looks = self.looks.fork()
        other.now_nanoseconds = self.now_nanoseconds
        other.version = self.version
        return other

    def check(self) -> None:
        """Raise InvariantViolation unless a recount of all claims gives the same."""
        self.catch_up()
        recount = Holdings()
        for written in self._objects.all_of(ResourceClaim).values():
            if written.allocation is not None:
                recount.add(written.key, written.allocation)
        if recount != self.stored:
            raise InvariantViolation("allocated devices differ from a recount")
        placed = {uid for pods in self._table.pods for uid in pods}
        flying = Holdings()
        for uid, held in self._set_aside.items():
            if uid not in placed:
                raise InvariantViolation(f"{uid} has devices set aside but is on no node")
            for claim in held.claims:
                if self._pods_of_claim.get(claim.claim_uid, ("",))[0] == uid:
                    flying.add(claim.claim_key, claim.allocation)
        for orphan in self._orphans.values():
            flying.add(orphan.claim_key, orphan.allocation)
        if flying != self.in_flight:
            raise InvariantViolation("devices in flight differ from a recount")
        for device in self.in_flight:
            if device in set(self.stored):
                raise InvariantViolation(f"device {'/'.join(device)} is allocated and set aside for another claim")


def _from_afar(pool: Pool | None) -> tuple[object, ...]:
    """What a node sees of a pool with a fault that it has no device of: the slices with its counters, and whose."""
    if pool is None:
        return ()
    parts = [(part.name, part.slice.spec.node_name) for part in pool.parts]
    return (pool.state, pool.fault, pool.counter_sets, parts)
