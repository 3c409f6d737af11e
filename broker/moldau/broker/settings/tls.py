"""TLS of listeners and of connections between nodes.

A listener may have its own values under `listener.name.<name in lower case>.`.
"""

from __future__ import annotations

from moldau.config import (
    BOOLEAN,
    CLASS,
    LIST,
    LOW,
    PASSWORD,
    PER_BROKER,
    STRING,
    Setting,
    list_of,
    one_of,
)

# fmt: off
ssl_keystore_location = Setting("ssl.keystore.location", STRING, None, dynamic=PER_BROKER,
    doc="The file with this node's private key and certificates.")
ssl_keystore_type = Setting("ssl.keystore.type", STRING, "JKS", dynamic=PER_BROKER,
    doc="The format of the key store: JKS, PKCS12 or PEM.")
ssl_keystore_password = Setting("ssl.keystore.password", PASSWORD, None, dynamic=PER_BROKER,
    doc="The password of the key store file.")
ssl_keystore_key = Setting("ssl.keystore.key", PASSWORD, None, dynamic=PER_BROKER,
    doc="The private key itself, as PEM.")
ssl_keystore_certificate_chain = Setting(
    "ssl.keystore.certificate.chain", PASSWORD, None, dynamic=PER_BROKER,
    doc="This node's certificate and those above it, as PEM.")
ssl_key_password = Setting("ssl.key.password", PASSWORD, None, dynamic=PER_BROKER,
    doc="The password of the private key.")
ssl_truststore_location = Setting("ssl.truststore.location", STRING, None, dynamic=PER_BROKER,
    doc="The file with the certificates that are trusted.")
ssl_truststore_type = Setting("ssl.truststore.type", STRING, "JKS", dynamic=PER_BROKER,
    doc="The format of the trust store: JKS, PKCS12 or PEM.")
ssl_truststore_password = Setting("ssl.truststore.password", PASSWORD, None, dynamic=PER_BROKER,
    doc="The password of the trust store file.")
ssl_truststore_certificates = Setting(
    "ssl.truststore.certificates", PASSWORD, None, dynamic=PER_BROKER,
    doc="The certificates that are trusted, as PEM.")
ssl_client_auth = Setting(
    "ssl.client.auth", STRING, "none", check=one_of("required", "requested", "none"),
    dynamic=PER_BROKER,
    doc="Whether clients must show a certificate (`required`), may (`requested`) or are not asked "
    "(`none`). A SASL_SSL listener takes it only with its prefix, `listener.name.<name>.`.")
ssl_enabled_protocols = Setting(
    "ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), check=list_of(), dynamic=PER_BROKER,
    doc="The versions of TLS that are spoken.")
ssl_protocol = Setting("ssl.protocol", STRING, "TLSv1.3", dynamic=PER_BROKER,
    doc="The version of TLS that Java prepares for.")
ssl_cipher_suites = Setting("ssl.cipher.suites", LIST, (), check=list_of(), dynamic=PER_BROKER,
    doc="The cipher suites that may be chosen; empty means the library's own choice.")
ssl_endpoint_identification_algorithm = Setting(
    "ssl.endpoint.identification.algorithm", STRING, "https", dynamic=PER_BROKER, importance=LOW,
    doc="How a server's name is checked against its certificate; empty means not at all.")
ssl_engine_factory_class = Setting(
    "ssl.engine.factory.class", CLASS, None, dynamic=PER_BROKER, importance=LOW,
    doc="A Java class that makes TLS engines.")
ssl_provider = Setting("ssl.provider", STRING, None, dynamic=PER_BROKER,
    doc="The Java security provider of TLS.")
ssl_secure_random_implementation = Setting(
    "ssl.secure.random.implementation", STRING, None, dynamic=PER_BROKER, importance=LOW,
    doc="Java's source of random numbers for TLS.")
ssl_keymanager_algorithm = Setting(
    "ssl.keymanager.algorithm", STRING, "SunX509", dynamic=PER_BROKER,
    doc="Java's algorithm to choose keys.")
ssl_trustmanager_algorithm = Setting(
    "ssl.trustmanager.algorithm", STRING, "PKIX", dynamic=PER_BROKER,
    doc="Java's algorithm to check trust.")
ssl_principal_mapping_rules = Setting(
    "ssl.principal.mapping.rules", STRING, "DEFAULT", importance=LOW,
    doc="Rules that make a short name of the distinguished name in a client's certificate.")
ssl_allow_dn_changes = Setting("ssl.allow.dn.changes", BOOLEAN, False, importance=LOW,
    doc="Whether a new certificate may have another distinguished name than the one before.")
ssl_allow_san_changes = Setting("ssl.allow.san.changes", BOOLEAN, False, importance=LOW,
    doc="Whether a new certificate may have other alternative names than the one before.")
