"""What is imported after the start, and a lock for it: the pages, kopf and the event loop do so in several threads.

Python's own import locks give way where threads would wait for each other: a thread that enters a package by one of its
modules, while another one imports the package, may see modules that are half executed. aiohttp is such a package, and
the pages and kopf both need it.
"""

from __future__ import annotations

import importlib
import threading
from typing import Final

ONE_AT_A_TIME: Final = threading.RLock()
"""Held around every import inside a function of the controller. A thread that waits does so for 0.3 s of CPU at most,
which the client library takes where a kubeconfig needs it."""


def import_masked_arrays() -> None:
    """Import ``numpy.ma``, as the first call of ``np.unique`` or ``np.isin`` would, in the middle of a decision: 8 to
    14 ms of CPU (2026-11-27, 2 CPUs (AMD EPYC))."""
    with ONE_AT_A_TIME:
        importlib.import_module("numpy.ma")
