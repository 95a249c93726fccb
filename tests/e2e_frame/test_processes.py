from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

import pytest

from e2e.controlplane.processes import Process, ProcessFailure


def python(code: str, folder: Path) -> Process:
    return Process("child", [sys.executable, "-c", code], folder / "child.log")


def test_waiting_for_a_program_that_ended_fails_with_its_last_words(tmp_path: Path) -> None:
    child = python("print('no room left'); raise SystemExit(3)", tmp_path).start()
    with pytest.raises(ProcessFailure, match=r"ended with 3(?s:.*)no room left"):
        child.wait_until(lambda: False, 20)


def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    child = python(
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()",
        tmp_path,
    ).start()
    child.wait_until(lambda: "deaf" in child.tail(), 20)
    assert child.stop(0.1) == -signal.SIGKILL


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    grandchild = tmp_path / "grandchild"
    code = f"""
import sys
from pathlib import Path
from e2e.controlplane.processes import Process
sleeper = Process("sleeper", [sys.executable, "-c", "import signal; signal.pause()"], Path({str(tmp_path)!r}) / "log")
Path({str(grandchild)!r}).write_text(str(sleeper.start().pid))
import signal; signal.pause()
"""
    root = Path(__file__).parent.parent.parent
    parent = Process("parent", [sys.executable, "-c", code], tmp_path / "child.log", directory=root).start()
    parent.wait_until(lambda: grandchild.exists() and grandchild.read_text() != "", 20)
    pid = int(grandchild.read_text())
    # A file descriptor of a process becomes readable when the process ends.
    alive = os.pidfd_open(pid)
    assert select.select([alive], [], [], 0)[0] == []
    parent.kill()
    assert select.select([alive], [], [], 20)[0] == [alive]
    os.close(alive)


def test_use_of_cpu_and_memory_is_read_of_a_live_process(tmp_path: Path) -> None:
    child = python("sum(range(10**6)); print('done', flush=True); import signal; signal.pause()", tmp_path).start()
    child.wait_until(lambda: "done" in child.tail(), 20)
    usage = child.usage()
    child.kill()
    assert usage.cpu_seconds > 0
    assert usage.peak_rss_bytes >= usage.rss_bytes > 1 << 20
