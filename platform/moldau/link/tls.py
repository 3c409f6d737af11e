"""TLS contexts from Kafka's `ssl.*` settings, for clients and for listeners.

    tls = tls_files(settings)                 # of a client, a node, or one listener of a node
    context = client_context(tls)             # or server_context(tls, client_auth="required")

Stores are PEM or PKCS12 (which needs the package `cryptography`). The format is seen from the
content if `ssl.keystore.type` or `ssl.truststore.type` names another one than the file has, as Java
does. JKS is Java's alone: the error has the command that converts it.

Invariants: no error names a password or shows a key. TLS below 1.2 is not spoken. Without a trust
store a client trusts the authorities of the system.
"""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.deferred import dataclass, deferred_pattern
from moldau.errors import ConfigError
from moldau.runtime.places import absolute_path
from moldau.runtime.real_files import RealFiles
from moldau.runtime.secret_file import secret_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from moldau.config import Secret, Settings
    from moldau.runtime import Clock
    from moldau.runtime.files import Files

_PEM_START: Final = b"-----BEGIN "
_PEM_BLOCK: Final = deferred_pattern(
    r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)-----END \1-----"
)
_PEM_LINE: Final = 64
_LOOK_SECONDS: Final = 1.0
_PKCS12_START: Final = b"\x30"
_JKS_STARTS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_VERSIONS: Final = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class Store:
    """A key store or a trust store: a file, or PEM in the settings themselves."""

    setting: str
    """The setting that names it, for errors."""
    location: str | None
    password: Secret | None
    pem: str | None = None
    """The content, if the settings hold it."""

    @property
    def is_given(self) -> bool:
        return bool(self.location) or self.pem is not None


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The `ssl.*` settings of a client or of a listener."""

    keystore: Store
    key_password: Secret | None
    truststore: Store
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    checks_host_name: bool

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that the contexts are made of."""
        both = (self.keystore.location, self.truststore.location)
        return tuple(each for each in both if each)


class _Contents(NamedTuple):
    """What a store holds, as PEM."""

    key: str
    """The private key with the certificates of this side; empty if there is none."""
    authorities: str


def tls_files(settings: Settings) -> TlsFiles:
    """Return the TLS settings of a table that has Kafka's `ssl.*` rows."""

    def value(name: str) -> Any:
        row = settings.table.find(name)
        assert row is not None, name
        return settings[row]

    key, chain = value("ssl.keystore.key"), value("ssl.keystore.certificate.chain")
    if (key is None) != (chain is None):
        raise ConfigError("give both of ssl.keystore.key and ssl.keystore.certificate.chain")
    trusted = value("ssl.truststore.certificates")
    return TlsFiles(
        keystore=Store(
            "ssl.keystore.location" if key is None else "ssl.keystore.key",
            value("ssl.keystore.location"),
            value("ssl.keystore.password"),
            None if key is None else in_lines(f"{key.reveal()}\n{chain.reveal()}"),
        ),
        key_password=value("ssl.key.password"),
        truststore=Store(
            "ssl.truststore.location" if trusted is None else "ssl.truststore.certificates",
            value("ssl.truststore.location"),
            value("ssl.truststore.password"),
            None if trusted is None else in_lines(trusted.reveal()),
        ),
        protocols=tuple(value("ssl.enabled.protocols")),
        cipher_suites=tuple(value("ssl.cipher.suites")),
        checks_host_name=bool(value("ssl.endpoint.identification.algorithm")),
    )


def in_lines(pem: str) -> str:
    """Return PEM with line breaks where it needs them: a setting may have spaces instead."""

    def block(found: re.Match[str]) -> str:
        kind, body = found[1], "".join(found[2].split())
        lines = [body[at : at + _PEM_LINE] for at in range(0, len(body), _PEM_LINE)]
        return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""))

    return _PEM_BLOCK.sub(block, pem)


def client_context(tls: TlsFiles, files: Files | None = None) -> ssl.SSLContext:
    """Return the context of a client. Raise ConfigError that names the setting and the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.checks_host_name
    _restrict(context, tls)
    if tls.truststore.is_given:
        _trust(context, tls.truststore, files or RealFiles())
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if tls.keystore.is_given:
        _load_key(context, tls, files or RealFiles())
    return context


def server_context(tls: TlsFiles, client_auth: str, files: Files | None = None) -> ssl.SSLContext:
    """Return the context of a listener, which may require (`required`), ask for (`requested`) or
    ignore (`none`) the certificates of clients. Raise ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _restrict(context, tls)
    if not tls.keystore.is_given:
        raise ConfigError(
            "a TLS listener needs a private key and a certificate: give ssl.keystore.location, "
            "or ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    _load_key(context, tls, files or RealFiles())
    context.verify_mode = _CLIENT_AUTH[client_auth]
    if client_auth != "none":
        if tls.truststore.is_given:
            _trust(context, tls.truststore, files or RealFiles())
        else:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context


def _restrict(context: ssl.SSLContext, tls: TlsFiles) -> None:
    unknown = [each for each in tls.protocols if each not in _VERSIONS]
    if unknown or not tls.protocols:
        raise ConfigError(
            "only TLSv1.2 and TLSv1.3 are spoken",
            setting="ssl.enabled.protocols",
            value=",".join(tls.protocols),
        )
    versions = {_VERSIONS[each] for each in tls.protocols}
    if tls.cipher_suites:
        old = [each for each in tls.cipher_suites if not _is_of_newest(each)]
        if len(old) == len(tls.cipher_suites):
            versions.discard(ssl.TLSVersion.TLSv1_3)
        if not old:
            versions.discard(ssl.TLSVersion.TLSv1_2)
        if not versions:
            raise ConfigError(
                "no cipher suite fits the versions of TLS", setting="ssl.cipher.suites"
            )
        if old:
            _set_ciphers(context, old)
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)


def _is_of_newest(suite: str) -> bool:
    return suite.startswith("TLS_") and "_WITH_" not in suite


def _set_ciphers(context: ssl.SSLContext, suites: list[str]) -> None:
    try:
        context.set_ciphers(":".join(map(openssl_name, suites)))
    except ssl.SSLError as error:
        raise ConfigError(
            "no such cipher suite", setting="ssl.cipher.suites", value=",".join(suites)
        ) from error


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite of TLS 1.2, which Kafka names as Java does."""
    exchange, found, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not found:
        return suite
    cipher = cipher.replace("AES_", "AES").replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305")
    name = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return name.replace("_", "-")


def _trust(context: ssl.SSLContext, store: Store, files: Files) -> None:
    contents = _read(store, None, files)
    try:
        context.load_verify_locations(cadata=contents.authorities)
    except (ssl.SSLError, ValueError) as error:
        raise _unusable(store, "it has no certificate that can be read") from error


def _load_key(context: ssl.SSLContext, tls: TlsFiles, files: Files) -> None:
    store = tls.keystore
    contents = _read(store, tls.key_password, files)
    password = tls.key_password or store.password
    try:
        with secret_file(contents.key) as path:
            # Without a password OpenSSL would ask at the terminal: an empty one fails instead.
            context.load_cert_chain(path, password=password.reveal() if password else "")
    except (ssl.SSLError, ValueError, OSError) as error:
        raise _unusable(
            store,
            "it must hold a private key, not encrypted or encrypted with ssl.key.password, and "
            "then its certificate and those above it",
        ) from error


def _read(store: Store, key_password: Secret | None, files: Files) -> _Contents:
    if store.pem is not None:
        return _Contents(store.pem, store.pem)
    assert store.location is not None
    try:
        data = files.read_whole(absolute_path(store.location))
    except OSError as error:
        raise _unusable(store, error.strerror or "it cannot be read") from error
    if _PEM_START in data:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise _unusable(store, "it is not text, as PEM is") from error
        return _Contents(text, text)
    if data.startswith(_JKS_STARTS):
        raise _unusable(
            store,
            "JKS is a format of Java alone. Convert it: keytool -importkeystore -srckeystore "
            f"{store.location} -destkeystore {store.location}.p12 -deststoretype PKCS12",
        )
    if data.startswith(_PKCS12_START):
        return _read_pkcs12(store, data)
    raise _unusable(store, "it is neither PEM nor PKCS12")


def _install_command() -> str:
    from moldau.plugins.extras import install_command

    return install_command("tls")


def _read_pkcs12(store: Store, data: bytes) -> _Contents:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise _unusable(
            store, f"PKCS12 needs the package cryptography: {_install_command()}"
        ) from error
    password = store.password.reveal().encode() if store.password else None
    try:
        found = pkcs12.load_pkcs12(data, password)
    except ValueError as error:
        raise _unusable(store, "the password is wrong, or the file is damaged") from error
    as_pem = serialization.Encoding.PEM
    others = [each.certificate.public_bytes(as_pem).decode() for each in found.additional_certs]
    key = ""
    if found.key is not None and found.cert is not None:
        private = found.key.private_bytes(
            as_pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        own = found.cert.certificate.public_bytes(as_pem).decode()
        key = "".join((private.decode(), own, *others))
    elif found.cert is not None:
        others.append(found.cert.certificate.public_bytes(as_pem).decode())
    return _Contents(key, "".join(others))


def _unusable(store: Store, why: str) -> ConfigError:
    where: Mapping[str, object] = {} if store.location is None else {"path": store.location}
    return ConfigError(f"the store cannot be used: {why}", setting=store.setting, **where)


class ReloadedContext:
    """A context that follows its files: it is made again when one of them has changed.

    The files are looked at when the context is asked for, at most once a second. If the new files
    cannot be used, the context stays as it was, and `on_failure` is told once.
    """

    def __init__(
        self,
        make: Callable[[Files], ssl.SSLContext],
        tls: TlsFiles,
        clock: Clock,
        files: Files | None = None,
        on_failure: Callable[[ConfigError], object] = lambda error: None,
    ) -> None:
        """Make the first context. Raise ConfigError if its files cannot be used."""
        self._make = make
        self._paths = tuple(map(absolute_path, tls.paths))
        self._clock = clock
        self._files = files or RealFiles()
        self._on_failure = on_failure
        self._seen = self._look()
        self._looked_at = clock.monotonic()
        self._context = make(self._files)

    def __call__(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        now = self._clock.monotonic()
        if self._paths and now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            seen = self._look()
            if seen != self._seen:
                self._seen = seen
                self._renew()
        return self._context

    def _renew(self) -> None:
        try:
            self._context = self._make(self._files)
        except ConfigError as error:
            self._on_failure(error)

    def _look(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(map(self._state_of, self._paths))

    def _state_of(self, path: str) -> tuple[int, int] | None:
        try:
            found = self._files.stat(path)
        except OSError:
            return None
        return found.modified_ms, found.size_bytes
