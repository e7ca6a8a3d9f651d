"""A certificate of the embedded cluster's own, since ``kubectl`` sends no token over plain HTTP."""

import datetime
import ipaddress
import os
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFETIME = datetime.timedelta(days=3650)


def server_context(directory: Path, host: str, *, now: datetime.datetime) -> tuple[ssl.SSLContext, bytes]:
    """A context for the server and the PEM of the certificate to trust; both are kept in ``directory``."""
    certificate, key = directory / "server.crt", directory / "server.key"
    if not (certificate.exists() and key.exists()):
        _issue(certificate, key, host, now)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context, certificate.read_bytes()


def _issue(certificate: Path, key: Path, host: str, now: datetime.datetime) -> None:
    """Self-signed, for ``host`` and this machine's loopback names."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "claimdesk embedded cluster")])
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
    try:
        if (address := ipaddress.ip_address(host)) not in (name.value for name in names[1:]):
            names.append(x509.IPAddress(address))
    except ValueError:
        names.append(x509.DNSName(host))
    issued = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, hashes.SHA256())
    )
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
    certificate.write_bytes(issued.public_bytes(serialization.Encoding.PEM))
