"""From the watches into the inbox, and to the part of the shell that looks at nodes or pods on their way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.controller.inbox import Inbox
from scheduler.controller.watch.reflector import Sink
from scheduler.messages.stimuli import Stimulus
from scheduler.objects.kinds import Kind

See = Callable[[Sequence[Stimulus]], None]
Dress = Callable[[Sequence[Stimulus]], Sequence[Stimulus]]


class WatchFeed:
    """``dress_nodes`` returns nodes as the engine is to see them; ``see_pods`` follows once the inbox has the pods."""

    def __init__(self, inbox: Inbox, dress_nodes: Dress, see_pods: See) -> None:
        self._inbox = inbox
        self._dress_nodes = dress_nodes
        self._see_pods = see_pods

    def sink_of(self, kind: Kind) -> Sink:
        """Where the reflector of this kind puts what it sees."""
        if kind is Kind.NODE:
            return self._nodes
        return self._pods if kind is Kind.POD else self._inbox.put_all

    def _nodes(self, stimuli: Sequence[Stimulus]) -> None:
        self._inbox.put_all(self._dress_nodes(stimuli))

    def _pods(self, stimuli: Sequence[Stimulus]) -> None:
        self._inbox.put_all(stimuli)
        self._see_pods(stimuli)
