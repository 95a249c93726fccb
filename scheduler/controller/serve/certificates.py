"""Certificates: a self-signed one, and what one says. The only module that imports ``cryptography``."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SELF_MADE_DAYS: Final = 365


def self_made_pair(hostname: str, today: datetime.datetime) -> tuple[bytes, bytes]:
    """A self-signed certificate for this host and the loopback, and its key; both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tandem-scheduler@{hostname}"[:64])])
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
    if hostname.isascii() and hostname != "localhost":
        names.append(x509.DNSName(hostname))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(hours=1))
        .not_valid_after(today + datetime.timedelta(days=SELF_MADE_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def end_of(certificate: Path) -> datetime.datetime:
    """The expiry of our certificate (PEM); the far future if it is unreadable or not ours."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):
        return datetime.datetime.max.replace(tzinfo=datetime.UTC)
    # Only a self-signed certificate can be ours.
    if found.issuer != found.subject:
        return datetime.datetime.max.replace(tzinfo=datetime.UTC)
    return found.not_valid_after_utc


def fingerprint_of(certificate: Path) -> str:
    """SHA-256 of a certificate (PEM), in hexadecimal digits."""
    return x509.load_pem_x509_certificate(certificate.read_bytes()).fingerprint(hashes.SHA256()).hex()
