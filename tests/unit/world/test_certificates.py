"""Certificates and kubeconfigs of a control plane."""

import base64
import json
import ssl
from pathlib import Path

from cryptography import x509

from world.certificates import Authority, render_kubeconfig, write_private


def test_a_server_s_certificate_names_its_hosts_and_addresses() -> None:
    pair = Authority().issue_server("server", ["localhost", "10.77.0.1"])
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.77.0.1"]


def test_a_client_s_certificate_carries_user_and_groups() -> None:
    pair = Authority().issue_client("admin", ["system:masters"])
    subject = x509.load_pem_x509_certificate(pair.certificate).subject.rfc4514_string()
    assert subject == "CN=admin,O=system:masters"


def test_a_certificate_verifies_against_its_own_authority_only(tmp_path: Path) -> None:
    ours, other = Authority(), Authority()
    pair = ours.issue_server("server", ["localhost"])
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    authority = x509.load_pem_x509_certificate(ours.certificate)
    certificate.verify_directly_issued_by(authority)
    assert ours.certificate != other.certificate
    chain, key = tmp_path / "chain", tmp_path / "key"
    chain.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key)


def test_a_kubeconfig_holds_all_it_needs() -> None:
    authority = Authority()
    text = render_kubeconfig(
        server="https://127.0.0.1:1",
        authority=authority.certificate,
        client=authority.issue_client("admin"),
    )
    config = json.loads(text)
    [cluster] = config["clusters"]
    assert cluster["cluster"]["server"] == "https://127.0.0.1:1"
    data = cluster["cluster"]["certificate-authority-data"]
    assert base64.b64decode(data) == authority.certificate
    assert config["current-context"] == config["contexts"][0]["name"]


def test_private_files_are_for_their_owner_even_when_they_were_there_before(
    tmp_path: Path,
) -> None:
    path = tmp_path / "key"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
