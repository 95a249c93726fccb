"""The nominator: pods nominated to a node, most often while their victims terminate.

A nominated pod counts as if it ran there for every pod of equal or lower priority. The nominator leads;
``status.nominatedNodeName`` in the API is its persistent but delayed copy (docs/kube-scheduler/queue.md §13,
preemption.md §8).
Unlike kube-scheduler 1.36 it keeps the pods themselves, so that one in flight still counts with its requests.
"""

from __future__ import annotations

from collections.abc import Callable, KeysView
from typing import Protocol

from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.pod_info import PodInfo
from scheduler.errors import InvariantViolation

CHANGES_KEPT = 4096


class TermHolder(Protocol):
    """Keeps the affinity terms of nominated pods, although these count nowhere: ``affinity_terms.py``."""

    def hold(self, info: PodInfo) -> None: ...

    def release(self, info: PodInfo) -> None: ...


PodLookup = Callable[[str], PodInfo | None]
"""``namespace/name`` → the pod as last observed; None if it is gone."""


class Nominator:
    """Nominations by UID, in the order in which they were made.

    ``lookup`` guards against ghosts: a pod that was deleted, replaced by another of its name, or bound while it was
    being tried must not be nominated, since nothing would ever take that back. None, of forks, where nothing comes from
    the watch: every pod without a node may be nominated.
    """

    __slots__ = ("_by_node", "_changed_nodes", "_first_change", "_foreign", "_lookup", "_node_of", "_terms", "identity")

    def __init__(self, lookup: PodLookup | None, terms: TermHolder | None = None) -> None:
        self._lookup = lookup
        self._terms = terms
        self._node_of: ForkableDict[str, str] = ForkableDict()
        self._by_node: ForkableDict[str, dict[str, PodInfo]] = ForkableDict()
        self._foreign: set[str] = set()
        self._changed_nodes: list[str] = []
        self._first_change = 0
        self.identity = object()
        """The identity of the log of changes. A reader that remembers a version remembers this, too, since a fork's
        changes are others."""

    # --- our own pods -------------------------------------------------------------------------------------------------

    def nominate(self, info: PodInfo, node: str) -> None:
        """Nominate the pod to the node that its attempt chose; "" clears the nomination."""
        self.delete(info.uid)
        if node and self._is_pending(info):
            self._put(info, node)

    def keep(self, tried: PodInfo, info: PodInfo) -> None:
        """Keep the pod's nomination after an attempt that decided nothing about it; without one, the status counts, as
        it does if the watch has shown a change of it since the attempt began. ``tried``: the pod as it was then.

        kube-scheduler 1.36 takes the status alone, and so drops a nomination whose write has not come back yet.
        """
        shown = info.pod.status.nominated_node_name
        known = self._node_of.get(info.uid, "") if tried.pod.status.nominated_node_name == shown else ""
        self.nominate(info, known or shown)

    def add(self, info: PodInfo) -> None:
        """Nominate a pod that is new in the queue as its status says."""
        node = info.pod.status.nominated_node_name
        if node or self._node_of:
            self.nominate(info, node)

    def update(self, old: PodInfo | None, new: PodInfo) -> None:
        """Apply a change of a waiting pod that the watch shows: its status counts. But an update that was under way
        before our own nomination was written (no node before, none after) leaves that one alone."""
        node = new.pod.status.nominated_node_name
        if not node and (old is None or not old.pod.status.nominated_node_name):
            node = self._node_of.get(new.uid, "")
        if old is not None and old.uid != new.uid:
            self.delete(old.uid)
        self.nominate(new, node)

    def delete(self, uid: str) -> None:
        """Drop the nomination of a pod that was deleted, assumed, or bound by another scheduler."""
        node = self._node_of.pop(uid, None) if self._node_of else None
        if node is None:
            return
        self._foreign.discard(uid)
        pods = self._by_node.writable(node, dict)
        known = pods.pop(uid)
        if self._terms is not None:
            self._terms.release(known)
        if not pods:
            del self._by_node[node]
        self._changed(node)

    # --- pods of other schedulers -------------------------------------------------------------------------------------

    def observe_foreign(self, info: PodInfo) -> None:
        """Nominate a pod of another scheduler as its status says, where those count too (``nominations: all``)."""
        node = "" if info.node_name or info.pod.is_finished else info.pod.status.nominated_node_name
        if not node:
            self.forget_foreign(info.uid)
            return
        self.delete(info.uid)
        self._put(info, node)
        self._foreign.add(info.uid)

    def forget_foreign(self, uid: str) -> None:
        """Drop the nomination of a pod of another scheduler that is gone or bound; our own pods keep theirs."""
        if uid in self._foreign:
            self.delete(uid)

    # --- questions ----------------------------------------------------------------------------------------------------

    def nominated_node(self, uid: str) -> str:
        """The node that the pod is nominated to, or ""."""
        return self._node_of.get(uid, "")

    def pods_for_node(self, node: str) -> tuple[PodInfo, ...]:
        """The pods nominated to a node, in the order of their nominations, those of other schedulers included."""
        pods = self._by_node.get(node)
        return tuple(pods.values()) if pods else ()

    @property
    def nodes(self) -> KeysView[str]:
        """The nodes with nominations."""
        return self._by_node.keys()

    @property
    def uids(self) -> KeysView[str]:
        """The pods that are nominated."""
        return self._node_of.keys()

    @property
    def version(self) -> int:
        """Grows by one with each change: what a reader that is up to date remembers."""
        return self._first_change + len(self._changed_nodes)

    def nodes_changed_since(self, version: int) -> set[str] | None:
        """Nodes whose nominations changed since ``version``; None where that is no longer known."""
        start = version - self._first_change
        return set(self._changed_nodes[start:]) if start >= 0 else None

    def is_foreign(self, uid: str) -> bool:
        return uid in self._foreign

    def __len__(self) -> int:
        """The number of nominated pods."""
        return len(self._node_of)

    def fork(self, terms: TermHolder) -> Nominator:
        """The same nominations over a fork of the terms; neither side sees what the other does from now on."""
        other = Nominator(None, terms)
        other._node_of = self._node_of.fork()
        other._by_node = self._by_node.fork()
        other._foreign = set(self._foreign)
        other._changed_nodes = self._changed_nodes[:]
        other._first_change = self._first_change
        return other

    def check(self) -> None:
        """Raise InvariantViolation unless both directions agree."""
        listed = {uid: node for node, pods in self._by_node.items() for uid in pods}
        if listed != self._node_of or any(not pods for pods in self._by_node.values()):
            raise InvariantViolation("nominations by node and by pod differ")
        if not self._foreign <= self._node_of.keys():
            raise InvariantViolation("a foreign pod is marked as nominated but is not")

    def _is_pending(self, info: PodInfo) -> bool:
        if self._lookup is None:
            return not info.node_name
        known = self._lookup(info.key)
        return known is not None and known.uid == info.uid and not known.node_name

    def _put(self, info: PodInfo, node: str) -> None:
        if self._terms is not None:
            self._terms.hold(info)
        self._node_of[info.uid] = node
        if node in self._by_node:
            self._by_node.writable(node, dict)[info.uid] = info
        else:
            self._by_node[node] = {info.uid: info}
        self._changed(node)

    def _changed(self, node: str) -> None:
        self._changed_nodes.append(node)
        if len(self._changed_nodes) > 2 * CHANGES_KEPT:
            del self._changed_nodes[:CHANGES_KEPT]
            self._first_change += CHANGES_KEPT
