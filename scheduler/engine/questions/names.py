"""Names in questions: what is accepted, and how a name that is not is shown."""

from __future__ import annotations

import re
from typing import Final

from scheduler.errors import SchedulerError

MAX_CHARACTERS: Final = 253
MAX_SHOWN: Final = 100
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)


class WrongName(SchedulerError):
    """A name that no object of the API can have."""


def checked_name(name: str, what: str) -> str:
    """The name. Raises WrongName unless it is a DNS subdomain, as the API server wants it."""
    if len(name) > MAX_CHARACTERS or not _NAME.fullmatch(name):
        raise WrongName(f"{what} {shown(name)} must consist of lower case letters, digits, '-' and '.'")
    return name


def shown(text: str) -> str:
    """A text from a question in quotation marks, cut and without control characters."""
    return ascii(text[:MAX_SHOWN])[:-1] + ("…'" if len(text) > MAX_SHOWN else "'")
