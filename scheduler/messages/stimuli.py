"""Stimuli: the inputs of the engine. Everything that changes its state is one of these values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from scheduler.messages.status import Refusal
from scheduler.objects.kinds import Kind
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod


class ObjectObserved(msgspec.Struct, frozen=True):
    """The watch (or a list) shows an object, new or changed. The engine knows which.

    ``document``: its JSON, if extenders are sent objects of the kind unchanged.
    """

    kind: Kind
    object: ApiObject
    document: bytes = b""


class ObjectDeleted(msgspec.Struct, frozen=True):
    """An object is gone. ``object`` is its last version; with ``is_stale`` it is only the last that was seen, since
    the deletion itself was missed (kube-scheduler's tombstone)."""

    kind: Kind
    object: ApiObject
    is_stale: bool = False


class Synced(msgspec.Struct, frozen=True):
    """Every kind has been listed and every first stimulus applied: scheduling may begin."""


class Tick(msgspec.Struct, frozen=True):
    """A deadline may be due."""


class WriteFinished(msgspec.Struct, frozen=True):
    """The outcome of a write command, by its ticket.

    ``status`` is the HTTP status, 0 where there was no answer.

    A BindPod is sent once, and again only where the writer knows that the first request never reached the server. A
    201 is ``is_done``. After a 409 the writer GETs the pod at once, and ``is_done`` is whether the pod (of that UID) is
    on the node of the command. Where the bind had no answer, or that GET failed, the outcome is ``is_unknown``: the API
    server may have committed the bind, or may still commit it. The writer then frees the place of the write; the
    engine keeps the pod assumed and issues the same BindPod, with a new ticket, until an answer decides it
    (``is_undecided``).
    """

    ticket: int
    is_done: bool
    status: int = 0
    reason: str = ""
    message: str = ""
    written: ApiObject | None = None
    """The object after the write, if the next decision needs it before the watch shows it."""
    is_unknown: bool = False
    """For a BindPod only: the pod's state on the server is unknown. Never together with ``is_done``."""
    is_conclusive: bool = True
    """False for a BindPod that was refused while the pod is there, without a node, or that has not left: an earlier
    bind of the pod that had no answer may still be carried out."""
    is_unbound: bool = False
    """For a BindPod that was refused: the writer has read the pod afterwards, and it has no node."""
    is_unread: bool = False
    """For a BindPod that was refused and ``is_unknown``: only reading the pod failed, so that this bind is carried out
    no more."""
    seconds: float = 0.0
    """Seconds from the start of the last try to the outcome."""


class PluginFinished(msgspec.Struct, frozen=True):
    """A plugin's PreBind, Bind or PostBind in the shell came back; ``refusal`` None is success."""

    ticket: int
    refusal: Refusal | None
    is_skip: bool = False


class ExtenderAnswered(msgspec.Struct, frozen=True):
    """An extender's HTTP answer: the body of a 200, or what went wrong."""

    ticket: int
    body: bytes = b""
    error: str = ""


class PermitDecided(msgspec.Struct, frozen=True):
    """A plugin allows or rejects a pod that waits for it."""

    uid: str
    plugin: str
    is_allowed: bool
    message: str = ""


class PodsActivated(msgspec.Struct, frozen=True):
    """A plugin asks for these pods (``namespace/name``) to be tried at once."""

    keys: Sequence[str]


class ReconciliationStarted(msgspec.Struct, frozen=True):
    """A comparison of the engine's state with the API server begins. Answered with ReportKnownObjects."""


class Reconciled(msgspec.Struct, frozen=True):
    """A part of the API server's present state, to be compared with the engine's: some of the nodes (by name) and of
    the pods that have not ended (by UID), and names and UIDs that do not exist. Answered with ReportRepairs where
    something differed. In parts, since all of a large cluster at once would be a long step.

    ``lost_bindings``: UIDs of pods that ReportKnownObjects named as unconfirmed and that, read since, have no node;
    with the node that each was bound to.
    """

    nodes: Mapping[str, Node]
    pods: Mapping[str, Pod]
    absent_nodes: Sequence[str] = ()
    absent_pods: Sequence[str] = ()
    lost_bindings: Mapping[str, str] = {}


class WakingContinued(msgspec.Struct, frozen=True):
    """The last stimulus woke more waiting pods than one step may move, or the last attempt searches for longer: go on.
    Handled while ``Engine.is_waking``; any other stimulus, or a decision, finishes it first."""


class ShutdownRequested(msgspec.Struct, frozen=True):
    """No further pod is taken; what waits in Permit or PreBind is cancelled, binds under way are settled."""


Stimulus = (
    ObjectObserved
    | ObjectDeleted
    | Synced
    | Tick
    | WriteFinished
    | PluginFinished
    | ExtenderAnswered
    | PermitDecided
    | PodsActivated
    | ReconciliationStarted
    | Reconciled
    | WakingContinued
    | ShutdownRequested
)
