"""Certificates for tests: an authority, and what it signs. Made anew each time, with small keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


class Issued:
    """A private key and its certificate."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.key = key
        self.certificate = certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        ).decode()

    @property
    def pem(self) -> str:
        return self.key_pem() + self.certificate_pem

    def pkcs12(self, password: str) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"own",
            self.key,
            self.certificate,
            None,
            serialization.BestAvailableEncryption(password.encode()),
        )


class Authority(Issued):
    """A certificate authority."""

    def __init__(self, name: str = "authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        super().__init__(key, _signed(subject, subject, key, key, None))

    def issue(
        self,
        *hosts: str,
        name: x509.Name | None = None,
        days: tuple[int, int] = (-1, 2),
    ) -> Issued:
        """Sign a certificate for hosts; valid from and until so many days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = name or x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
        certificate = _signed(subject, self.certificate.subject, key, self.key, hosts, days)
        return Issued(key, certificate)


AUTHORITY_USAGE = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    hosts: tuple[str, ...] | None,
    days: tuple[int, int] = (-1, 2),
) -> x509.Certificate:
    """Without hosts it is the certificate of an authority."""
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * DAY)
        .not_valid_after(now + days[1] * DAY)
        .add_extension(x509.BasicConstraints(hosts is None, None), critical=True)
        # Python 3.13 checks certificates strictly: it wants these.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if hosts is None:
        builder = builder.add_extension(AUTHORITY_USAGE, critical=True)
    if hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_alternative(each) for each in hosts]), critical=False
        )
    return builder.sign(signer, hashes.SHA256())


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def written(folder: Path, name: str, content: str | bytes) -> str:
    """Write a file, and return its path."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)
