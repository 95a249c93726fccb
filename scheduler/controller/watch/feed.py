"""Passes the watches' stimuli to the inbox, by way of the parts of the shell that read or change them."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.controller.beside.coscheduling_status import CoschedulingStatuses
from scheduler.controller.beside.kubelet_refusals import KubeletRefusals
from scheduler.controller.beside.shadow import ShadowWriter
from scheduler.controller.inbox import Inbox
from scheduler.controller.watch.first_seen import DEVICES, OnceSeen
from scheduler.controller.watch.reflector import Change, Intake, unchanged
from scheduler.messages.stimuli import ObjectObserved, Stimulus
from scheduler.objects.kinds import Kind


class WatchFeed:
    """``refusals`` maps nodes and pods on their way to the engine; a shadow gets pods once the inbox has them, and
    ``statuses`` hears of PodGroups then. ``devices`` sees the first objects that have to do with devices."""

    def __init__(
        self,
        inbox: Inbox,
        refusals: KubeletRefusals,
        shadow: ShadowWriter | None,
        devices: OnceSeen,
        statuses: CoschedulingStatuses | None = None,
    ) -> None:
        self.devices = devices
        self._statuses = statuses
        self._inbox = inbox
        self._refusals = refusals
        self._shadow = shadow

    def change_of(self, kind: Kind) -> Change:
        """The change that the reflector of this kind makes to stimuli before it puts them."""
        if kind is Kind.NODE:
            return self._refusals.nodes_for_engine
        if kind in DEVICES:
            return self.devices.change
        return self._refusals.pods_for_engine if kind is Kind.POD and self._shadow is None else unchanged

    def intake_of(self, kind: Kind) -> Intake:
        """Where the reflector of this kind puts its stimuli."""
        if kind is Kind.POD and self._shadow is not None:
            return _Shadowed(self._inbox, self._shadow)
        if kind is Kind.COSCHEDULING_POD_GROUP and self._statuses is not None:
            return _WithStatuses(self._inbox, self._statuses)
        return self._inbox


class _Shadowed:
    def __init__(self, inbox: Inbox, shadow: ShadowWriter) -> None:
        self._inbox = inbox
        self._shadow = shadow

    def put_all(self, stimuli: Sequence[Stimulus], /) -> None:
        self._inbox.put_all(stimuli)
        self._shadow.see(stimuli)

    async def room(self) -> None:
        await self._inbox.room()


class _WithStatuses:
    """Passes the stimuli of PodGroups on, and says which groups have changed."""

    def __init__(self, inbox: Inbox, statuses: CoschedulingStatuses) -> None:
        self._inbox = inbox
        self._statuses = statuses

    def put_all(self, stimuli: Sequence[Stimulus], /) -> None:
        self._inbox.put_all(stimuli)
        for stimulus in stimuli:
            if isinstance(stimulus, ObjectObserved):
                self._statuses.group_changed(stimulus.object.key)

    async def room(self) -> None:
        await self._inbox.room()
