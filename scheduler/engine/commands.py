"""All commands of the engine: those of ``messages/commands.py``, and the records of attempts."""

from __future__ import annotations

import msgspec

from scheduler.engine.attempt import Attempt
from scheduler.engine.group_attempt import GroupAttempt
from scheduler.messages.commands import BaseCommand


class RecordAttempt(msgspec.Struct, frozen=True):
    """A completed attempt, for logs, metrics, the decision journal and ``tandem why``."""

    attempt: Attempt


class RecordGroupAttempt(msgspec.Struct, frozen=True):
    """A completed attempt at a group of pods, for logs, metrics and the decision journal."""

    attempt: GroupAttempt


Command = BaseCommand | RecordAttempt | RecordGroupAttempt
