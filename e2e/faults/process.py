"""The fault proxy as a process of its own, as a test holds it."""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane.processes import Process, ProcessFailure
from e2e.controlplane.service import Service
from scheduler.simulate.ports import free_ports


@dataclass(frozen=True, slots=True)
class Report:
    """``fired``: kind → fault → how often. ``writes``: ``VERB path`` → how often a fault hit it. ``lists``: kind → how
    many lists were answered well since the faults were last turned on or off."""

    fired: dict[str, dict[str, int]]
    writes: dict[str, int]
    lists: dict[str, int]

    def total(self, fault: str) -> int:
        return sum(counts.get(fault, 0) for counts in self.fired.values())

    def lines(self) -> list[str]:
        """For people: one line a kind."""
        return [
            f"{kind:<40}" + ", ".join(f"{fault} {count}" for fault, count in sorted(counts.items()))
            for kind, counts in self.fired.items()
        ]


class FaultProxy(Service):
    """A context manager; ``kubeconfig`` leads through it, with the same user."""

    def __init__(self, kubeconfig: Path, folder: Path, seed: int, max_silence_seconds: float) -> None:
        (self.port,) = free_ports(1)
        self._certificate, key = folder / "fault-proxy.crt", folder / "fault-proxy.key"
        _make_certificate(self._certificate, key)
        self.kubeconfig = folder / "kubeconfig-through-faults"
        self.kubeconfig.write_text(self._led_through(kubeconfig))
        command = [sys.executable, "-m", "e2e.faults.proxy", str(self.port), str(kubeconfig)]
        command += [str(self._certificate), str(key), str(seed), str(max_silence_seconds)]
        self.process = Process("fault proxy", command, folder / "fault-proxy.log", directory=Path(__file__).parents[2])

    def turn(self, *, is_on: bool) -> None:
        self._ask("PUT", {"is_on": is_on})

    def report(self) -> Report:
        return Report(**self._ask("GET"))

    def _led_through(self, kubeconfig: Path) -> str:
        config = yaml.safe_load(kubeconfig.read_text())
        authority = base64.b64encode(self._certificate.read_bytes()).decode()
        server = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority-data": authority}
        for entry in config["clusters"]:
            entry["cluster"] = server
        return yaml.safe_dump(config)

    def _ask(self, method: str, body: Any = None) -> Any:
        tls = ssl.create_default_context(cafile=str(self._certificate))
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}/faults", data, method=method)
        with opener.open(request, timeout=10) as answer:
            return json.loads(answer.read())

    def ask(self) -> None:
        self.report()


def _make_certificate(certificate: Path, key: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        raise ProcessFailure("openssl is not on the PATH; it makes the certificate of the fault proxy")
    options = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=fault-proxy"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [openssl, "req", "-x509", *options, *names, "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
