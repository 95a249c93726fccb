"""Listening sockets, chosen as Go's ``net.Listen`` does, and so as in kube-scheduler."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Any, Final

from scheduler.errors import ConfigurationError, Fault

BACKLOG: Final = 128

Endpoint = tuple[socket.AddressFamily, Any]


def listening_sockets(address: str, port: int) -> list[socket.socket]:
    """Non-blocking listening sockets. Raises ConfigurationError with one line if the address can't be listened on.

    No address, ``0.0.0.0`` and ``::`` all mean every address of both families: one dual-stack IPv6 socket, or an IPv4
    socket on a machine without IPv6. A host name means each of its addresses. Port 0 is any free one.
    """
    sockets: list[socket.socket] = []
    try:
        if _is_unspecified(address):
            sockets.append(_listen_on_all(port))
        else:
            for family, place in _endpoints(address, port):
                # The free port found for the first address is used for the others, too.
                chosen = (place[0], sockets[0].getsockname()[1], *place[2:]) if sockets else place
                sockets.append(_listen(family, chosen))
    except (OSError, UnicodeError) as error:
        for one in sockets:
            one.close()
        raise ConfigurationError(
            (Fault("", f"failed to listen on {shown(address, port)}: {_reason(error)}"),)
        ) from error
    return sockets


def shown(address: str, port: int) -> str:
    """The address as ``address:port``, with brackets around an IPv6 address."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _is_unspecified(address: str) -> bool:
    try:
        return not address or ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def _endpoints(address: str, port: int) -> list[Endpoint]:
    found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, place) for family, _, _, _, place in found))


def _listen_on_all(port: int) -> socket.socket:
    if socket.has_ipv6:
        try:
            return _listen(socket.AF_INET6, ("::", port), takes_both=True)
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENOPROTOOPT):
                raise
    return _listen(socket.AF_INET, ("0.0.0.0", port))


def _listen(family: socket.AddressFamily, place: Any, *, takes_both: bool = False) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if takes_both else 1)
        made.bind(place)
        made.listen(BACKLOG)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "the port is in use"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
