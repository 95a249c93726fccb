"""Child processes that never outlive us: each dies with its parent, has a log file, and is ended by its own pid."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class ProcessFailure(Exception):
    """A program ended or did not become ready; the text carries the tail of its log."""


class Process:
    """One program with its log. Start it from the main thread: Linux ties the child's life to that thread."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self._environment = {**os.environ, **(environment or {})}
        self._directory = directory
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        parent = os.getpid()

        def die_with_parent() -> None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C reaches us alone, and we end the children in order.
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._directory,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        return self

    @property
    def pid(self) -> int:
        assert self._child is not None, f"{self.name} was never started"
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return None if self._child is None else self._child.poll()

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def wait(self, seconds: float) -> int:
        """The exit code. Raises `ProcessFailure` when it still runs after `seconds`."""
        assert self._child is not None, f"{self.name} was never started"
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ProcessFailure(f"{self.name} still runs after {seconds:.0f} s\n{self.tail()}") from None

    def stop(self, seconds: float = 10.0) -> int | None:
        """SIGTERM, and SIGKILL when that was not enough. The exit code, or None when it was never started."""
        if self._child is None:
            return None
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        return self._child.returncode

    def kill(self) -> None:
        """Send SIGKILL: no orderly shutdown."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the process within the block (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def tail(self, lines: int = 25) -> str:
        """The last lines of its log, under a heading."""
        text = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"--- {self.name}: last lines of its log", *text[-lines:]])

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Ask `ready` every 50 ms. Raises `ProcessFailure` when the program ends or `seconds` pass before a yes."""
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.alive:
                raise ProcessFailure(f"{self.name} ended with {self.exit_code}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ProcessFailure(f"{self.name} is not ready after {seconds:.0f} s\n{self.tail()}")
            time.sleep(0.05)

    def usage(self) -> Usage:
        return usage(self.pid)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a live process has used: CPU seconds (user + system, all threads), resident and peak resident bytes."""

    cpu_seconds: float
    rss_bytes: int
    peak_rss_bytes: int


def usage(pid: int) -> Usage:
    """Read from /proc. Raises FileNotFoundError when there is no such process."""
    # The second field, the command in parentheses, may hold spaces: count from the last parenthesis.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    kibibytes = {key: int(status.get(key, "0 kB").split()[0]) for key in ("VmRSS", "VmHWM")}
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), kibibytes["VmRSS"] * 1024, kibibytes["VmHWM"] * 1024)
