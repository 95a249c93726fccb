"""What a misspelled name was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

MAX_WORD: Final = 64
"""Characters of a word that is compared: the time grows with the square of its length."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A text to be appended to a fault, such as `` (did you mean "parallelism"?)``; "" where nothing is close."""
    if len(word) > MAX_WORD:
        return ""
    lowered = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), lowered, n=1, cutoff=0.8)
    return f' (did you mean "{lowered[found[0]]}"?)' if found else ""
