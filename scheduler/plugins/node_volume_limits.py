"""NodeVolumeLimits: no node gets more volumes of a CSI driver than it can attach.

The limit is what the node's CSINode says of the driver (``allocatable.count``); without one there is no limit. Volumes
of all pods on the node count, and those that are still attached to it without a pod; claims whose volume is yet to be
made count as one of the driver that will make it. In-tree volumes of AWS EBS, GCE PD, Azure Disk, Cinder and Portworx
count as their driver's, whatever the CSINode says of migration. Refuses with ``node(s) exceed max volume count``;
preemption may help. No arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.cluster.volumes.attached import AttachedVolumes
from scheduler.cluster.volumes.csi import (
    Attachable,
    ForeignClaim,
    MissingClaim,
    attachable_volumes,
    needs_attaching,
)
from scheduler.cluster.volumes.migration import CSI_DRIVERS, in_tree_plugin
from scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from scheduler.framework.findings import Cause, RowArray, grouped
from scheduler.framework.likeness import AlikeState, Likeness
from scheduler.framework.plugin import FilterPlugin, Finding, PreFilterPlugin, Rows, State, Verdicts
from scheduler.framework.tallies import NEVER, RowPods, Tally
from scheduler.messages.status import SKIP, Refusal, Skip, failure, unresolvable, unschedulable
from scheduler.objects.storage import CSINode, VolumeAttachment
from scheduler.plugins.volume_hints import CLAIM_KEYS, its_claim_changed, key_of_claim

TOO_MANY = unschedulable("node(s) exceed max volume count")


class NewVolumes(Struct, AlikeState, frozen=True):
    """What the pod would have attached to its node; or why that is unknown."""

    volumes: tuple[Attachable, ...]
    unknown: Refusal | None = None

    @property
    def by_driver(self) -> dict[str, list[Attachable]]:
        found: dict[str, list[Attachable]] = {}
        for each in self.volumes:
            found.setdefault(each.driver, []).append(each)
        return found

    def likeness(self, view: View) -> Likeness | None:
        """By driver, how many; which volumes matters only where one of them is. Nominated pods are on no row, and what
        they add hangs on all claims and volumes."""
        if self.unknown is not None:
            return None
        attached = view.volumes.attached
        wanted = tuple([(driver, len(volumes)) for driver, volumes in self.by_driver.items()])
        own_rows = frozenset([row for each in self.volumes for row in attached.rows_with(each)])
        key = wanted, attached.unplaced.version
        return Likeness(key, attached.versions, own_rows, frozenset(self.volumes), attached.unplaced.of)

    def tallies(self, pods: RowPods) -> tuple[Tally, ...]:
        if self.unknown is not None:
            return (Tally.always(self.unknown, pods),)
        attached = pods.view.volumes.attached
        return tuple(
            [
                _tally(limits, attached, driver, volumes, pods)
                for driver, volumes in self.by_driver.items()
                if (limits := attached.limits(driver)) is not None
            ]
        )


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    """See docs/kube-scheduler/plugins.md §3.14, volumes.md §6."""

    name = "NodeVolumeLimits"

    def concerns(self, pod: PodInfo) -> bool:
        return needs_attaching(pod)

    def pre_filter(self, pod: PodInfo, view: View) -> State | Skip | Refusal:
        return _new_volumes(pod, view) if needs_attaching(pod) else SKIP

    def filter(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Verdicts | None:
        new = _of_pod(state, pod, view)
        if new.unknown is not None:
            return Verdicts(np.ones(len(view.table.exists[rows]), np.int16), (new.unknown,))
        if not new.volumes:
            return None
        full = _full_rows(new, view)[rows] if view.volumes.is_of(view.table) else _full_copies(new, view, rows)
        return Verdicts(full.astype(np.int16), (TOO_MANY,)) if full.any() else None

    def why_not(self, state: State, pod: PodInfo, view: View, rows: RowArray) -> tuple[Finding, ...]:
        attached = view.volumes.attached
        causes = []
        for driver, volumes in _of_pod(state, pod, view).by_driver.items():
            limits = attached.limits(driver)
            if limits is not None and view.volumes.is_of(view.table):
                only = NewVolumes(tuple(volumes))
                causes.append(Cause(_full_rows(only, view)[rows], partial(_full, view, driver, len(volumes))))
        return grouped(view, rows, causes)

    def events(self) -> tuple[EventRegistration, ...]:
        return _EVENTS


def _new_volumes(pod: PodInfo, view: View) -> NewVolumes:
    try:
        return NewVolumes(tuple(dict.fromkeys(attachable_volumes(pod, view.objects))))
    except MissingClaim as error:
        return NewVolumes((), unresolvable(str(error)))
    except ForeignClaim as error:
        return NewVolumes((), failure(str(error)))


def _of_pod(state: State, pod: PodInfo, view: View) -> NewVolumes:
    """What ``pre_filter`` found; a profile may have left it out."""
    return state if isinstance(state, NewVolumes) else _new_volumes(pod, view)


def _full_rows(state: NewVolumes, view: View) -> npt.NDArray[np.bool_]:
    """All rows, by the drivers' columns; those whose pods have one of the volumes need one place less."""
    attached = view.volumes.attached
    full = np.zeros(view.table.size, np.bool_)
    for driver, volumes in state.by_driver.items():
        limits = attached.limits(driver)
        if limits is None:
            continue
        counts = attached.counts(driver)
        beyond = (limits >= 0) & (counts + len(volumes) > limits)
        own_rows = [row for each in volumes for row in attached.rows_with(each)]
        for row, known in Counter(own_rows).items() if own_rows else ():
            new = len(volumes) - known
            beyond[row] = 0 <= limits[row] < counts[row] + new and new > 0
        full |= beyond
    return full


def _full(view: View, driver: str, wanted: int, rows: RowArray) -> str:
    attached = view.volumes.attached
    limits, counts = attached.limits(driver), attached.counts(driver)[rows]
    assert limits is not None
    least = int((counts - limits[rows]).argmin())
    return f"{driver}: {wanted} volumes wanted, {counts[least]} of {limits[rows][least]} attached"


def _full_copies(state: NewVolumes, view: View, rows: Rows) -> npt.NDArray[np.bool_]:
    """The rows asked, few of them, of a table whose pods are not the cluster's."""
    attached, table, live_rows = view.volumes.attached, view.table, view.live_rows
    asked = np.arange(table.size)[rows].tolist()
    full = np.zeros(len(asked), np.bool_)
    spare = None if live_rows is None else _spare_places(state, attached, live_rows[rows]).tolist()
    for place, row in enumerate(asked):
        pods = table.pods[row]
        known: Mapping[str, tuple[Attachable, ...]] | None = None
        if live_rows is not None and spare is not None:
            live_row = int(live_rows[row])
            there = attached.pods_on(live_row)
            if there.keys() <= pods.keys():
                further = [info for uid, info in pods.items() if uid not in there]
                if sum([len(info.pod.spec.volumes) for info in further]) > spare[place]:
                    full[place] = _is_full_beside(state, attached, live_row, further)
                continue
            known = attached.on_row(live_row).by_pod
        full[place] = not attached.account(table.names[row], pods.values(), known).has_room_for(state.volumes)
    return full


def _spare_places(state: NewVolumes, attached: AttachedVolumes, rows: RowArray) -> npt.NDArray[np.int64]:
    """How many volumes further pods may have at the least, whichever they are, before a row is full for the new pod."""
    spare = np.full(len(rows), NEVER, np.int64)
    for driver, volumes in state.by_driver.items():
        limits = attached.limits(driver)
        if limits is not None:
            left = limits[rows] - attached.counts(driver)[rows] - len(volumes)
            spare = np.minimum(spare, np.where(limits[rows] < 0, NEVER, left))
    return spare


def _is_full_beside(state: NewVolumes, attached: AttachedVolumes, row: int, further: Iterable[PodInfo]) -> bool:
    """Whether a row of the cluster lacks room with further pods on it."""
    account = attached.on_row(row)
    theirs = {each for info in further for each in attached.unplaced.of(info)}
    for driver, volumes in state.by_driver.items():
        if driver not in account.limits:
            continue
        wanted = [each for each in volumes if each not in theirs and row not in attached.rows_with(each)]
        more = [
            each
            for each in theirs
            if each.driver == driver and each not in account.left_over and row not in attached.rows_with(each)
        ]
        if wanted and attached.counts(driver)[row] + len(more) + len(wanted) > account.limits[driver]:
            return True
    return False


# --- preemption -------------------------------------------------------------------------------------------------------


def _tally(
    limits: npt.NDArray[np.int64], attached: AttachedVolumes, driver: str, volumes: Sequence[Attachable], pods: RowPods
) -> Tally:
    """Volumes of one driver. Rows where pods share a volume, or have one of the new pod's own, have accounts, and so
    have those that pods with volumes are nominated to."""
    rows = pods.rows
    bounds = np.where(limits[rows] < 0, NEVER, limits[rows] - len(volumes))
    shares = pods.numbers(("attached", driver), partial(_shares, attached, driver), attached.versions)
    needs_account = (shares < 0).any(axis=1)
    own_rows = {row for each in volumes for row in attached.rows_with(each)}
    if own_rows:
        needs_account |= np.isin(rows, list(own_rows))
    needs_account &= limits[rows] >= 0

    def beside(position: int, infos: Sequence[PodInfo]) -> int | None:
        """They add their volumes, unless one of these is there already, or is the new pod's, or is theirs twice."""
        found = [each for info in infos for each in attached.unplaced.of(info) if each.driver == driver]
        account = attached.on_row(int(rows[position]))
        is_shared = len(set(found)) < len(found) or any(
            each in volumes or each in account.left_over or rows[position] in attached.rows_with(each) for each in found
        )
        return None if is_shared else len(found)

    return Tally(TOO_MANY, pods, attached.counts(driver)[rows], bounds, shares, beside).with_accounts(
        lambda position: _VolumeAccount(attached, driver, volumes, int(rows[position])),
        np.flatnonzero(needs_account).tolist(),
    )


def _shares(attached: AttachedVolumes, driver: str, row: int, infos: Sequence[PodInfo]) -> list[int]:
    """How many volumes would be gone with each pod; -1 where another pod of the row has one of them, too."""
    account = attached.on_row(row)
    if not account.by_pod:
        return [0] * len(infos)
    users = Counter([each for volumes in account.by_pod.values() for each in volumes if each.driver == driver])
    found = []
    for info in infos:
        own = [
            each for each in account.by_pod.get(info.uid, ()) if each.driver == driver and each not in account.left_over
        ]
        found.append(-1 if any(users[each] > 1 for each in own) else len(own))
    return found


class _VolumeAccount:
    """One row's volumes of a driver, each with its users."""

    def __init__(self, attached: AttachedVolumes, driver: str, volumes: Sequence[Attachable], row: int) -> None:
        account = attached.on_row(row)
        self._driver = driver
        self._attached = attached
        self._new = frozenset(volumes)
        self._left_over = frozenset([each for each in account.left_over if each.driver == driver])
        self._by_pod = account.by_pod
        self._beside: Sequence[Collection[Attachable]] | None = None
        self._users: Counter[Attachable] = Counter()
        for known in account.by_pod.values():
            self._count(known, 1)

    def change(self, info: PodInfo, sign: int) -> None:
        self._count(self._by_pod.get(info.uid, ()), sign)

    def beside(self, infos: Sequence[PodInfo], sign: int) -> None:
        if self._beside is None:
            # computed once: the pods are the same in each call
            self._beside = [self._attached.unplaced.of(info) for info in infos]
        for volumes in self._beside:
            self._count(volumes, sign)

    @property
    def number(self) -> int:
        """Volumes there, less those of the pod that are not new; below any limit if none is new."""
        users = self._users.keys()
        known = len(self._new & users)
        if known == len(self._new):
            return -NEVER
        return len(users | self._left_over) - known

    def _count(self, volumes: Collection[Attachable], sign: int) -> None:
        users = self._users
        for each in volumes:
            if each.driver == self._driver:
                users[each] += sign
                if not users[each]:
                    del users[each]


# --- events -----------------------------------------------------------------------------------------------------------


def _limit_grew(_pod: PodInfo, old: CSINode | None, new: CSINode | None) -> Hint:
    if old is None or new is None:
        return Hint.QUEUE
    before = old.limits
    grew = any(limit > before.get(driver, 0) for driver, limit in new.limits.items())
    return Hint.QUEUE if grew else Hint.SKIP


def _attached_pod_left(_pod: PodInfo, old: PodInfo | None, _new: PodInfo | None) -> Hint:
    return Hint.QUEUE if old is not None and _frees_an_attachment(old) else Hint.SKIP


def _frees_an_attachment(other: PodInfo) -> bool:
    return bool(other.node_name or other.pod.status.nominated_node_name) and needs_attaching(other)


def _detached(pod: PodInfo, old: VolumeAttachment | None, _new: VolumeAttachment | None) -> Hint:
    if old is None:
        return Hint.SKIP
    for volume in pod.pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return Hint.QUEUE
        plugin = in_tree_plugin(volume)
        if plugin and CSI_DRIVERS[plugin] == old.spec.attacher:
            return Hint.QUEUE
    return Hint.SKIP


_EVENTS = (
    EventRegistration(ClusterEvent(Resource.CSI_NODE, Action.ADD | Action.UPDATE), _limit_grew),
    EventRegistration(ClusterEvent(Resource.POD, Action.DELETE), _attached_pod_left, _frees_an_attachment),
    EventRegistration(
        ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), its_claim_changed, key_of_claim, CLAIM_KEYS
    ),
    EventRegistration(ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE), _detached),
)
