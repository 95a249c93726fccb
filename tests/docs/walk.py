"""The calls between files of the package while something runs, as the interpreter reports them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

PACKAGE = f"{Path(__file__).parents[2] / 'scheduler'}/"

Place = tuple[str, str]
"""A file below ``scheduler/``, and a function in it."""


def _place(frame: FrameType) -> Place:
    code = frame.f_code
    return code.co_filename.removeprefix(PACKAGE), code.co_qualname


@contextmanager
def calls_between_files() -> Iterator[set[tuple[Place, Place]]]:
    """Collects (caller, called) of this thread's calls from one file of the package to another, within the block."""
    found: set[tuple[Place, Place]] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        caller = frame.f_back
        if event != "call" or caller is None or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        if caller.f_code.co_filename.startswith(PACKAGE) and caller.f_code.co_filename != frame.f_code.co_filename:
            found.add((_place(caller), _place(frame)))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)
