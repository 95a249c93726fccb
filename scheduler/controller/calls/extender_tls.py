"""TLS towards extenders: their certificates and keys, from files or from the configuration itself."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from scheduler.config.types import Extender, ExtenderTLSConfig
from scheduler.errors import ConfigurationError, Fault
from scheduler.extenders.extender import asking_order


class ExtenderTLS(Struct, frozen=True):
    """An extender's TLS settings. ``server_name`` "": the certificate must be valid for the host in the address."""

    context: ssl.SSLContext
    server_name: str = ""


def extender_contexts(extenders: Sequence[Extender]) -> dict[int, ExtenderTLS]:
    """TLS by the extender's number, in the order in which they are called, for those that configure TLS.

    Raises ConfigurationError with every fault, by the extender's place in the configuration.
    """
    contexts: dict[int, ExtenderTLS] = {}
    faults: list[Fault] = []
    for number, place in enumerate(asking_order(extenders)):
        extender = extenders[place]
        if extender.tls_config is None and not extender.enable_https:
            continue
        try:
            stated = extender.tls_config or ExtenderTLSConfig()
            contexts[number] = ExtenderTLS(_context(stated, is_unverified(extender)), stated.server_name)
        except (OSError, ssl.SSLError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            faults.append(Fault(f"extenders[{place}].tlsConfig", f"can't be used: {reason}"))
    if faults:
        raise ConfigurationError(faults)
    return contexts


def is_unverified(extender: Extender) -> bool:
    """Whether its certificate is not verified: as configured or, as in kube-scheduler, for HTTPS without an
    authority."""
    stated = extender.tls_config or ExtenderTLSConfig()
    return stated.insecure or (extender.enable_https and not stated.ca_file and not stated.ca_data)


def _context(stated: ExtenderTLSConfig, is_trusted_blindly: bool) -> ssl.SSLContext:
    authorities = stated.ca_data.decode("ascii") if stated.ca_data else None
    # The system's authorities are trusted only where none is configured.
    context = ssl.create_default_context(cafile=None if authorities else stated.ca_file or None, cadata=authorities)
    if is_trusted_blindly:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if stated.cert_data or stated.key_data:
        _load_pair(context, stated)
    elif stated.cert_file or stated.key_file:
        context.load_cert_chain(stated.cert_file, stated.key_file or None)
    return context


def _load_pair(context: ssl.SSLContext, stated: ExtenderTLSConfig) -> None:
    """Load a certificate and key from bytes. Python's TLS reads them from files only, hence a private temporary
    file."""
    certificate = stated.cert_data or Path(stated.cert_file).read_bytes()
    key = stated.key_data or Path(stated.key_file).read_bytes()
    descriptor, name = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate + b"\n" + key)
        context.load_cert_chain(name)
    finally:
        os.unlink(name)
