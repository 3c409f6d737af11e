"""Certificates that are made here: an authority, and what it signs for nodes and clients.

Keys are ECDSA on P-256, whose handshakes cost a server a fifth of RSA's. Needs the package
`cryptography`, the extra `tls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.errors import ConfigError
from moldau.plugins.extras import install_command

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

AUTHORITY_DAYS: Final = 3650
ISSUED_DAYS: Final = 730
_EARLIER: Final = timedelta(hours=1)
"""So much earlier a certificate is valid, for machines whose clocks are late."""


class IssuedCertificate(NamedTuple):
    """A private key and its certificate, as PEM."""

    key: str
    certificate: str

    def __repr__(self) -> str:
        return "Issued(***)"


def check_library() -> None:
    """Raise ConfigError if the library for certificates is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"certificates need the package cryptography: {install_command('tls')}"
        ) from error


def make_authority(name: str, now_ms: int) -> IssuedCertificate:
    """Make a certificate authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = _builder(subject, subject, key, now_ms, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(is_authority=True), critical=True)
    return _signed(builder, key, key.public_key(), key)


def issue(
    authority: IssuedCertificate,
    name: str,
    hosts: Sequence[str],
    now_ms: int,
    days: int = ISSUED_DAYS,
) -> IssuedCertificate:
    """Make a key, and sign its certificate. It names the hosts, if there are any; both servers and
    clients may use it. Raise ConfigError for an authority that cannot be read."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        signer = load_pem_private_key(authority.key.encode(), None)
        issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    except (ValueError, TypeError) as error:
        raise ConfigError("the key or the certificate of the authority cannot be read") from error
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ConfigError("the key of the authority is none that `moldau init --secure` made")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(name), issuer.subject, key, now_ms, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(_usage(is_authority=False), critical=True)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
    if hosts:
        names = x509.SubjectAlternativeName([_alternative(each) for each in hosts])
        builder = builder.add_extension(names, critical=False)
    return _signed(builder, key, signer.public_key(), signer)


def _name(common_name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    except ValueError as error:
        raise ConfigError(
            "a certificate's name has 1 to 64 characters", name=common_name
        ) from error


def _alternative(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now_ms: int,
    days: int,
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
    )


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePrivateKey,
) -> IssuedCertificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    ).add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority), critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return IssuedCertificate(private.decode(), certificate.public_bytes(pem).decode())
