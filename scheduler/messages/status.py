"""Outcomes as values: a plugin's answer other than success."""

from __future__ import annotations

from enum import Enum

import msgspec


class Code(Enum):
    """Status codes of kube-scheduler; the value is the name that metrics and vectors use."""

    SUCCESS = "Success"
    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    PENDING = "Pending"

    __hash__ = object.__hash__

    @property
    def is_rejection(self) -> bool:
        """Whether the pod cannot be placed for now; false for an error, which is a failure of a plugin or an
        extender."""
        return self in _REJECTIONS


_REJECTIONS = frozenset({Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING})


class Refusal(msgspec.Struct, frozen=True, cache_hash=True):
    """A plugin's refusal, for one node or for all of them.

    ``code`` decides what may follow: preemption can help where it is UNSCHEDULABLE and cannot where it is UNRESOLVABLE;
    ERROR ends the whole attempt. ``reasons`` are the texts users read, in the plugin's order. ``plugin`` is filled in
    by the framework.
    """

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    def by(self, plugin: str) -> Refusal:
        """The same refusal, signed."""
        return Refusal(self.code, self.reasons, plugin)

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)


def unschedulable(*reasons: str) -> Refusal:
    """A refusal that removing pods may resolve."""
    return Refusal(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Refusal:
    """A refusal that removing pods cannot resolve."""
    return Refusal(Code.UNRESOLVABLE, reasons)


def failure(*reasons: str) -> Refusal:
    """A plugin's error, which ends the attempt."""
    return Refusal(Code.ERROR, reasons)


class Skip:
    """A plugin's answer that the pod does not concern it: its later points are not called in this attempt."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "SKIP"


SKIP = Skip()
"""The one Skip value; compare with ``is``."""
