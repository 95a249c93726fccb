"""Free TCP ports of the loopback, for servers that cannot choose theirs themselves."""

from __future__ import annotations

import errno
import itertools
import random
import socket
from pathlib import Path

# Below are those that well-known servers listen on.
_FIRST_PORT, _END_OF_PORTS = 11000, 65536
# Where the kernel's ports of outgoing connections begin, if it does not say so: Linux's default.
_FIRST_OUTGOING = 32768
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Distinct free TCP ports of the loopback. Raises OSError for too few.

    Where there is a choice, none that the kernel gives to outgoing connections: one of those could take it before, or
    between two starts of, the server that it is meant for.
    """
    try:
        begin = max(_FIRST_PORT, int(_OUTGOING.read_text().split()[0]))
    except FileNotFoundError:
        begin = _FIRST_OUTGOING
    reserved, outgoing = list(range(_FIRST_PORT, begin)), list(range(begin, _END_OF_PORTS))
    random.shuffle(reserved)
    random.shuffle(outgoing)
    ports = list(itertools.islice(filter(_is_free, [*reserved, *outgoing]), count))
    if len(ports) < count:
        raise OSError(errno.EADDRINUSE, f"of {count} free ports there are {len(ports)}")
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
