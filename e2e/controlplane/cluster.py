"""`ControlPlane`: a real Kubernetes control plane in a temporary folder, up in seconds and gone without a trace."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from e2e.controlplane import build
from e2e.controlplane.processes import Process, ProcessFailure, Usage
from scheduler.simulate.ports import free_ports

CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "disruption-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "persistentvolume-binder-controller",
    "garbage-collector-controller",
    "resourceclaim-controller",
)
ADMIN = "admin"
TOKEN = "token-of-the-admin"
WATCHED_USER = "system:serviceaccount:tandem-e2e-users:tandem"
"""The audit log has every request of this one: the subject of the tests, with the rights that the manifests grant."""
STAGES = Path(__file__).with_name("kwok.yaml")


class ControlPlane:
    """A context manager; enter it in the main thread. `kwok=False` leaves nodes and pods to be plain objects.
    `features`: feature gates that are on; `apis`: API versions that are served besides the default ones.

    Raises `build.BuildError` when the programs cannot be had, `ProcessFailure` (with the logs' tails) when one of
    them does not come up. On an exception inside the block the tails are printed, too. `E2E_KEEP=1` keeps the folder.
    """

    def __init__(
        self,
        *,
        kwok: bool = True,
        controllers: Sequence[str] = CONTROLLERS,
        audit: bool = False,
        features: Sequence[str] = (),
        apis: Sequence[str] = (),
    ) -> None:
        self._features = [f"--feature-gates={','.join(f'{name}=true' for name in features)}"] if features else []
        self._apis = [f"--runtime-config={','.join(f'{api}=true' for api in apis)}"] if apis else []
        self._with_kwok = kwok
        self._controllers = tuple(controllers)
        self._with_audit = audit
        self._processes: dict[str, Process] = {}
        self.apiserver_starts = 0

    def __enter__(self) -> Self:
        self.programs = build.programs()
        self.folder = Path(tempfile.mkdtemp(prefix="tandem-controlplane-"))
        self._etcd_port, self._peer_port, self._port = free_ports(3)
        self.url = f"https://127.0.0.1:{self._port}"
        # SIGTERM (a CI job's time limit) should unwind like Ctrl-C does.
        self._previous_handler = signal.signal(signal.SIGTERM, _interrupt)
        try:
            self._write_keys()
            self._start_etcd()
            self.start_apiserver()
            if self._controllers:
                self.start_controllers()
            if self._with_kwok:
                self.start_kwok()
        except BaseException:
            self._report()
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._report()
        self._close()

    def usage(self, name: str) -> Usage:
        """What a process has used: ``kube-apiserver``, ``etcd`` or another that runs."""
        return self._processes[name].usage()

    def kubeconfig(self) -> Path:
        """The path of the admin's kubeconfig; `e2e.identities` makes users with fewer rights."""
        path = self.folder / "kubeconfig"
        if not path.exists():
            path.write_text(_kubeconfig_text(self.url, self._authority()))
        return path

    def stop_apiserver(self, seconds: float = 2.0) -> None:
        """End the API server; open watches would hold a polite end up, so after `seconds` it is killed."""
        self._processes["kube-apiserver"].stop(seconds)

    def start_apiserver(self) -> None:
        """Start the API server, after `stop_apiserver` on the same port with the same data, and wait for it."""
        self.apiserver_starts += 1
        server = self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder}/certificates",
            f"--token-auth-file={self.folder}/tokens.csv",
            "--authorization-mode=RBAC",
            f"--service-account-key-file={self.folder}/accounts.pub",
            f"--service-account-signing-key-file={self.folder}/accounts.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Nodes made by hand have no kubelet that would take the not-ready taint away again.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--event-ttl=1h",
            "--max-requests-inflight=4000",
            "--max-mutating-requests-inflight=2000",
            "--shutdown-delay-duration=0s",
            *(self._audit_options() if self._with_audit else ()),
            *self._features,
            *self._apis,
        )
        server.wait_until(lambda: self._answers("/readyz"), 60)
        server.wait_until(lambda: self._answers("/api/v1/namespaces/default"), 20)
        # Ready or not, lists of a kind are answered 429 until its watch cache has been filled.
        for path in ("/api/v1/nodes", "/api/v1/pods", "/apis/events.k8s.io/v1/events"):
            server.wait_until(lambda path=path: self._answers(f"{path}?limit=1"), 20)  # type: ignore[misc]
        self._start_afresh("kube-controller-manager", self.start_controllers)
        self._start_afresh("kwok", self.start_kwok)

    def restart_apiserver(self) -> None:
        self.stop_apiserver()
        self.start_apiserver()

    def save_state(self) -> None:
        """Keep a copy of etcd's data as they are now, as a backup would; the API server is away meanwhile."""
        self._exchange_state(lambda data, saved: shutil.copytree(data, saved))

    def restore_state(self) -> None:
        """Put etcd's data back to what they were at `save_state`: resource versions begin again from there, as after a
        restore that does not raise the revision."""

        def put_back(data: Path, saved: Path) -> None:
            shutil.rmtree(data)
            shutil.copytree(saved, data)

        self._exchange_state(put_back)

    def _exchange_state(self, exchange: Callable[[Path, Path], object]) -> None:
        self.stop_apiserver(0)
        self._processes["etcd"].stop()
        exchange(self.folder / "etcd", self.folder / "etcd-saved")
        self._start_etcd()
        self.start_apiserver()

    def audit(self) -> list[dict[str, Any]]:
        """Every write to a pod or its subresources that was answered, oldest first, as audit.k8s.io events."""
        return [entry for entry in self.audit_entries() if _is_pod_write(entry)]

    def forbidden(self, user: str, since: int = 0) -> list[dict[str, Any]]:
        """The requests that this user has no right to, from this offset of the audit log on; see `WATCHED_USER`.

        Others are answered with 403, too: those that create something in a namespace that is being deleted.
        """
        return [
            entry
            for entry in self.audit_entries(since)
            if entry["user"].get("username") == user
            and entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
        ]

    def audit_size(self) -> int:
        """The present end of the audit log, as an offset."""
        log = self.folder / "audit.log"
        return log.stat().st_size if log.exists() else 0

    def audit_entries(self, since: int = 0) -> list[dict[str, Any]]:
        """The whole log from this place on, as audit.k8s.io events."""
        log = self.folder / "audit.log"
        if not log.exists():
            return []
        with log.open("rb") as file:
            file.seek(since)
            return [json.loads(line) for line in file.read().splitlines() if line.endswith(b"}")]

    def _audit_options(self) -> tuple[str, ...]:
        policy = self.folder / "audit-policy.yaml"
        pods = {"group": "", "resources": ["pods", "pods/*"]}
        writes = {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"], "resources": [pods]}
        watched = {"level": "Metadata", "users": [WATCHED_USER]}
        rules = {"omitStages": ["RequestReceived"], "rules": [watched, writes, {"level": "None"}]}
        policy.write_text(yaml.safe_dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **rules}))
        # Written before the answer is sent, so that a test finds in the file what it has seen on a watch.
        log = f"--audit-log-path={self.folder}/audit.log"
        return f"--audit-policy-file={policy}", log, "--audit-log-mode=blocking"

    def start_controllers(self) -> None:
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig()}",
            f"--service-account-private-key-file={self.folder}/accounts.key",
            f"--controllers={','.join(self._controllers)}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            *self._features,
        )

    def start_kwok(self) -> None:
        """Let KWOK be the kubelet of every node from now on."""
        self._start(
            "kwok",
            f"--kubeconfig={self.kubeconfig()}",
            "--manage-all-nodes=true",
            f"--config={STAGES}",
            "--node-lease-duration-seconds=0",
        )

    def stop_kwok(self) -> None:
        """From now on no pod starts, ends or goes away."""
        self._processes["kwok"].stop()

    def program(self, name: str) -> str:
        """The path of one of the programs, for example ``kubectl``."""
        return str(self.programs / name)

    def kubectl(self, *arguments: str) -> str:
        """The output of kubectl as the admin. Raises CalledProcessError."""
        command = [self.program("kubectl"), f"--kubeconfig={self.kubeconfig()}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    def _start_etcd(self) -> None:
        client = f"http://127.0.0.1:{self._etcd_port}"
        etcd = self._start(
            "etcd",
            f"--data-dir={self.folder}/etcd",
            "--unsafe-no-fsync",
            "--log-level=error",
            f"--quota-backend-bytes={8 << 30}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls=http://127.0.0.1:{self._peer_port}",
        )
        etcd.wait_until(lambda: _get(f"{client}/readyz") == 200, 20)

    def _start(self, name: str, *options: str) -> Process:
        process = Process(name, [self.program(name), *options], self.folder / f"{name}.log")
        # Known before it runs, so that an interrupt in between cannot lose it.
        self._processes[name] = process
        return process.start()

    def _start_afresh(self, name: str, start: Callable[[], None]) -> None:
        """Replace a running client of the API server: one that met its absence may rest half a minute before it asks
        again, longer than the next test waits for a ReplicaSet's pods or a node's first heartbeat."""
        if (old := self._processes.get(name)) is not None and old.alive:
            old.kill()
            start()

    def _write_keys(self) -> None:
        (self.folder / "tokens.csv").write_text(f"{TOKEN},{ADMIN},{ADMIN},system:masters\n")
        openssl = shutil.which("openssl")
        if openssl is None:
            raise ProcessFailure(
                "openssl is not on the PATH; it makes the key that service account tokens are signed with"
            )
        private, public = f"{self.folder}/accounts.key", f"{self.folder}/accounts.pub"
        for arguments in (
            ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", private],
            ["pkey", "-in", private, "-pubout", "-out", public],
        ):
            subprocess.run([openssl, *arguments], check=True, capture_output=True)

    def _authority(self) -> bytes:
        return (self.folder / "certificates" / "apiserver.crt").read_bytes()

    def _answers(self, path: str) -> bool:
        try:
            authority = self._authority().decode()
        except FileNotFoundError:
            return False
        return _get(self.url + path, TOKEN, authority) == 200

    def _report(self) -> None:
        for process in self._processes.values():
            print(process.tail(), file=sys.stderr, flush=True)

    def _close(self) -> None:
        # Clients of the API server are stopped before it, and it before etcd; none needs a long grace period.
        for process in sorted(self._processes.values(), key=lambda process: process.name in ("kube-apiserver", "etcd")):
            process.stop(seconds=3)
        signal.signal(signal.SIGTERM, self._previous_handler)
        if os.environ.get("E2E_KEEP") == "1":
            print(f"kept {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def _is_pod_write(entry: dict[str, Any]) -> bool:
    asked = entry.get("objectRef", {})
    is_pod = (asked.get("apiGroup", ""), asked.get("resource")) == ("", "pods")
    return is_pod and entry["verb"] in ("create", "update", "patch", "delete")


def _kubeconfig_text(url: str, authority: bytes) -> str:
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": ADMIN, "user": {"token": TOKEN}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": ADMIN}}],
            "current-context": "e2e",
        }
    )


def _get(url: str, token: str | None = None, authority: str | None = None) -> int:
    """The status of a GET, 0 without an answer."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    context = ssl.create_default_context(cadata=authority) if authority else None
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
    )
    try:
        with opener.open(request, timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError):
        return 0


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt(f"signal {number}")
