"""A scheduler under test as a process of its own: how any of them is started, watched and stopped."""

from __future__ import annotations

import abc
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.controlplane import build
from e2e.controlplane.processes import Process, Usage
from scheduler.simulate.ports import free_ports

REST_SECONDS = 2.0
REST_CPU = 0.02
"""Of one CPU, while it is at rest: Tandem takes 0.0005 then, kube-scheduler 0.0015 (1,000 nodes, nothing to do)."""


class Scheduler(abc.ABC):
    """A scheduler process. As a context manager it starts, is ready inside the block, and is stopped after it."""

    kind: str
    scheme: str
    directory = Path(__file__).parent.parent
    """The working directory: for a Python program, the checkout that it is run from."""

    def __init__(self, kubeconfig: Path, folder: Path, scheduler_name: str) -> None:
        self.kubeconfig = kubeconfig
        self.folder = folder
        self.scheduler_name = scheduler_name
        self._starts = 0

    @abc.abstractmethod
    def command(self) -> list[str]:
        """The command line; `self.port` is the port to serve health and metrics on."""

    def start(self) -> Self:
        """Start the process, without waiting for it; each start has a log file of its own."""
        self._starts += 1
        (self.port,) = free_ports(1)
        log = self.folder / f"{self.scheduler_name}-{self._starts}.log"
        environment = {"PYTHONUNBUFFERED": "1", **_kept_bytecode()}
        self.process = Process(self.kind, self.command(), log, environment, self.directory).start()
        return self

    def wait_ready(self, seconds: float = 30.0) -> Self:
        """Wait until /readyz says 200. Raises `ProcessFailure` with the log's tail."""
        self.process.wait_until(lambda: self.get("/readyz")[0] == 200, seconds)
        return self

    def wait_at_rest(self, seconds: float = 15.0) -> Self:
        """Wait until it has used hardly any CPU for a while: it has digested what it listed, and imported what it left
        for later. One that is never at rest is waited for no longer than this."""
        end = time.monotonic() + seconds
        began, used = time.monotonic(), self.usage().cpu_seconds
        while time.monotonic() < min(began + REST_SECONDS, end):
            time.sleep(0.1)
            spent = self.usage().cpu_seconds
            if spent - used > REST_SECONDS * REST_CPU:
                began, used = time.monotonic(), spent
        return self

    def stop(self, seconds: float = 20.0) -> int | None:
        """SIGTERM; the exit code."""
        return self.process.stop(seconds)

    def kill(self) -> None:
        """SIGKILL, if it was started at all."""
        if self._starts:
            self.process.kill()

    def usage(self) -> Usage:
        return self.process.usage()

    def log(self) -> str:
        return self.process.log.read_text(errors="replace")

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page that it serves; status 0 without an answer."""
        # It speaks from the loopback with a certificate that it made for itself.
        context = ssl._create_unverified_context()
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with opener.open(f"{self.scheme}://127.0.0.1:{self.port}{path}", timeout=2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (TimeoutError, OSError):
            return 0, ""

    def __enter__(self) -> Self:
        self.start()
        try:
            return self.wait_ready()
        except BaseException:
            self.process.kill()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            print(self.process.tail())
        self.stop()


def _kept_bytecode() -> dict[str, str]:
    """The environment of a Python program whose bytecode is kept, as an installation keeps it: compiling its modules
    takes longer than the rest of a start."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(build.cache_root() / "bytecode")}
