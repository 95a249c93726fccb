"""An API server beside an engine whose state may go back, and whose watch may miss what happens; both through mirrors,
as reflectors use them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from scheduler.controller.watch.mirror import Mirror
from scheduler.engine.commands import Command
from scheduler.messages.commands import BindPod, ReportKnownObjects
from scheduler.messages.stimuli import (
    ObjectDeleted,
    ObjectObserved,
    Reconciled,
    ReconciliationStarted,
    Stimulus,
)
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.wire import DELETED, ListPage, WatchEvent
from tests.engine.driver import Answerable, Cluster

State = tuple[dict[str, Pod], dict[str, Node], int]


class Restorable(Cluster):
    """``is_watched``: whether watches show what changes. ``refused``: bindings of pods that were bound already."""

    def __init__(self) -> None:
        self._mirrors = {Kind.NODE: Mirror(Kind.NODE), Kind.POD: Mirror(Kind.POD)}
        self.is_watched = True
        self.refused: list[BindPod] = []
        super().__init__()

    # --- the API server -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return dict(self.pods), dict(self.nodes), self._version

    def goes_to(self, state: State) -> None:
        """The API server has this state from now on; nothing shows it."""
        pods, nodes, self._version = state
        self.pods, self.nodes = dict(pods), dict(nodes)

    def is_listed(self) -> None:
        """Lists after a gap, and watches from there on."""
        for kind, objects in ((Kind.NODE, self.nodes), (Kind.POD, self.pods)):
            mirror = self._mirrors[kind]
            mirror.begin_list()
            page = ListPage(str(self._version), "", tuple(objects.values()))
            for stimulus in [*mirror.take_page(page), *mirror.end_list()]:
                super().feed(stimulus)
        self.is_watched = True

    def is_reconciled(self) -> Sequence[str]:
        """A comparison, as the reconciler makes it; the repairs."""
        known = {kind: mirror.known for kind, mirror in self._mirrors.items()}
        started = super().feed(ReconciliationStarted())
        reported = next(one for one in started if isinstance(one, ReportKnownObjects))
        there = {pod.uid: pod for pod in known[Kind.POD].values() if isinstance(pod, Pod)}
        nodes = {node.name: node for node in known[Kind.NODE].values() if isinstance(node, Node)}
        present = {pod.uid: pod for pod in self.pods.values()}
        lost = {
            pod.uid: node for pod, node in reported.unconfirmed if pod.uid in present and not present[pod.uid].node_name
        }
        absent_nodes = [name for name in reported.nodes if name not in nodes]
        absent_pods = [uid for uid in reported.pods if uid not in there]
        answers = super().feed(Reconciled(nodes, there, absent_nodes, absent_pods, lost))
        self.unanswered = [one for one in self.unanswered if hasattr(one, "ticket")]
        return [text for one in answers for _, text in getattr(one, "repairs", ())]

    # --- what the engine sees -----------------------------------------------------------------------------------------

    def feed(self, stimulus: Stimulus) -> list[Command]:
        if not isinstance(stimulus, ObjectObserved | ObjectDeleted):
            return super().feed(stimulus)
        if not self.is_watched:
            return []
        is_deletion = isinstance(stimulus, ObjectDeleted)
        shown: list[Stimulus] = []
        obj = self._as_deleted(stimulus.object) if is_deletion else stimulus.object
        self._mirrors[stimulus.kind].take_event(WatchEvent(DELETED if is_deletion else "MODIFIED", obj), shown)
        return [command for each in shown for command in super(Restorable, self).feed(each)]

    def succeed(self, command: Answerable) -> None:
        pod = self.pods.get(command.pod.key) if isinstance(command, BindPod) else None
        if isinstance(command, BindPod) and pod is not None and pod.uid == command.pod.uid and pod.node_name:
            self.refused.append(command)
            self.fail(command, 409, "already assigned", "Conflict")
            return
        super().succeed(command)

    def succeed_unseen(self, command: Answerable) -> None:
        """The API server does it, the answer arrives, the watch does not show it."""
        was_watched, self.is_watched = self.is_watched, False
        self.succeed(command)
        self.is_watched = was_watched

    def _as_deleted(self, obj: ApiObject) -> ApiObject:
        return replace(obj, metadata=replace(obj.metadata, resource_version=self._next_version()))
