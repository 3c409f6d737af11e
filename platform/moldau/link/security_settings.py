"""The settings of a client's encryption and login, by Kafka's names: one row each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from moldau.config import (
    LIST,
    PASSWORD,
    STRING,
    Setting,
    Settings,
    list_of,
    one_of_ignoring_case,
    rows_in,
)
from moldau.link.login import oauth_settings as tokens

OAUTHBEARER: Final = "OAUTHBEARER"

# fmt: off
security_protocol = Setting(
    "security.protocol", STRING, "PLAINTEXT",
    check=one_of_ignoring_case("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    doc="How brokers are talked to: SSL encrypts, SASL_PLAINTEXT logs in, SASL_SSL does both.")
ssl_truststore_location = Setting("ssl.truststore.location", STRING, None,
    doc="The file with the certificates that brokers' certificates must come from, as PEM or "
    "PKCS12. Without it the authorities of the system are trusted.")
ssl_truststore_type = Setting("ssl.truststore.type", STRING, "JKS",
    doc="The format of the trust store: PEM or PKCS12. It is seen from the file too.")
ssl_truststore_password = Setting("ssl.truststore.password", PASSWORD, None,
    doc="The password of a PKCS12 trust store.")
ssl_truststore_certificates = Setting("ssl.truststore.certificates", PASSWORD, None,
    doc="The certificates that brokers' certificates must come from, as PEM, instead of a file.")
ssl_keystore_location = Setting("ssl.keystore.location", STRING, None,
    doc="The file with this client's private key and certificates, for listeners that ask for "
    "them.")
ssl_keystore_type = Setting("ssl.keystore.type", STRING, "JKS",
    doc="The format of the key store: PEM or PKCS12. It is seen from the file too.")
ssl_keystore_password = Setting("ssl.keystore.password", PASSWORD, None,
    doc="The password of a PKCS12 key store.")
ssl_keystore_key = Setting("ssl.keystore.key", PASSWORD, None,
    doc="The private key itself, as PEM, instead of a file.")
ssl_keystore_certificate_chain = Setting("ssl.keystore.certificate.chain", PASSWORD, None,
    doc="This client's certificate and those above it, as PEM, together with ssl.keystore.key.")
ssl_key_password = Setting("ssl.key.password", PASSWORD, None,
    doc="The password of an encrypted private key.")
ssl_enabled_protocols = Setting(
    "ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), check=list_of(),
    doc="The versions of TLS that may be used.")
ssl_cipher_suites = Setting("ssl.cipher.suites", LIST, (), check=list_of(),
    doc="The cipher suites that may be used, by Java's names; empty means OpenSSL's own choice.")
ssl_endpoint_identification_algorithm = Setting(
    "ssl.endpoint.identification.algorithm", STRING, "https",
    doc="How a broker's host name is checked against its certificate; empty means not at all.")
sasl_mechanism = Setting("sasl.mechanism", STRING, "GSSAPI",
    doc="How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI, which is "
    "Kerberos.")
sasl_jaas_config = Setting("sasl.jaas.config", PASSWORD, None,
    doc="The user and the password in the syntax of Java's login modules: PlainLoginModule or "
    "ScramLoginModule with its package, then required, username=, password= and a semicolon. For "
    "Kerberos Krb5LoginModule with useKeyTab=true keyTab= and principal=, or useTicketCache=true.")
sasl_username = Setting("sasl.username", STRING, None,
    doc="The user, instead of sasl.jaas.config, as librdkafka has it.")
sasl_password = Setting("sasl.password", PASSWORD, None,
    doc="The password of sasl.username.")
sasl_kerberos_service_name = Setting("sasl.kerberos.service.name", STRING, None,
    doc="The first component of the brokers' Kerberos principals; without it kafka, as in "
    "kafka/broker-1@EXAMPLE.COM.")
sasl_kerberos_principal = Setting("sasl.kerberos.principal", STRING, None,
    doc="The Kerberos principal to log in as; without it the first one of the key table, or the "
    "one of kinit. A name of librdkafka.")
sasl_kerberos_keytab = Setting("sasl.kerberos.keytab", STRING, None,
    doc="The file with the Kerberos keys of this client; without it the ticket of kinit is used. A "
    "name of librdkafka.")
# fmt: on
SECURITY_ROWS: Final = (*rows_in(globals()), *tokens.OAUTH_ROWS)

_JAVA_TLS: Final = "it chooses among Java's implementations; TLS here is OpenSSL's"
_KERBEROS: Final = "the Kerberos library renews tickets by itself"
_NO_PLUGIN: Final = "it is for Java's login classes"
_ON_LOGIN: Final = "a token is asked for when a login needs one"
_BROKERS_CHECK: Final = "brokers check tokens"
WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "sasl.kerberos.kinit.cmd": _KERBEROS,
    "sasl.kerberos.min.time.before.relogin": _KERBEROS,
    "sasl.kerberos.ticket.": _KERBEROS,
    "sasl.client.": _NO_PLUGIN,
    "sasl.login.class": _NO_PLUGIN,
    "sasl.login.refresh.buffer.": _ON_LOGIN,
    "sasl.login.refresh.min.": _ON_LOGIN,
    "sasl.login.refresh.window.jitter": _ON_LOGIN,
    "sasl.oauthbearer.allow.unverified.": _BROKERS_CHECK,
    "sasl.oauthbearer.clock.": _BROKERS_CHECK,
    "sasl.oauthbearer.expected.audience": _BROKERS_CHECK,
    "sasl.oauthbearer.jwks.": _BROKERS_CHECK,
    "sasl.oauthbearer.jwt.validator.": _BROKERS_CHECK,
    "sasl.oauthbearer.method": "tokens come from sasl.oauthbearer.token.endpoint.url, or `oauth`",
    "sasl.oauthbearer.scope.claim.": _BROKERS_CHECK,
    "sasl.oauthbearer.sub.claim.": _BROKERS_CHECK,
    "ssl.engine.": _JAVA_TLS,
    "ssl.keymanager.": _JAVA_TLS,
    "ssl.protocol": "ssl.enabled.protocols says which versions may be used",
    "ssl.provider": _JAVA_TLS,
    "ssl.secure.": _JAVA_TLS,
    "ssl.trustmanager.": _JAVA_TLS,
}
"""Beginnings of names of Java's settings that change nothing here, each with the reason."""


def unneeded(names: Iterable[str], settings: Settings) -> Iterator[str]:
    """Yield a notice for each setting of encryption and logins that other settings leave without
    effect."""
    for name in names:
        why = _why_unneeded(name, settings)
        if why is not None:
            yield f"{name} has no effect: {why}"


def _why_unneeded(name: str, settings: Settings) -> str | None:
    protocol = settings[security_protocol].upper()
    mechanism = settings[sasl_mechanism].upper()
    preset = (settings[tokens.oauth] or "").lower()
    is_needed = protocol.endswith("SSL") if name.startswith("ssl.") else "SASL" in protocol
    if name.startswith(("ssl.", "sasl.")) and not is_needed:
        return f"{security_protocol.name} is {protocol}"
    if name.startswith("sasl.oauthbearer.") and mechanism != OAUTHBEARER:
        return f"{sasl_mechanism.name} is {mechanism}"
    if name.startswith("sasl.oauthbearer.") and preset == tokens.MSK_IAM:
        return f"{tokens.oauth.name} is {preset}"
    if name == tokens.sasl_oauthbearer_expected_issuer.name and preset not in tokens.OIDC_PROVIDERS:
        return f"{_BROKERS_CHECK}; here it is for oauth={' or '.join(tokens.OIDC_PROVIDERS)}"
    callback = settings[tokens.sasl_login_callback_handler_class]
    if name == tokens.sasl_login_callback_handler_class.name and callback not in tokens.CALLBACKS:
        return _NO_PLUGIN
    return None
