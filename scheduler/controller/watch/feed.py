"""Passes the watches' stimuli to the inbox, by way of the parts of the shell that read or change them."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.controller.beside.kubelet_refusals import KubeletRefusals
from scheduler.controller.beside.shadow import ShadowWriter
from scheduler.controller.inbox import Inbox
from scheduler.controller.watch.reflector import Sink
from scheduler.messages.stimuli import Stimulus
from scheduler.objects.kinds import Kind


class WatchFeed:
    """``refusals`` maps nodes and pods on their way to the engine; a shadow gets pods once the inbox has them."""

    def __init__(self, inbox: Inbox, refusals: KubeletRefusals, shadow: ShadowWriter | None) -> None:
        self._inbox = inbox
        self._refusals = refusals
        self._shadow = shadow

    def sink_of(self, kind: Kind) -> Sink:
        """The sink for the reflector of this kind."""
        if kind is Kind.NODE:
            return self._nodes
        return self._pods if kind is Kind.POD else self._inbox.put_all

    def _nodes(self, stimuli: Sequence[Stimulus]) -> None:
        self._inbox.put_all(self._refusals.dress(stimuli))

    def _pods(self, stimuli: Sequence[Stimulus]) -> None:
        if self._shadow is None:
            self._inbox.put_all(self._refusals.dress_pods(stimuli))
            return
        self._inbox.put_all(stimuli)
        self._shadow.see(stimuli)
