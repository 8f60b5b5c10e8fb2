"""A certificate authority for loopback servers: good, self-signed, expired and for another host."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


@cache
def authority() -> Authority:
    return Authority()


class Authority:
    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
        self._certificate = self._signed(self._name, self._key, self._key, days=10, host=None, by=self._name)

    def client(self) -> ssl.SSLContext:
        """A context that trusts the authority."""
        context = ssl.create_default_context()
        context.load_verify_locations(cadata=self.certificate)
        return context

    @property
    def certificate(self) -> str:
        """The certificate of the authority, in PEM."""
        return self._certificate.public_bytes(_PEM).decode()

    def server(self, kind: str) -> ssl.SSLContext:
        """A context with a certificate that is `good`, `self-signed`, `expired` or for an `other-host`."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        host = "192.0.2.1" if kind == "other-host" else "127.0.0.1"
        alone = kind == "self-signed"
        made = self._signed(
            name,
            key,
            key if alone else self._key,
            days=-1 if kind == "expired" else 10,
            host=host,
            by=name if alone else self._name,
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with TemporaryDirectory() as folder:
            path = Path(folder, "pem")
            private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            path.write_bytes(private + made.public_bytes(_PEM))
            context.load_cert_chain(path)
        return context

    def client_certificate(self, name: str, passphrase: bytes | None = None) -> tuple[str, str]:
        """A certificate for a client, and its key, in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._signed(subject, key, self._key, days=10, host="127.0.0.1", by=self._name)
        hidden = (
            serialization.NoEncryption() if passphrase is None else serialization.BestAvailableEncryption(passphrase)
        )
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, hidden)
        return made.public_bytes(_PEM).decode(), private.decode()

    @staticmethod
    def _signed(
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        signer: ec.EllipticCurvePrivateKey,
        *,
        days: int,
        host: str | None,
        by: x509.Name,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(by)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=20))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        )
        if host is not None:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=False
            )
        return builder.sign(signer, hashes.SHA256())
