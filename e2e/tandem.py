"""The shipped scheduler, started as users start it: ``python -m scheduler run``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e.builders import SCHEDULER
from e2e.subject import Scheduler

RECORDED = os.environ.get("E2E_RECORDED") == "1"
"""Every scheduler of the run is recorded, and its recording is replayed after its test."""
replays: dict[str, list[str]] = {}
"""The folder of each recording that may have been made → the command that replays it."""


class Tandem(Scheduler):
    """`config` becomes a file for ``--config``, a list one of several documents; without it the defaults hold."""

    kind = "tandem"
    scheme = "http"

    def __init__(
        self,
        kubeconfig: Path,
        folder: Path,
        scheduler_name: str = SCHEDULER,
        config: dict[str, Any] | list[dict[str, Any]] | None = None,
        options: Sequence[str] = (),
        journal: bool = True,
    ) -> None:
        super().__init__(kubeconfig, folder, scheduler_name)
        if config is None and scheduler_name != SCHEDULER:
            config = profile(scheduler_name)
        self._config = config
        self._options = tuple(options)
        self._journal = journal

    @property
    def journal(self) -> Path:
        """The journal of the newest start."""
        return self.folder / f"{self.scheduler_name}-{self._starts}.jsonl"

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "scheduler", "run", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false"]
        command += [f"--secure-port={self.port}", "--bind-address=127.0.0.1", "--serving-http", "-v", "2"]
        if self._journal:
            command.append(f"--journal={self.journal}")
        if self._config is not None:
            file = self.folder / f"{self.scheduler_name}.yaml"
            documents = self._config if isinstance(self._config, list) else [self._config]
            file.write_text(yaml.safe_dump_all(documents))
            command.append(f"--config={file}")
        if RECORDED and not any(option.startswith("--record") for option in self._options):
            recording = str(self.folder / "recording")
            command.append(f"--record={recording}")
            folders = [option for option in self._options if option.startswith("--plugin-folder")]
            replays[recording] = [sys.executable, "-m", "scheduler", "replay", recording, *folders]
        return [*command, *self._options]

    def journal_lines(self) -> list[dict[str, Any]]:
        """What the newest run wrote into its journal; a last line cut off by SIGKILL does not count."""
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]


def profile(scheduler_name: str) -> dict[str, Any]:
    """A KubeSchedulerConfiguration with one profile of default plugins under this name."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": scheduler_name}],
    }
