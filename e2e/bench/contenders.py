"""The contenders of the bench: each a process under the pods' scheduler name, with the admin's rights."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from e2e.builders import SCHEDULER
from e2e.controlplane.processes import ProcessFailure
from e2e.peer import KubeScheduler
from e2e.subject import Scheduler
from e2e.tandem import Tandem

REPLAY_SECONDS = 600.0


class Null(Scheduler):
    """A round-robin scheduler without any logic: the yardstick of what the API server allows."""

    kind = "null"
    scheme = "http"

    def command(self) -> list[str]:
        options = [f"--kubeconfig={self.kubeconfig}", f"--scheduler-name={self.scheduler_name}", f"--port={self.port}"]
        return [sys.executable, "-m", "e2e.bench.null_scheduler", *options]


def _tandem(kubeconfig: Path, folder: Path, programs: Path, options: Sequence[str]) -> Scheduler:
    # No journal: kube-scheduler writes none either.
    return Tandem(kubeconfig, folder, journal=False, options=options)


class Recorded(Tandem):
    """Tandem with a recording, which is replayed when the run is over: a run that does not replay identically fails."""

    kind = "tandem --record"

    def stop(self, seconds: float = 20.0) -> int | None:
        code = super().stop(seconds)
        command = [sys.executable, "-m", "scheduler", "replay", str(self.folder / "recording")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=REPLAY_SECONDS, check=False)
        print(done.stdout, file=sys.stderr)
        if done.returncode:
            raise ProcessFailure(f"the recorded run does not replay identically\n{done.stdout}{done.stderr}")
        return code


def _recorded_tandem(kubeconfig: Path, folder: Path, programs: Path, options: Sequence[str]) -> Scheduler:
    return Recorded(kubeconfig, folder, journal=False, options=[f"--record={folder / 'recording'}", *options])


def _kube_scheduler(kubeconfig: Path, folder: Path, programs: Path, options: Sequence[str]) -> Scheduler:
    return KubeScheduler(kubeconfig, folder, SCHEDULER, programs=programs, queries_per_second=5000, options=options)


def _null(kubeconfig: Path, folder: Path, programs: Path, options: Sequence[str]) -> Scheduler:
    return Null(kubeconfig, folder, SCHEDULER)


CONTENDERS: dict[str, Callable[[Path, Path, Path, Sequence[str]], Scheduler]] = {
    "tandem": _tandem,
    "tandem --record": _recorded_tandem,
    "kube-scheduler": _kube_scheduler,
    "null": _null,
}

BY_DEFAULT = ("tandem", "kube-scheduler", "null")


def contender(name: str, kubeconfig: Path, folder: Path, programs: Path, options: Sequence[str]) -> Scheduler:
    """The scheduler of this name; ``NAME@CHECKOUT`` is that of another checkout: before and after a change, in one run.

    Both run in this environment, with the packages that this checkout asks for.
    """
    return of_checkout(name, lambda kind: CONTENDERS[kind](kubeconfig, folder, programs, options))


def of_checkout(name: str, made: Callable[[str], Scheduler]) -> Scheduler:
    """The scheduler that is ``made`` of the name before the ``@``, in the checkout behind it."""
    kind, _, checkout = name.partition("@")
    scheduler = made(kind)
    if checkout:
        scheduler.directory = Path(checkout)
    return scheduler


def unknown(names: Sequence[str], known: Collection[str] = CONTENDERS.keys()) -> list[str]:
    """Those of the names that stand for no known contender."""
    return [name for name in names if name.partition("@")[0] not in known]
