"""All commands of the engine: those of ``messages/commands.py``, and the record of an attempt."""

from __future__ import annotations

import msgspec

from scheduler.engine.attempt import Attempt
from scheduler.messages.commands import BaseCommand


class RecordAttempt(msgspec.Struct, frozen=True):
    """A completed attempt, for logs, metrics, the decision journal and ``tandem why``."""

    attempt: Attempt


Command = BaseCommand | RecordAttempt
