"""What a plugin asks about other pods, as values."""

from __future__ import annotations

from msgspec import Struct


class AllowWaiting(Struct, frozen=True):
    """The pod of this UID, which waits for the plugin in Permit, may go on. Nothing happens to any other pod."""

    uid: str


class AllowWaitingGroup(Struct, frozen=True):
    """The pods of a group (``namespace/name``) that wait for the plugin in Permit may go on, those placed so far.

    One request for all of them: a request a pod, from each member after the quorum, is the square of the group's size.
    """

    group: str


class RejectWaiting(Struct, frozen=True):
    """The pod of this UID, which waits for the plugin in Permit, is rejected. Nothing happens to any other pod."""

    uid: str
    message: str = ""


class ActivatePods(Struct, frozen=True):
    """These pods (``namespace/name``) are tried at once, whatever their back-off; gates still apply."""

    keys: tuple[str, ...]


PluginRequest = AllowWaiting | AllowWaitingGroup | RejectWaiting | ActivatePods
"""What a plugin asks about other pods. The engine does it after the step in which it is asked."""
