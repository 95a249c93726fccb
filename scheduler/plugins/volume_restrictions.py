"""VolumeRestrictions: keeps pods apart that cannot share a volume.

A claim with the access mode ReadWriteOncePod has one user in the whole cluster: while another pod uses it, every node
is refused with ``node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by
another pod`` (preemption of that pod may help). Of the disks that pods name themselves, a GCE persistent disk, an iSCSI
target and an RBD image can be shared on a node only by pods that all just read it, an AWS EBS volume not at all:
``node(s) had no available disk``. No arguments.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.cluster.volumes.disks import Disk, any_conflict, disks_of
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, HintKeys, Resource, Wanted
from scheduler.framework.plugin import FilterPlugin, Finding, PreFilterPlugin, Rows, State, Verdicts
from scheduler.framework.tallies import RowPods, Tally, shares_on, summed
from scheduler.messages.status import SKIP, Refusal, Skip, unresolvable, unschedulable
from scheduler.objects.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim
from scheduler.plugins.volume_hints import CLAIM_KEYS, its_named_claim_changed, key_of_claim

DISK_TAKEN = unschedulable("node(s) had no available disk")
CLAIM_TAKEN = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_REFUSALS = (DISK_TAKEN, CLAIM_TAKEN)


class WantedDisks(Struct, State, frozen=True):
    disks: tuple[Disk, ...]

    def tallies(self, pods: RowPods) -> tuple[Tally, ...]:
        return (_disk_tally(self.disks, pods),) if self.disks else ()


class WantedVolumes(Struct, State, frozen=True):
    """With claims that only one pod may use. ``conflicts``: how many of them are in use, as far as is known."""

    disks: tuple[Disk, ...]
    namespace: str
    claims: frozenset[str]
    conflicts: int

    def with_pod(self, view: View, row: int, other: PodInfo, sign: int) -> State:
        """kube-scheduler 1.36 forgets to compare the namespace here; a pod of another one has other claims."""
        shared = self._shared_by(other)
        return replace(self, conflicts=self.conflicts + sign * shared) if shared else self

    def ignores(self, other: PodInfo) -> bool:
        """Whether the pod uses none of the claims."""
        return not self._shared_by(other)

    def _shared_by(self, other: PodInfo) -> int:
        if other.namespace != self.namespace:
            return 0
        return sum(
            volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name in self.claims
            for volume in other.pod.spec.volumes
        )

    def tallies(self, pods: RowPods) -> tuple[Tally, ...]:
        size = len(pods.rows)
        users = pods.view.volumes.rows_using([f"{self.namespace}/{name}" for name in self.claims])
        claims = Tally(
            CLAIM_TAKEN,
            pods,
            np.full(size, self.conflicts, np.int64),
            np.zeros(size, np.int64),
            shares_on(users, pods, self._shared_by, _claims_of),
            summed(self._shared_by),
        )
        return (_disk_tally(self.disks, pods), claims) if self.disks else (claims,)


class VolumeRestrictions(PreFilterPlugin, FilterPlugin):
    """See docs/kube-scheduler/plugins.md §3.13, volumes.md §7."""

    name = "VolumeRestrictions"
    needs_pre_filter = True

    def concerns(self, pod: PodInfo) -> bool:
        return any(volume.persistent_volume_claim is not None for volume in pod.pod.spec.volumes) or bool(disks_of(pod))

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        if not pod.pod.spec.volumes:
            return SKIP
        exclusive: set[str] = set()
        for volume in pod.pod.spec.volumes:
            named = volume.persistent_volume_claim
            if named is None:
                continue
            claim = view.find(PersistentVolumeClaim, f"{pod.namespace}/{named.claim_name}")
            if claim is None:
                return unresolvable(f'persistentvolumeclaim "{named.claim_name}" not found')
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.add(named.claim_name)
        conflicts = sum(view.volumes.users(f"{pod.namespace}/{name}") > 0 for name in exclusive)
        disks = disks_of(pod)
        if not disks and not conflicts:
            return SKIP
        if not exclusive:
            return WantedDisks(disks)
        return WantedVolumes(disks, pod.namespace, frozenset(exclusive), conflicts)

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        assert isinstance(state, WantedDisks | WantedVolumes)
        table = view.table
        is_claim_taken = isinstance(state, WantedVolumes) and state.conflicts > 0
        taken = np.zeros(table.size, np.bool_)
        if state.disks:
            # The tally does not know the rows of a private table: all of them, which are few, are looked at.
            suspects = (
                view.volumes.rows_with_disks(state.disks)
                if view.volumes.is_of(table)
                else np.arange(table.size)[rows].tolist()
            )
            for row in suspects:
                taken[row] = any_conflict(state.disks, table.pods[row].values())
        codes = np.where(taken[rows], np.int16(1), np.int16(2 if is_claim_taken else 0))
        return Verdicts(codes, _REFUSALS) if codes.any() else None

    def findings(self, pod: PodInfo, view: View) -> tuple[Finding, ...]:
        """Who else uses the claims that only one pod may use."""
        state = self.pre_filter(pod, view)
        if not isinstance(state, WantedVolumes):
            return ()
        table, found = view.table, []
        for name in sorted(state.claims):
            key = f"{pod.namespace}/{name}"
            for row in sorted(view.volumes.rows_using([key])):
                sharing = [one for one in table.pods[row].values() if _uses(one, pod.namespace, name)]
                users = [one.key for one in sharing if one.uid != pod.uid and table.nodes[row] is not None]
                if users:
                    line = f"claim {key} (ReadWriteOncePod) is in use by {', '.join(users)}"
                    found.append(Finding(1, (table.names[row],), (line,)))
        return tuple(found)

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


def _disk_tally(disks: tuple[Disk, ...], pods: RowPods) -> Tally:
    """Pods that have a disk in the way."""

    def share_of(info: PodInfo) -> int:
        return any_conflict(disks, (info,))

    shares = shares_on(pods.view.volumes.rows_with_disks(disks), pods, share_of, disks_of)
    size = len(pods.rows)
    return Tally(DISK_TAKEN, pods, shares.sum(axis=1), np.zeros(size, np.int64), shares, summed(share_of))


def _a_rival_left(pod: PodInfo, old: PodInfo | None, _new: PodInfo | None) -> Hint:
    if old is None or old.namespace != pod.namespace:
        return Hint.SKIP
    return Hint.QUEUE if any_conflict(disks_of(pod), (old,)) or _share_a_claim(pod, old) else Hint.SKIP


def _uses(info: PodInfo, namespace: str, claim: str) -> bool:
    return info.namespace == namespace and claim in _claim_names(info)


def _share_a_claim(one: PodInfo, other: PodInfo) -> bool:
    return not _claim_names(one).isdisjoint(_claim_names(other))


def _claims_of(info: PodInfo) -> Hashable:
    names = [each.persistent_volume_claim.claim_name for each in info.pod.spec.volumes if each.persistent_volume_claim]
    return (info.namespace, *names) if names else ()


def _claim_names(pod: PodInfo) -> set[str]:
    return {
        volume.persistent_volume_claim.claim_name
        for volume in pod.pod.spec.volumes
        if volume.persistent_volume_claim is not None
    }


def _facet_of_rival(other: PodInfo) -> Hashable:
    """All that ``_a_rival_left`` looks at of another pod."""
    return other.namespace, frozenset(_claim_names(other)), disks_of(other)


def _keys_wanted(pod: PodInfo) -> Wanted | None:
    return None if disks_of(pod) else ((_claim_keys(pod),),)


def _claim_keys(pod: PodInfo) -> frozenset[Hashable]:
    return frozenset([(pod.namespace, name) for name in _claim_names(pod)])


_EVENTS = (
    EventRegistration(
        ClusterEvent(Resource.POD, Action.DELETE), _a_rival_left, _facet_of_rival, HintKeys(_keys_wanted, _claim_keys)
    ),
    EventRegistration(ClusterEvent(Resource.NODE, Action.ADD)),
    EventRegistration(
        ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), its_named_claim_changed, key_of_claim, CLAIM_KEYS
    ),
)
