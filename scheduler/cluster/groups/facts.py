"""The groups that are known, and their members: pods that wait, and pods on nodes, assumed ones included.

A group's members are kept by its ``namespace/name`` from the first pod to the last one; the object that describes the
group may come before, after, or never. Pods that are being deleted, and pods with scheduling gates, count. Pending pods
of other schedulers do not; once they are bound, they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from scheduler.cluster.forkable import ForkableDict
from scheduler.cluster.groups.group import Group, GroupApi
from scheduler.cluster.pod_info import PodInfo
from scheduler.errors import InvariantViolation
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject


class Members(msgspec.Struct):
    """The pods of one group by UID. ``pending``: ours, without a node in the API, in order of arrival; one that is
    assumed is in ``placed`` too."""

    pending: dict[str, PodInfo] = msgspec.field(default_factory=dict)
    placed: dict[str, PodInfo] = msgspec.field(default_factory=dict)

    def copied(self) -> Members:
        return Members(dict(self.pending), dict(self.placed))

    @property
    def count(self) -> int:
        """All members: those that wait and those on nodes."""
        return len(self.placed) + len(self.pending) - len(self.placed.keys() & self.pending.keys())

    @property
    def unscheduled(self) -> Sequence[PodInfo]:
        """The members without a node, not even an assumed one."""
        return [info for uid, info in self.pending.items() if uid not in self.placed]


_NO_MEMBERS: Final = Members()


class Groups:
    """Groups by ``namespace/name``. Without any ``apis`` no pod has a group, and nothing is kept."""

    def __init__(self, apis: Sequence[GroupApi] = ()) -> None:
        self._apis = tuple(apis)
        self._api_of = {api.kind: api for api in apis}
        self.have_claims = any(api.has_claims for api in apis)
        """Whether groups may have ResourceClaims of their own."""
        self._groups: ForkableDict[tuple[Kind, str], Group] = ForkableDict()
        self._members: ForkableDict[str, Members] = ForkableDict()

    def fork(self) -> Groups:
        other = Groups(self._apis)
        other._groups = self._groups.fork()
        other._members = self._members.fork()
        return other

    # --- questions ----------------------------------------------------------------------------------------------------

    def key_of(self, pod: PodInfo) -> str:
        """``namespace/name`` of the pod's group; "" without one."""
        api = self.api_of(pod)
        return "" if api is None else f"{pod.namespace}/{api.name_in(pod.pod)}"

    def api_of(self, pod: PodInfo) -> GroupApi | None:
        """The first API in which the pod names a group, whether an object describes that or not."""
        for api in self._apis:
            if api.name_in(pod.pod):
                return api
        return None

    def get(self, key: str) -> Group | None:
        """The group that this ``namespace/name`` stands for, in the first API that has one; None while no object
        describes it."""
        for api in self._apis:
            group = self._groups.get((api.kind, key))
            if group is not None:
                return group
        return None

    def of(self, pod: PodInfo) -> Group | None:
        key = self.key_of(pod)
        return self.get(key) if key else None

    def preempts_as_one(self, pod: PodInfo) -> bool:
        """Whether victims are sought for the pod's group as a whole. While there is no such group its API decides, as
        the gate does in kube-scheduler."""
        group = self.of(pod)
        if group is not None:
            return group.preempts_as_one
        api = self.api_of(pod)
        return api is not None and api.preempts_as_one

    def members(self, key: str) -> Members:
        """The members of the group of this key, not to be changed."""
        members: Members = self._members.get(key, _NO_MEMBERS)
        return members

    def has_quorum(self, key: str) -> bool:
        """Whether the group demands a quorum, and has as many pods, those on nodes included."""
        group = self.get(key) if key else None
        return group is not None and group.min_count is not None and self.members(key).count >= group.min_count

    @property
    def keys(self) -> Iterable[str]:
        """The keys of the groups that have members or an object."""
        return dict.fromkeys([*self._members, *(key for _, key in self._groups)])

    # --- what happens -------------------------------------------------------------------------------------------------

    def observe(self, kind: Kind, old: ApiObject | None, new: ApiObject | None) -> None:
        """Apply a change of an object: it has changed, come (``old`` is None) or gone (``new`` is None)."""
        api = self._api_of.get(kind)
        if api is None:
            return
        if new is not None:
            self._groups[kind, new.key] = api.read(new)
        elif old is not None:
            self._groups.pop((kind, old.key), None)

    def doubled(self, kind: Kind, key: str) -> str:
        """A warning where objects of two APIs have this ``namespace/name``; "" for other kinds and names."""
        if kind not in self._api_of or sum([(api.kind, key) in self._groups for api in self._apis]) < 2:
            return ""
        first, *_ = (api.kind.entry.group for api in self._apis)
        return (
            f"{key} is a PodGroup of two APIs, which are one group for Tandem: that of {first} speaks for it, and pods "
            "that name either are its members. Give them different names"
        )

    def restate(self, group: Group) -> None:
        """Replace what the group's object states: for a question, on a fork."""
        self._groups[group.reference.kind, group.reference.key] = group

    def pending_shown(self, pod: PodInfo) -> str:
        """Note a pod of ours that has no node; returns ``key_of`` it."""
        key = self.key_of(pod) if self._apis else ""
        if key:
            self._writable(key).pending[pod.uid] = pod
        return key

    def pending_changed(self, old: PodInfo, new: PodInfo) -> tuple[str, bool]:
        """The watch shows another version of a pod of ours that has no node. Returns ``key_of`` it, and whether that is
        another: a label may change."""
        is_another = bool(self._apis) and self.key_of(new) != self.key_of(old)
        if is_another:
            self.pending_gone(old)
        return self.pending_shown(new), is_another

    def pending_gone(self, pod: PodInfo) -> None:
        """Drop a pod that was bound, was deleted, or is no longer ours."""
        key = self.key_of(pod) if self._apis else ""
        if key and pod.uid in self.members(key).pending:
            del self._writable(key).pending[pod.uid]
            self._drop_if_empty(key)

    # --- as a tally of the cluster cache ------------------------------------------------------------------------------

    def add(self, info: PodInfo, row: int) -> None:
        key = self.key_of(info) if self._apis else ""
        if key:
            self._writable(key).placed[info.uid] = info

    def remove(self, info: PodInfo, row: int) -> None:
        key = self.key_of(info)
        if key and info.uid in self.members(key).placed:
            del self._writable(key).placed[info.uid]
            self._drop_if_empty(key)

    def replace(self, known: PodInfo, info: PodInfo, row: int) -> None:
        if self._apis:
            self.remove(known, row)
            self.add(info, row)

    def check_placed(self, placed: Mapping[str, PodInfo]) -> None:
        """Raise InvariantViolation unless the members on nodes are those of these pods, by UID."""
        expected: dict[str, set[str]] = {}
        for info in placed.values():
            key = self.key_of(info)
            if key:
                expected.setdefault(key, set()).add(info.uid)
        found = {key: set(members.placed) for key, members in self._members.items() if members.placed}
        if found != expected:
            raise InvariantViolation("the groups' members on nodes differ from a recount")

    def check(self) -> None:
        """Raise InvariantViolation if members are kept of a group that has none."""
        for key, members in self._members.items():
            if not (members.pending or members.placed):
                raise InvariantViolation(f"group {key} has no members, but is kept")

    def _writable(self, key: str) -> Members:
        if key not in self._members:
            self._members[key] = Members()
        return self._members.writable(key, Members.copied)

    def _drop_if_empty(self, key: str) -> None:
        members = self._members[key]
        if not (members.pending or members.placed):
            del self._members[key]
