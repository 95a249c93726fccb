"""Host ports of pods, and when two conflict (docs/kube-scheduler/plugins.md §2.4, §3.7)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from scheduler.objects.pod import Pod

ANY_ADDRESS = "0.0.0.0"


class HostPort(NamedTuple):
    """A host port. Addresses are compared as strings: only `0.0.0.0` means all of them."""

    ip: str
    protocol: str
    port: int


PortKey = tuple[str, int]
"""(protocol, port): host ports that differ in it are never in each other's way."""


def key_of(port: HostPort) -> PortKey:
    return port.protocol, port.port


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The distinct host ports of containers and sidecars; other init containers don't count."""
    spec = pod.spec
    found: dict[HostPort, None] = {}
    for container in spec.containers:
        for port in container.ports:
            if port.host_port > 0:
                found[HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)] = None
    for container in spec.init_containers:
        if container.is_sidecar:
            for port in container.ports:
                if port.host_port > 0:
                    found[HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)] = None
    return tuple(found)


def port_conflicts(wanted: HostPort, used: Collection[HostPort]) -> bool:
    """Whether the port is in use: at the same address, or where either side means all addresses."""
    if not used:
        return False
    if wanted.ip == ANY_ADDRESS:
        return any(port.port == wanted.port and port.protocol == wanted.protocol for port in used)
    return wanted in used or HostPort(ANY_ADDRESS, wanted.protocol, wanted.port) in used


def any_port_conflicts(wanted: Iterable[HostPort], used: Collection[HostPort]) -> bool:
    """Whether one of the ports is in use. The wanted ports are not compared with each other."""
    return any(port_conflicts(port, used) for port in wanted)
