"""What a plugin asks about other pods, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AllowWaiting:
    """The pod of this UID, which waits for the plugin in Permit, may go on. Nothing happens to any other pod."""

    uid: str


@dataclass(frozen=True, slots=True)
class AllowWaitingGroup:
    """The pods of a group (``namespace/name``) that wait for the plugin in Permit may go on, those placed so far.

    One request for all of them: a request a pod, from each member after the quorum, is the square of the group's size.
    """

    group: str


@dataclass(frozen=True, slots=True)
class RejectWaiting:
    """The pod of this UID, which waits for the plugin in Permit, is rejected. Nothing happens to any other pod."""

    uid: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class ActivatePods:
    """These pods (``namespace/name``) are tried at once, whatever their back-off; gates still apply."""

    keys: tuple[str, ...]


PluginRequest = AllowWaiting | AllowWaitingGroup | RejectWaiting | ActivatePods
"""What a plugin asks about other pods. The engine does it after the step in which it is asked."""
