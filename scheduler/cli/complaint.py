"""Errors and remarks on standard error."""

from __future__ import annotations

import sys
import textwrap
from typing import Final

from scheduler.cli.printable import printable

MAX_COLUMNS: Final = 80


def complain(text: str) -> None:
    """Print ``Error: …``: in one line for programs, and at most 80 columns wide on a terminal."""
    _print(f"Error: {text}")


def warn(text: str) -> None:
    """Print ``Warning: …`` in the same way."""
    _print(f"Warning: {text}")


def remark(text: str) -> None:
    """Print ``Note: …`` in the same way: what the user may not expect in an answer that follows."""
    _print(f"Note: {text}")


def _print(line: str) -> None:
    line = printable(line)
    if sys.stderr.isatty():
        # A word that is longer, a path say, is left whole: it is there to be copied.
        line = textwrap.fill(line, MAX_COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    print(line, file=sys.stderr)
