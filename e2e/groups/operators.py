"""Controllers of custom resources as processes beside the control plane, with the manifests of their own modules.

Each is built from its Go module. Its custom resource definitions and webhooks are applied as the module's folder has
them, except that the API server calls the webhooks on the loopback, with a certificate made for the test.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from e2e.builders import Object
from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from e2e.controlplane.processes import Process, ProcessFailure
from e2e.controlplane.service import Service
from e2e.controlplane.versions import OPERATORS
from scheduler.simulate.ports import free_ports

_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_ESTABLISHED_SECONDS = 30
_APPLIED = ("Namespace", "Secret", "CustomResourceDefinition", *_WEBHOOKS)


@dataclass(frozen=True, slots=True)
class _Servers:
    """The ports of a program's servers, and the folder of their certificate."""

    health: int
    webhooks: int
    certificate: Path


@dataclass(frozen=True, slots=True)
class _Recipe:
    """``manifests``: folders of the module for kustomize. ``needs``: definitions that other modules have, as (module,
    file). ``configuration``: what its file says; None: ``options``. ``authority``: the name under which the program
    looks for its certificate's authority, where it keeps the certificate itself."""

    manifests: tuple[str, ...]
    needs: tuple[tuple[str, str], ...] = ()
    options: Callable[[_Servers], list[str]] = lambda servers: []
    configuration: Callable[[_Servers], dict[str, Any]] | None = None
    authority: str = "webhooks"


def _jobset(servers: _Servers) -> dict[str, Any]:
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        **_configured(servers),
    }


def _trainer(servers: _Servers) -> dict[str, Any]:
    return {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "certManagement": {"enable": False},
        **_configured(servers),
    }


def _configured(servers: _Servers) -> dict[str, Any]:
    return {
        "webhook": {"host": "127.0.0.1", "port": servers.webhooks},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{servers.health}"},
    }


def _kuberay(servers: _Servers) -> list[str]:
    health = f"--health-probe-bind-address=127.0.0.1:{servers.health}"
    return [health, "--metrics-addr=0", "--enable-leader-election=false", "--batch-scheduler=scheduler-plugins"]


def _kueue(servers: _Servers) -> dict[str, Any]:
    configured = _configured(servers)
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "integrations": {"frameworks": ["batch/job", "pod"]},
        "featureGates": {"VisibilityOnDemand": False},
        **configured,
        "webhook": {**configured["webhook"], "certDir": str(servers.certificate)},
    }


_RECIPES = {
    "jobset": _Recipe(("config/default",), configuration=_jobset),
    "trainer": _Recipe(("manifests/base/crds", "manifests/base/webhook"), configuration=_trainer),
    "kuberay": _Recipe(
        ("config/default",), (("sigs.k8s.io/scheduler-plugins", "manifests/coscheduling/crd.yaml"),), _kuberay
    ),
    "kueue": _Recipe(("config/default",), configuration=_kueue, authority="kueue-ca"),
}


class Operator(Service):
    """One of `OPERATORS`, with every right on the cluster. Raises `build.BuildError` where it cannot be had.

    Its webhooks are taken away again at the end, so that what they are about can be created without it.
    """

    def __init__(self, name: str, controlplane: ControlPlane, folder: Path) -> None:
        program, self._module = build.operator(name)
        self._recipe = _RECIPES[name]
        self._modules = OPERATORS[name].modules
        self._controlplane = controlplane
        self._folder = folder / name
        self._folder.mkdir()
        health, webhooks = free_ports(2)
        self._servers = _Servers(health, webhooks, self._folder / "k8s-webhook-server" / "serving-certs")
        self._webhooks: list[tuple[str, str]] = []
        command = [str(program), *self._recipe.options(self._servers)]
        if self._recipe.configuration is not None:
            file = self._folder / "configuration.yaml"
            file.write_text(yaml.safe_dump(self._recipe.configuration(self._servers)))
            command.append(f"--config={file}")
        # Where nothing else is configured, the folder of the certificate is below that of temporary files.
        environment = {"KUBECONFIG": str(controlplane.kubeconfig()), "TMPDIR": str(self._folder)}
        self.process = Process(name, command, self._folder / "log", environment)

    def __enter__(self) -> Self:
        documents = [one for one in self._documents() if one["kind"] in _APPLIED]
        services = {one["service"]["name"]: one["service"] for one in _callers(documents)}
        hosts = [self._recipe.authority, *[f"{name}.{one['namespace']}.svc" for name, one in services.items()]]
        certificate = _make_certificate(self._servers.certificate, hosts)
        for one in _callers(documents):
            url = f"https://127.0.0.1:{self._servers.webhooks}{one.pop('service')['path']}"
            one |= {"url": url, "caBundle": certificate["ca.crt"]}
        for one in documents:
            if one["kind"] == "Secret":
                one["data"] = certificate
        # A webhook that does not answer yet refuses what it is asked about. But they are there before the program,
        # which may look for them.
        for one in sorted(documents, key=lambda one: one["kind"] != "Namespace"):
            self._apply(one)
        self._webhooks = [(one["kind"], one["metadata"]["name"]) for one in documents if one["kind"] in _WEBHOOKS]
        self._wait_established([one for one in documents if one["kind"] == "CustomResourceDefinition"])
        try:
            return super().__enter__()
        except BaseException:
            self._end()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._end()

    def _end(self) -> None:
        self.process.kill()
        for what, name in self._webhooks:
            self._controlplane.kubectl("delete", what, name)

    def _apply(self, document: Object) -> None:
        # One at a time and as JSON: a definition may have a megabyte, and a busy machine takes seconds for it.
        file = self._folder / "applied.json"
        file.write_text(json.dumps(document))
        # At the server's side: it may be too large for the annotation of the other way.
        self._controlplane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))

    def _wait_established(self, definitions: list[Object]) -> None:
        """Raises `ProcessFailure`."""
        missing = {one["metadata"]["name"] for one in definitions}
        deadline = time.monotonic() + _ESTABLISHED_SECONDS
        while missing:
            if time.monotonic() > deadline:
                raise ProcessFailure(f"not established after {_ESTABLISHED_SECONDS} s: {', '.join(sorted(missing))}")
            time.sleep(0.1)
            # "kubectl wait" is an error for a definition that has no status yet.
            for one in json.loads(self._controlplane.kubectl("get", "crd", "-o", "json"))["items"]:
                if _is_established(one):
                    missing.discard(one["metadata"]["name"])

    def ask(self) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            opener.open(f"http://127.0.0.1:{self._servers.health}/readyz", timeout=2).close()
        except urllib.error.HTTPError as error:
            error.close()
            raise

    def _documents(self) -> list[Object]:
        found: list[Object] = []
        for folder in self._recipe.manifests:
            text = self._controlplane.kubectl("kustomize", str(self._module / folder))
            found += yaml.load_all(text, yaml.CSafeLoader)
        for module, path in self._recipe.needs:
            text = (build.module_folder(self._modules.path, module) / path).read_text()
            found += yaml.load_all(text, yaml.CSafeLoader)
        return found


def _is_established(definition: Object) -> bool:
    # There may be none, and no list of them, yet.
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def _callers(documents: list[Object]) -> list[Object]:
    """Each place in which a document says how one of its webhooks is called."""
    found = [webhook["clientConfig"] for one in documents for webhook in one.get("webhooks", ())]
    conversions = [one["spec"].get("conversion", {}) for one in documents if one["kind"] == "CustomResourceDefinition"]
    return found + [one["webhook"]["clientConfig"] for one in conversions if "webhook" in one]


def _make_certificate(folder: Path, hosts: list[str]) -> dict[str, str]:
    """A certificate for the loopback and these hosts that is its own authority, written under the names that the
    servers look for. Returns the data of the Secret that would hold it. Raises `ProcessFailure` without openssl."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise ProcessFailure("openssl is not on the PATH; it makes the certificate of the webhooks")
    folder.mkdir(parents=True)
    key, certificate = folder / "tls.key", folder / "tls.crt"
    # Kueue makes another one where less than 90 days are left.
    options = ["-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj", "/CN=webhooks"]
    names = ["-addext", f"subjectAltName={','.join(['IP:127.0.0.1', *[f'DNS:{host}' for host in hosts]])}"]
    made = folder / "made.key"
    target = ["-keyout", str(made), "-out", str(certificate)]
    subprocess.run([openssl, "req", "-x509", *options, *names, *target], check=True, capture_output=True)
    # Kueue reads keys of this form only.
    subprocess.run(
        [openssl, "pkey", "-in", str(made), "-traditional", "-out", str(key)], check=True, capture_output=True
    )
    files = {"tls.crt": certificate, "tls.key": key, "ca.crt": certificate, "ca.key": key}
    return {name: base64.b64encode(file.read_bytes()).decode() for name, file in files.items()}
