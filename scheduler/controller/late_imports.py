"""Imports after the start, which come from several threads: the pages', kopf's and the event loop's own.

Python's own import locks give way where threads would wait for each other: a thread that enters a package by one of its
modules, while another one imports the package, may see modules that are half executed. aiohttp is such a package, and
the pages and kopf both need it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

ONE_AT_A_TIME: Final = threading.RLock()
"""Held around every import inside a function of the controller. A thread that waits does so for 0.3 s of CPU at most,
which the client library takes where a kubeconfig needs it."""


@contextmanager
def without_optional(package: str) -> Iterator[None]:
    """Let imports of this package fail in this thread, as if it were not installed; no effect where it is loaded.

    For libraries that import whatever they could work with: kopf takes the objects of any client library, and imports
    ``kubernetes_asyncio`` with all of its models (0.23 s of CPU, 36 MiB) only to recognise them.
    """
    finder = _Absent(package, threading.get_ident())
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Absent:
    """A finder of Python's import system that finds one package to be missing, in one thread."""

    def __init__(self, package: str, thread: int) -> None:
        self._package = package
        self._thread = thread

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None, so that the next finder is asked; raises ModuleNotFoundError for the package."""
        if fullname == self._package and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is not wanted here", name=fullname)
        return None
