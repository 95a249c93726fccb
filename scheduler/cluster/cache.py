"""The cluster cache: the observed nodes, pods and objects, and the pods assumed until the watch confirms them.

A pod on a node is *added* (the watch showed it there) or *assumed* (we decided so and the bind is under way). Assumed
pods never expire: they are confirmed by the watch or forgotten by us (docs/kube-scheduler/cycle.md §11). Facts and
assumptions are counted alike in the table and the tallies.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Protocol, assert_never

from scheduler.cluster.affinity_terms import AffinityTerms
from scheduler.cluster.devices.facts import Devices
from scheduler.cluster.devices.reserved import GiveBack, SetAside
from scheduler.cluster.effects import Effect
from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.groups.facts import Groups
from scheduler.cluster.groups.group import GroupApi
from scheduler.cluster.image_index import ImageIndex
from scheduler.cluster.nominator import Nominator, PodLookup
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_counts import PodCounts
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.row_journal import NODE_CHANGED, USAGE_CHANGED, RowJournal
from scheduler.cluster.table import NodeTable
from scheduler.cluster.view import View
from scheduler.cluster.volumes.alike import likeness_key
from scheduler.cluster.volumes.facts import Volumes
from scheduler.cluster.volumes.reserved import Release, Reservation
from scheduler.errors import InvariantViolation
from scheduler.objects.changes import ALLOCATABLE, DECISIVE, IMAGES, LABELS, node_difference
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node


class Tally(Protocol):
    """Something that counts pods on rows and receives every change, in the order of the changes."""

    def add(self, info: PodInfo, row: int) -> None: ...

    def remove(self, info: PodInfo, row: int) -> None: ...

    def replace(self, known: PodInfo, info: PodInfo, row: int) -> None: ...

    def check(self) -> None: ...


_READ_BY_DEVICES = LABELS | ALLOCATABLE
"""What questions about devices read of a node: the pools that its labels reach, and whether it offers a resource
itself, so that no device is wanted for it."""


class Confirmation(Enum):
    """The effect on the cache of a watch event about an assigned pod."""

    NEW = "new"
    CONFIRMED = "confirmed"
    MOVED = "moved"
    """It was assumed on one node and turned up on another."""
    CHANGED = "changed"


class ClusterCache:
    """All nodes and all placed pods, of every scheduler."""

    def __init__(
        self, selector_limit: int = 1024, lookup: PodLookup | None = None, group_apis: Sequence[GroupApi] = ()
    ) -> None:
        """``selector_limit``: the number of selectors whose matching pods are counted. ``lookup``: the pod as last
        observed, for the nominator. ``group_apis``: those that name groups of pods."""
        self.table = NodeTable()
        self.objects = ObjectStore()
        self.images = ImageIndex()
        self.journal = RowJournal()
        self.pod_counts = PodCounts(self.table, selector_limit)
        self.affinity_terms = AffinityTerms(self.table)
        self.volumes = Volumes(self.table, self.objects)
        self.devices = Devices(self.table, self.objects)
        self.groups = Groups(group_apis)
        self.nominator = Nominator(lookup, self.affinity_terms)
        self._placed: ForkableDict[str, PodInfo] = ForkableDict()
        self._assumed: dict[str, None] = {}
        self._effects = 0
        self._put_together()

    def _put_together(self) -> None:
        self._tallies: tuple[Tally, ...] = (
            self.pod_counts,
            self.affinity_terms,
            self.volumes,
            self.devices,
            self.groups,
        )
        self.view = View(self.table, self)

    def fork(self) -> ClusterCache:
        """A copy of the whole cluster, made quickly; later changes of either side do not show in the other. The
        contract and the cost: docs/forks.md."""
        other = ClusterCache.__new__(ClusterCache)
        other.table = self.table.fork()
        other.objects = self.objects.fork()
        other.images = self.images.fork()
        other.journal = self.journal.fork()
        other.pod_counts = self.pod_counts.fork(other.table)
        other.affinity_terms = self.affinity_terms.fork(other.table)
        other.volumes = self.volumes.fork(other.table, other.objects)
        other.devices = self.devices.fork(other.table, other.objects)
        other.groups = self.groups.fork()
        other.nominator = self.nominator.fork(other.affinity_terms)
        other._placed = self._placed.fork()
        other._assumed = dict(self._assumed)
        other._effects = self._effects
        other._put_together()
        return other

    # --- nodes --------------------------------------------------------------------------------------------------------

    def observe_node(self, node: Node) -> None:
        """Add a node, or replace its object."""
        old = self.table.node(node.metadata.name)
        if old is not None and old.metadata.uid == node.metadata.uid:
            self.replace_node(old, node, node_difference(old, node))
            return
        if old is not None:
            self.images.change(self.table.row(node.metadata.name) or 0, old, None)
        self.add_node(node)

    def add_node(self, node: Node) -> None:
        """Add a node of a name that no other has."""
        row = self.table.put_node(node)
        self.images.change(row, None, node)
        self.devices.node_changed(row)
        self.journal.append(row, NODE_CHANGED | USAGE_CHANGED)

    def replace_node(self, old: Node, node: Node, difference: int) -> None:
        """Replace the object of a node that is there by another version; ``difference`` is that of the two."""
        row = self.table.replace_node(old, node, difference)
        if difference & DECISIVE:
            if difference & IMAGES:
                self.images.change(row, old, node)
            if difference & _READ_BY_DEVICES:
                self.devices.node_changed(row)
            self.journal.append(row, NODE_CHANGED)

    def remove_node(self, name: str) -> bool:
        """Remove a node; pods left on it stay counted until they are removed. False if it was not known."""
        row = self.table.existing_row(name)
        if row is None:
            return False
        self.images.change(row, self.table.nodes[row], None)
        self.table.drop_node(name)
        self.devices.node_changed(row)
        self.journal.append(row, NODE_CHANGED | USAGE_CHANGED)
        return True

    # --- other objects ------------------------------------------------------------------------------------------------

    def observe_object(self, kind: Kind, obj: ApiObject) -> ApiObject | None:
        """Store an object that is neither node nor pod; returns the one that it replaces."""
        old: ApiObject | None = self.objects.put(kind, obj.key, obj)
        self.volumes.observe(kind, old, obj)
        self.devices.observe(kind, old, obj)
        self.groups.observe(kind, old, obj)
        return old

    def remove_object(self, kind: Kind, key: str) -> ApiObject | None:
        """Remove an object that is neither node nor pod; returns the last known version."""
        old: ApiObject | None = self.objects.drop(kind, key)
        self.volumes.observe(kind, old, None)
        self.devices.observe(kind, old, None)
        self.groups.observe(kind, old, None)
        return old

    # --- pods ---------------------------------------------------------------------------------------------------------

    def observe_pod(self, info: PodInfo) -> Confirmation:
        """Apply a watch event about an assigned pod: added, changed, or the confirmation of our own bind."""
        known = self._placed.get(info.uid)
        if known is None:
            self._put(info)
            return Confirmation.NEW
        was_assumed = info.uid in self._assumed
        if was_assumed:
            del self._assumed[info.uid]
        if known.node_name != info.node_name:
            self._take(known)
            self._put(info)
            return Confirmation.MOVED
        self._replace(known, info)
        return Confirmation.CONFIRMED if was_assumed else Confirmation.CHANGED

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Remove a pod, assumed or not; returns the last known version."""
        known = self._placed.get(uid)
        if known is not None:
            self._assumed.pop(uid, None)
            self._take(known)
        return known

    def assume(self, info: PodInfo) -> None:
        """Count a pod on ``info.node_name`` before the API server knows. Raises InvariantViolation if it is there."""
        if info.uid in self._placed:
            raise InvariantViolation(f"pod {info.uid}({info.key}) is in the cache, so can't be assumed")
        self._put(info)
        self._assumed[info.uid] = None

    def forget(self, uid: str) -> PodInfo | None:
        """Take an assumption back. None if the pod is unknown; raises InvariantViolation if it was confirmed."""
        known = self._placed.get(uid)
        if known is None:
            return None
        if uid not in self._assumed:
            raise InvariantViolation(f"pod {uid}({known.key}) wasn't assumed so cannot be forgotten")
        del self._assumed[uid]
        self._take(known)
        return known

    @property
    def state(self) -> tuple[int, ...]:
        """Equal states promise that nothing has changed in between that the built-in plugins read: no node, no other
        object, no pod on a node, no nomination, nothing set aside. Grows with what is observed or decided alone, and
        never by a question, so that it is the same in a recording's replay."""
        return self.journal.version, self.objects.changes, self._effects, self.nominator.version

    def likeness_key(self, pod: PodInfo) -> Hashable | None:
        """Equal for pods that built-in plugins refuse alike; see ``volumes/alike.py``."""
        return likeness_key(pod, self.volumes)

    def apply(self, effect: Effect) -> None:
        """Apply an effect of a plugin's Reserve or Unreserve. Raises OutOfSync, and then has changed nothing."""
        self._effects += 1
        match effect:
            case Reservation():
                self.volumes.reserve(effect)
            case Release():
                self.volumes.release(effect.pod_uid)
            case SetAside():
                self.devices.set_aside(effect)
            case GiveBack():
                self.devices.give_back(effect.pod_uid)
            case _:
                assert_never(effect)

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def assumed(self, uid: str) -> PodInfo | None:
        """The pod as it is assumed on its node; None where it is not, or was confirmed."""
        return self._placed[uid] if uid in self._assumed else None

    def placed(self, uid: str) -> PodInfo | None:
        """The pod as it is counted on its node, or None."""
        return self._placed.get(uid)

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """All placed pods by UID."""
        return self._placed

    @property
    def assumed_count(self) -> int:
        return len(self._assumed)

    @property
    def assumed_pods(self) -> list[PodInfo]:
        return [self._placed[uid] for uid in self._assumed]

    # --- reconciling and invariants -----------------------------------------------------------------------------------

    def node_names(self) -> list[str]:
        """The names of all nodes."""
        return [name for name in self.table.names if name and self.table.existing_row(name) is not None]

    def reconcile(
        self,
        nodes: Mapping[str, Node],
        pods: Mapping[str, PodInfo],
        absent_nodes: Iterable[str],
        absent_pods: Iterable[str],
    ) -> tuple[str, ...]:
        """Compare with a part of what the API server lists (nodes by name; assigned pods by UID; names of nodes and
        UIDs of assigned pods that are not there) and repair what differs.

        Assumed pods that are absent are left alone: their bind may be under way. Returns a line for each repair.
        """
        repairs: list[str] = []
        for name in absent_nodes:
            if self.table.existing_row(name) is not None:
                self.remove_node(name)
                repairs.append(f"node {name} no longer exists")
        for name, node in nodes.items():
            row = self.table.existing_row(name)
            known = self.table.nodes[row] if row is not None else None
            if known is None or known.metadata.resource_version != node.metadata.resource_version:
                self.observe_node(node)
                repairs.append(f"node {name} {'was missing' if known is None else 'was out of date'}")
        for uid in absent_pods:
            if uid in self._placed and uid not in self._assumed:
                gone = self.remove_pod(uid)
                repairs.append(f"pod {gone.key if gone else uid} no longer exists")
        for uid, info in pods.items():
            placed = self._placed.get(uid)
            if placed is None or placed.node_name != info.node_name:
                self.observe_pod(info)
                repairs.append(f"pod {info.key} {'was missing' if placed is None else 'was on another node'}")
        return tuple(repairs)

    def check(self) -> None:
        """Raise InvariantViolation unless the table and the tallies are what a recount of all pods gives."""
        recount = NodeTable(self.table.vocabulary)
        for name in self.table.names:
            if name:
                row = self.table.row(name)
                node = self.table.nodes[row] if row is not None else None
                if node is not None:
                    recount.put_node(node)
        for info in self._placed.values():
            recount.add_pod(info)
        for row, name in enumerate(self.table.names):
            if not name:
                continue
            other = recount.row(name)
            if other is None:
                raise InvariantViolation(f"row {row} of {name} has neither node nor pods")
            if set(self.table.pods[row]) != set(recount.pods[other]):
                raise InvariantViolation(f"pods of {name} differ from a recount")
            for column in ("requested_cpu", "requested_memory", "requested_storage", "non_zero_cpu", "non_zero_memory"):
                found, expected = getattr(self.table, column)[row], getattr(recount, column)[other]
                if found != expected:
                    raise InvariantViolation(f"{column} of {name} is {found}, a recount gives {expected}")
            if self.table.pod_count[row] != len(self.table.pods[row]):
                raise InvariantViolation(f"pod_count of {name} is wrong")
        if len(self.table.order) != self.table.node_count:
            raise InvariantViolation("the order of nodes does not hold every node")
        for uid in self._assumed:
            if uid not in self._placed:
                raise InvariantViolation(f"{uid} is assumed but not placed")
        self.table.check()
        for tally in self._tallies:
            tally.check()
        self.groups.check_placed(self._placed)
        self.nominator.check()

    # --- one place for every change of what is on a row ---------------------------------------------------------------

    def _put(self, info: PodInfo) -> None:
        row = self.table.add_pod(info)
        updated = 0
        try:
            for tally in self._tallies:
                tally.add(info, row)
                updated += 1
        except BaseException:
            for tally in self._tallies[:updated]:
                tally.remove(info, row)
            self.table.remove_pod(row, info.uid)
            raise
        self._placed[info.uid] = info
        self.journal.append(row, USAGE_CHANGED)

    def _take(self, known: PodInfo) -> None:
        row = self.table.row(known.node_name)
        if row is None:
            raise InvariantViolation(f"pod {known.key} is placed on {known.node_name}, which has no row")
        del self._placed[known.uid]
        for tally in self._tallies:
            tally.remove(known, row)
        self.table.remove_pod(row, known.uid)
        self.journal.append(row, USAGE_CHANGED)

    def _replace(self, known: PodInfo, info: PodInfo) -> None:
        """Replace a placed pod by another version. Most updates are of the status and change nothing counted."""
        if known.takes_as_much_as(info):
            row = self.table.row(info.node_name)
            if row is None:
                raise InvariantViolation(f"pod {info.key} is placed on {info.node_name}, which has no row")
            self._placed[info.uid] = info
            has_ports_again = self.table.replace_pod(row, info)
            for tally in self._tallies:
                tally.replace(known, info, row)
            if has_ports_again or not looks_the_same(known, info):
                self.journal.append(row, USAGE_CHANGED)
            return
        self._take(known)
        self._put(info)


def looks_the_same(one: PodInfo, other: PodInfo) -> bool:
    """Whether plugins that look at the pods of a node see no difference; statuses come and go by the second."""
    return (
        one.labels == other.labels
        and one.pod.metadata.annotations == other.pod.metadata.annotations
        and one.is_terminating == other.is_terminating
    )
