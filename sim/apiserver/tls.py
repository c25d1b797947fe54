"""The server's own authority and certificate, valid for loopback.

The trap: Python loads certificates from files only. Without a directory they are in memory files, whose
names live as long as they are open; with one they stay there, so that a later server is trusted too.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIFETIME: Final = datetime.timedelta(days=3650)
AUTHORITY: Final = "ca.crt"
SERVER: Final = "server.pem"
"""Certificate and key of the server in one file."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What the server shows, and what its clients trust. `server` holds the key: never log it."""

    ca: bytes
    server: bytes = field(repr=False)

    def context(self) -> ssl.SSLContext:
        """Return the server's side of TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        with _memory_file(self.server) as path:
            context.load_cert_chain(path)
        return context


def load_or_make(directory: Path | None) -> Identity:
    """Return the identity that is kept in a directory; make one when there is none, or no directory."""
    if directory is None:
        return make()
    authority, server = directory / AUTHORITY, directory / SERVER
    if authority.exists() and server.exists():
        return Identity(authority.read_bytes(), server.read_bytes())
    identity = make()
    directory.mkdir(parents=True, exist_ok=True)
    authority.write_bytes(identity.ca)
    server.touch(mode=0o600)
    server.write_bytes(identity.server)
    return identity


def make() -> Identity:
    """Make an authority and a certificate for loopback. The authority's key is not kept."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("simulated-ca")
    ca = (
        _certificate(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    addresses = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        _certificate(_name("kube-apiserver"), ca_name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Identity(ca.public_bytes(pem), certificate.public_bytes(pem) + secret)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[str]:
    number = os.memfd_create("server-certificate")
    try:
        os.write(number, content)
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)
