"""Imports without what a library takes along only because it is installed.

Some libraries import whatever they could work with: kopf a client library with all of its models (0.23 s of CPU, 36
MiB), only to recognise its objects, and structlog rich, for colourful tracebacks (0.04 s, 5 MiB). They work without
it, and a scheduler uses nothing of it; both are installed for other purposes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType


@contextmanager
def without_optional(*packages: str) -> Iterator[None]:
    """Let imports of these packages fail in this thread, as if they were not installed. A package that is loaded
    already is found as ever."""
    finder = _Absent(packages, threading.get_ident())
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Absent:
    """A finder of Python's import system for which these packages are missing, in one thread."""

    def __init__(self, packages: Sequence[str], thread: int) -> None:
        self._packages = packages
        self._thread = thread

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None, so that the next finder is asked; raises ModuleNotFoundError for one of the packages."""
        if fullname in self._packages and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is left out here", name=fullname)
        return None
