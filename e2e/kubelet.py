"""kubemark's hollow kubelet: the real kubelet with a runtime in memory. It admits and refuses pods as a node does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from e2e.client import Client
from e2e.controlplane.processes import Process, free_ports

SECONDS_TO_READY = 60


@contextmanager
def hollow_nodes(programs: Path, kubeconfig: Path, folder: Path, client: Client, *names: str) -> Iterator[None]:
    """Ready nodes of one CPU, 3840 MiB and 110 pods; they go with the block. Raises `NotInTime`.

    On a control plane without KWOK, which would be a second kubelet of theirs.
    """
    with ExitStack() as stack:
        for name in names:
            stack.callback(_start(programs, kubeconfig, folder, name).kill)
        with client.watch("Node") as watch:
            watch.wait_until(
                lambda state: all(
                    any(
                        condition["type"] == "Ready" and condition["status"] == "True"
                        for condition in state.get(name, {}).get("status", {}).get("conditions", ())
                    )
                    for name in names
                ),
                SECONDS_TO_READY,
                f"ready kubelets {', '.join(names)}",
            )
        yield
    client.delete_all("Node", list(names))


def _start(programs: Path, kubeconfig: Path, folder: Path, name: str) -> Process:
    port, read_only_port = free_ports(2)
    command = [
        str(programs / "kubemark"),
        "--morph=kubelet",
        f"--name={name}",
        f"--node-labels=kubernetes.io/hostname={name}",
        f"--kubeconfig={kubeconfig}",
        f"--kubelet-port={port}",
        f"--kubelet-read-only-port={read_only_port}",
        "--use-host-image-service=false",
        f"--cert-dir={folder}/{name}",
    ]
    return Process(f"kubelet-{name}", command, folder / f"{name}.log").start()
