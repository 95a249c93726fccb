"""Hollow kubelets: the real kubelet with a runtime in memory. It admits and refuses pods as a node does.

kubemark's own has no topology manager; `numakubelet`, built from the Go files beside this module, has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from e2e.client import Client
from e2e.controlplane.processes import Process
from scheduler.simulate.ports import free_ports

SECONDS_TO_READY = 60


NUMA_SOURCES = Path(__file__).parent / "numakubelet"


@contextmanager
def hollow_nodes(programs: Path, kubeconfig: Path, folder: Path, client: Client, *names: str) -> Iterator[None]:
    """Ready nodes of one CPU, 3840 MiB and 110 pods; they go with the block. Raises `NotInTime`.

    On a control plane without KWOK, which would be a second kubelet of theirs.
    """
    flags = ("--morph=kubelet", "--use-host-image-service=false")
    with ExitStack() as stack:
        for name in names:
            label, certificates = f"--node-labels=kubernetes.io/hostname={name}", f"--cert-dir={folder}/{name}"
            own = (*flags, label, certificates)
            stack.callback(_start(programs / "kubemark", kubeconfig, folder, name, *own).kill)
        _wait_until_ready(client, names)
        yield
    client.delete_all("Node", list(names))


@contextmanager
def numa_node(program: Path, kubeconfig: Path, folder: Path, client: Client, name: str) -> Iterator[None]:
    """A ready node with two NUMA nodes of four CPUs each, one of them reserved; it goes with the block.

    Its kubelet gives pods of the class Guaranteed whole CPUs of one NUMA node (policies static and single-numa-node).
    """
    state = folder / f"{name}-state"
    state.mkdir()
    process = _start(program, kubeconfig, folder, name, f"--folder={state}")
    try:
        _wait_until_ready(client, (name,))
        yield
    finally:
        process.kill()
    client.delete_all("Node", [name])


def _wait_until_ready(client: Client, names: Sequence[str]) -> None:
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


def _start(program: Path, kubeconfig: Path, folder: Path, name: str, *flags: str) -> Process:
    port, read_only_port = free_ports(2)
    command = [
        str(program),
        f"--name={name}",
        f"--kubeconfig={kubeconfig}",
        f"--kubelet-port={port}",
        f"--kubelet-read-only-port={read_only_port}",
        *flags,
    ]
    return Process(f"kubelet-{name}", command, folder / f"{name}.log").start()
