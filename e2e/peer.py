"""kube-scheduler as a process: the peer beside us, and in the subject's place to prove that a promise is fair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e.subject import Scheduler
from e2e.tandem import profile


class KubeScheduler(Scheduler):
    """`queries_per_second` lifts the client-side limit of 50, which would otherwise be all that a bench measures.
    `fields`: further ones of its configuration."""

    kind = "kube-scheduler"
    scheme = "https"

    def __init__(
        self,
        kubeconfig: Path,
        folder: Path,
        scheduler_name: str = "default-scheduler",
        *,
        programs: Path,
        queries_per_second: int = 5000,
        options: Sequence[str] = (),
        **fields: Any,
    ) -> None:
        super().__init__(kubeconfig, folder, scheduler_name)
        self._program = programs / "kube-scheduler"
        self._queries_per_second = queries_per_second
        self._options = tuple(options)
        self._fields = fields

    def command(self) -> list[str]:
        limit = self._queries_per_second
        connection = {"kubeconfig": str(self.kubeconfig), "qps": limit, "burst": limit}
        file = self.folder / f"{self.scheduler_name}-kube-scheduler.yaml"
        file.write_text(
            yaml.safe_dump({**profile(self.scheduler_name), "clientConnection": connection, **self._fields})
        )
        return [
            str(self._program),
            f"--config={file}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.folder}/kube-scheduler-certificates",
            "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
            "--authentication-tolerate-lookup-failure=true",
            "-v=2",
            *self._options,
        ]
