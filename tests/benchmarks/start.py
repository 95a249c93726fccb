"""What a command's start costs: CPU time as a multiple of ``python -c "import numpy, aiohttp"``, paired, in one run."""

from __future__ import annotations

import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

ROUNDS = 7
BARE = ("-c", "import numpy, aiohttp")
ACCEPT_SECONDS = 60.0
NANOSECONDS = 1e9


def starts() -> dict[str, float]:
    """Medians of ratios. ``run`` ends at the first request that its API server receives; ``why`` and ``queue`` ask a
    scheduler that does not answer; a first round, which writes bytecode, is left out."""
    ratios: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = _environment(folder)
        for number in range(ROUNDS + 1):
            bare = _whole(BARE, environment)
            costs = {
                "version": _whole(("-m", "scheduler", "version"), environment),
                "why": _whole(("-m", "scheduler", "why", "pod", "--server", "http://127.0.0.1:1"), environment),
                "queue": _whole(("-m", "scheduler", "queue", "--server", "http://127.0.0.1:1"), environment),
                "run, to its first request": _to_first_request(Path(folder), environment),
            }
            for name, seconds in costs.items() if number else ():
                ratios.setdefault(name, []).append(seconds / bare)
    return {name: statistics.median(found) for name, found in ratios.items()}


def _environment(folder: str) -> dict[str, str]:
    """This one, with bytecode kept, as an installation keeps it."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}


def _whole(arguments: tuple[str, ...], environment: dict[str, str]) -> float:
    """CPU seconds of the whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _to_first_request(folder: Path, environment: dict[str, str]) -> float:
    """CPU seconds of all threads until the API server has received a request."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(ACCEPT_SECONDS)
        config = {
            "current-context": "one",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.getsockname()[1]}"}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        }
        path = folder / "kubeconfig"
        path.write_bytes(msgspec.json.encode(config))
        flags = ("--kubeconfig", str(path), "--secure-port=0", "--leader-elect=false")
        with subprocess.Popen(
            [sys.executable, "-m", "scheduler", "run", *flags], env=environment, stderr=subprocess.DEVNULL
        ) as process:
            try:
                connection, _ = server.accept()
                with connection:
                    connection.recv(1)
                threads = Path(f"/proc/{process.pid}/task").iterdir()
                return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / NANOSECONDS
            finally:
                process.kill()
