"""The functions that Kubernetes adds to CEL, as one table: name, types, implementation.

A row's types are checked when a selector is compiled. At run time CEL tells overloads apart by how a value is stored,
which is alike for all of Kubernetes' own types; ``dispatch`` then looks at what they are.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from scheduler.objects.quantity import NANO, InvalidQuantity, parse
from scheduler.plugins.devices.selectors.values import (
    CIDR,
    IP,
    QUANTITY,
    SEMVER,
    URL,
    Value,
    nanos_of,
    parse_version,
    quantity,
    quantity_of,
    semver,
    version_of,
    whole,
)

STRING, INT, BOOL, DOUBLE, LIST, DYN, MAP = "string", "int", "bool", "double", "list", "dyn", "map"
OPAQUE = frozenset({QUANTITY, SEMVER, IP, CIDR, URL})


class Function(NamedTuple):
    """``parameters`` of a member function begin with the value it is called on."""

    name: str
    is_member: bool
    parameters: tuple[str, ...]
    result: str
    call: Callable[..., Any]


def _member(name: str, parameters: tuple[str, ...], result: str, call: Callable[..., Any]) -> Function:
    return Function(name, True, parameters, result, call)


def _plain(name: str, parameters: tuple[str, ...], result: str, call: Callable[..., Any]) -> Function:
    return Function(name, False, parameters, result, call)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _can(convert: Callable[..., Any]) -> Callable[..., bool]:
    def answers(*arguments: Any) -> bool:
        try:
            convert(*arguments)
        except ValueError:
            return False
        return True

    return answers


# --- quantities and versions ------------------------------------------------------------------------------------------


def _quantity(written: str) -> Any:
    try:
        return quantity(written)
    except InvalidQuantity as error:
        raise ValueError(str(error)) from error


def _integer(value: Any) -> int:
    units = whole(nanos_of(value))
    if units is None:
        raise ValueError("cannot convert value to integer")
    return units


def _compared(order: Callable[[Any], Any]) -> dict[str, tuple[str, Callable[[Any, Any], Any]]]:
    """Name → result and implementation of the three comparisons of a type."""
    return {
        "isLessThan": (BOOL, lambda one, other: order(one) < order(other)),
        "isGreaterThan": (BOOL, lambda one, other: order(one) > order(other)),
        "compareTo": (INT, lambda one, other: (order(one) > order(other)) - (order(one) < order(other))),
    }


_QUANTITIES = (
    _plain("quantity", (STRING,), QUANTITY, _quantity),
    _plain("isQuantity", (STRING,), BOOL, _can(parse)),
    _plain("sign", (QUANTITY,), INT, lambda value: _sign(nanos_of(value))),
    _member("isInteger", (QUANTITY,), BOOL, lambda value: whole(nanos_of(value)) is not None),
    _member("asInteger", (QUANTITY,), INT, _integer),
    _member("asApproximateFloat", (QUANTITY,), DOUBLE, lambda value: nanos_of(value) / NANO),
    _member("add", (QUANTITY, QUANTITY), QUANTITY, lambda one, other: quantity_of(nanos_of(one) + nanos_of(other))),
    _member("add", (QUANTITY, INT), QUANTITY, lambda one, units: quantity_of(nanos_of(one) + units * NANO)),
    _member("sub", (QUANTITY, QUANTITY), QUANTITY, lambda one, other: quantity_of(nanos_of(one) - nanos_of(other))),
    _member("sub", (QUANTITY, INT), QUANTITY, lambda one, units: quantity_of(nanos_of(one) - units * NANO)),
    *(_member(name, (QUANTITY, QUANTITY), result, call) for name, (result, call) in _compared(nanos_of).items()),
)

_VERSIONS = (
    _plain("semver", (STRING,), SEMVER, semver),
    _plain("semver", (STRING, BOOL), SEMVER, semver),
    _plain("isSemver", (STRING,), BOOL, _can(parse_version)),
    _plain("isSemver", (STRING, BOOL), BOOL, _can(parse_version)),
    _member("major", (SEMVER,), INT, lambda value: version_of(value).major),
    _member("minor", (SEMVER,), INT, lambda value: version_of(value).minor),
    _member("patch", (SEMVER,), INT, lambda value: version_of(value).patch),
    *(
        _member(name, (SEMVER, SEMVER), result, call)
        for name, (result, call) in _compared(lambda value: version_of(value).order).items()
    ),
)

# --- lists ------------------------------------------------------------------------------------------------------------


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def of(items: list[Any]) -> Any:
        if not items:
            raise ValueError(f"{name} called on empty list")
        return choose(items)

    return of


def _is_sorted(items: list[Any]) -> bool:
    return all(one <= other for one, other in pairwise(items))


_LISTS = (
    _member("isSorted", (LIST,), BOOL, _is_sorted),
    _member("sum", (LIST,), DYN, lambda items: sum(items[1:], items[0]) if items else 0),
    _member("min", (LIST,), DYN, _extreme("min", min)),
    _member("max", (LIST,), DYN, _extreme("max", max)),
)

# --- addresses --------------------------------------------------------------------------------------------------------


def _address(written: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(written)
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped is not None or address.scope_id):
        raise ValueError(f"IP Address {written!r} is mapped or has a zone")
    return address


def _interface(written: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    address, slash, length = written.partition("/")
    if not slash or not length.isdigit() or (len(length) > 1 and length[0] == "0"):
        raise ValueError(f"network address parse error of {written!r}")
    _address(address)
    return ipaddress.ip_interface(written)


def _is_canonical(written: str) -> bool:
    return str(_address(written)) == written


def _ip(written: str) -> Any:
    return Value(kind=IP, text=str(_address(written)))


def _cidr(written: str) -> Any:
    return Value(kind=CIDR, text=str(_interface(written)))


def _contains_ip(network: Any, address: Any) -> bool:
    written = address if isinstance(address, str) else address.text
    return _address(written) in _interface(network.text).network


def _contains_cidr(network: Any, other: Any) -> bool:
    outer = _interface(network.text).network
    inner = _interface(other if isinstance(other, str) else other.text)
    return inner.ip in outer and inner.network.prefixlen >= outer.prefixlen


def _address_fact(name: str) -> Callable[[Any], bool]:
    def fact(value: Any) -> bool:
        return bool(getattr(ipaddress.ip_address(value.text), name))

    return fact


def _is_link_local_multicast(value: Any) -> bool:
    address = ipaddress.ip_address(value.text)
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _is_global_unicast(value: Any) -> bool:
    """Go's meaning: neither unspecified, loopback, multicast nor link-local."""
    address = ipaddress.ip_address(value.text)
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or value.text == "255.255.255.255"
    )


_ADDRESSES = (
    _plain("ip", (STRING,), IP, _ip),
    _plain("isIP", (STRING,), BOOL, _can(_address)),
    _plain("ip.isCanonical", (STRING,), BOOL, _is_canonical),
    _member("family", (IP,), INT, lambda value: ipaddress.ip_address(value.text).version),
    _member("isUnspecified", (IP,), BOOL, _address_fact("is_unspecified")),
    _member("isLoopback", (IP,), BOOL, _address_fact("is_loopback")),
    _member("isLinkLocalMulticast", (IP,), BOOL, _is_link_local_multicast),
    _member("isLinkLocalUnicast", (IP,), BOOL, _address_fact("is_link_local")),
    _member("isGlobalUnicast", (IP,), BOOL, _is_global_unicast),
    _plain("cidr", (STRING,), CIDR, _cidr),
    _plain("isCIDR", (STRING,), BOOL, _can(_interface)),
    _member("containsIP", (CIDR, STRING), BOOL, _contains_ip),
    _member("containsIP", (CIDR, IP), BOOL, _contains_ip),
    _member("containsCIDR", (CIDR, STRING), BOOL, _contains_cidr),
    _member("containsCIDR", (CIDR, CIDR), BOOL, _contains_cidr),
    _member("ip", (CIDR,), IP, lambda value: _ip(str(_interface(value.text).ip))),
    _member("masked", (CIDR,), CIDR, lambda value: _cidr(str(_interface(value.text).network))),
    _member("prefixLength", (CIDR,), INT, lambda value: _interface(value.text).network.prefixlen),
)

# --- URLs -------------------------------------------------------------------------------------------------------------


def _split(written: str) -> Any:
    """An absolute URL, or an absolute path, as Go's ParseRequestURI takes it. Raises ValueError."""
    parts = urlsplit(written)
    if not (parts.scheme or written.startswith("/")) or any(ord(letter) < 0x21 for letter in written):
        raise ValueError(f"URL parse error during conversion from string: {written!r}: invalid URI for request")
    _ = parts.port
    return parts


def _url(written: str) -> Any:
    _split(written)
    return Value(kind=URL, text=written)


def _part(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: read(_split(value.text))


def _host(parts: Any) -> str:
    return str(parts.netloc.rpartition("@")[2])


def _host_name(parts: Any) -> str:
    host = _host(parts)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


_URLS = (
    _plain("url", (STRING,), URL, _url),
    _plain("isURL", (STRING,), BOOL, _can(_split)),
    _member("getScheme", (URL,), STRING, _part(lambda parts: parts.scheme)),
    _member("getHost", (URL,), STRING, _part(_host)),
    _member("getHostname", (URL,), STRING, _part(_host_name)),
    _member("getPort", (URL,), STRING, _part(lambda parts: "" if parts.port is None else str(parts.port))),
    _member("getEscapedPath", (URL,), STRING, _part(lambda parts: quote(parts.path, safe="/%:@!$&'()*+,;=~-._"))),
    _member("getQuery", (URL,), MAP, _part(lambda parts: parse_qs(parts.query, keep_blank_values=True))),
)

FUNCTIONS: tuple[Function, ...] = (*_QUANTITIES, *_VERSIONS, *_LISTS, *_ADDRESSES, *_URLS)


def dispatch(rows: list[Function]) -> Callable[..., Any]:
    """One implementation for overloads whose values are stored alike."""
    by_kinds = {tuple(kind for kind in row.parameters if kind in OPAQUE): row.call for row in rows}

    def call(*arguments: Any) -> Any:
        kinds = tuple([argument.kind for argument in arguments if isinstance(argument, Value)])
        found = by_kinds.get(kinds)
        if found is None:
            raise ValueError("no such overload")
        return found(*arguments)

    return call
