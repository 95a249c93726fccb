"""Promise: memory is that of the cluster that is there, not of all that ever came through it.

In the simulated world: 200,000 pods and 20,000 nodes come and go, a few hundred and thirty at a time.
`E2E_MEMORY_PODS` makes it shorter.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PODS = int(os.environ.get("E2E_MEMORY_PODS", "200000"))
MAX_SECONDS = 3 * 3600.0


@pytest.mark.long
def test_pods_and_nodes_that_have_gone_take_no_memory() -> None:
    # In a process of its own: the resident set is to be that of the run.
    command = [sys.executable, "-m", "tests.simulation.come_and_go", str(PODS), str(PODS // 10), "--check"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
