"""Certificates and kubeconfigs of one control plane, made anew at each start."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CLOCK_SKEW = dt.timedelta(minutes=5)
LIFETIME = dt.timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority that lives as long as one control plane."""

    def __init__(self, name: str = "ebbtide-local-world") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = self._builder(self._name, self._key).add_extension(constraints, critical=True)
        self.certificate = self._sign(builder)

    def issue_server(self, name: str, hosts: Sequence[str]) -> KeyPair:
        """Issue a certificate for a server that is reached under these names and addresses."""
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._issue(name, (), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def issue_client(self, name: str, groups: Sequence[str] = ()) -> KeyPair:
        """Issue a certificate that lets its holder act as this user, in these groups."""
        return self._issue(name, groups, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        name: str,
        groups: Sequence[str],
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
        builder = (
            self._builder(x509.Name(attributes), key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if names:
            builder = builder.add_extension(names, critical=False)
        return KeyPair(certificate=self._sign(builder), key=private_pem(key))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        moment = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(moment - CLOCK_SKEW)
            .not_valid_after(moment + LIFETIME)
        )

    def _sign(self, builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


def make_service_account_keys() -> tuple[bytes, bytes]:
    """Return the private and the public key for service-account tokens, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return private_pem(key), public


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as unencrypted PEM, as the servers want it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def render_kubeconfig(*, server: str, authority: bytes, client: KeyPair) -> str:
    """Render a kubeconfig as JSON, which is YAML too."""
    cluster = {"server": server, "certificate-authority-data": _base64(authority)}
    user = {
        "client-certificate-data": _base64(client.certificate),
        "client-key-data": _base64(client.key),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "ebbtide-local",
        "clusters": [{"name": "ebbtide-local", "cluster": cluster}],
        "users": [{"name": "ebbtide-local", "user": user}],
        "contexts": [
            {
                "name": "ebbtide-local",
                "context": {"cluster": "ebbtide-local", "user": "ebbtide-local"},
            }
        ],
    }
    return json.dumps(config, indent=2) + "\n"


def write_private(path: Path, data: bytes | str) -> Path:
    """Write a file that nobody else may read."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
