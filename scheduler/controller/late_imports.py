"""A lock for imports after the start, which come from several threads: the pages', kopf's and the event loop's own.

Python's own import locks give way where threads would wait for each other: a thread that enters a package by one of its
modules, while another one imports the package, may see modules that are half executed. aiohttp is such a package, and
the pages and kopf both need it.
"""

from __future__ import annotations

import threading
from typing import Final

ONE_AT_A_TIME: Final = threading.RLock()
"""Held around every import inside a function of the controller. A thread that waits does so for 0.3 s of CPU at most,
which the client library takes where a kubeconfig needs it."""
