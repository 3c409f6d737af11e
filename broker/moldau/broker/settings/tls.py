"""TLS of listeners and of connections between nodes.

A listener may have its own values under `listener.name.<name in lower case>.`.
"""

from __future__ import annotations

from moldau.config import (
    BOOLEAN,
    CLASS,
    LIST,
    PASSWORD,
    STRING,
    Importance,
    Setting,
    UpdateMode,
    list_of,
    one_of,
)

ssl_keystore_location = Setting(
    "ssl.keystore.location",
    STRING,
    None,
    "The file with this node's private key and certificates.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_keystore_type = Setting(
    "ssl.keystore.type",
    STRING,
    "JKS",
    "The format of the key store: JKS, PKCS12 or PEM.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_keystore_password = Setting(
    "ssl.keystore.password",
    PASSWORD,
    None,
    "The password of the key store file.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_keystore_key = Setting(
    "ssl.keystore.key",
    PASSWORD,
    None,
    "The private key itself, as PEM.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_keystore_certificate_chain = Setting(
    "ssl.keystore.certificate.chain",
    PASSWORD,
    None,
    "This node's certificate and those above it, as PEM.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_key_password = Setting(
    "ssl.key.password",
    PASSWORD,
    None,
    "The password of the private key.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_truststore_location = Setting(
    "ssl.truststore.location",
    STRING,
    None,
    "The file with the certificates that are trusted.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_truststore_type = Setting(
    "ssl.truststore.type",
    STRING,
    "JKS",
    "The format of the trust store: JKS, PKCS12 or PEM.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_truststore_password = Setting(
    "ssl.truststore.password",
    PASSWORD,
    None,
    "The password of the trust store file.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_truststore_certificates = Setting(
    "ssl.truststore.certificates",
    PASSWORD,
    None,
    "The certificates that are trusted, as PEM.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_client_auth = Setting(
    "ssl.client.auth",
    STRING,
    "none",
    "Whether clients must show a certificate (`required`), may (`requested`) or are not asked "
    "(`none`). A SASL_SSL listener takes it only with its prefix, `listener.name.<name>.`.",
    check=one_of("required", "requested", "none"),
    dynamic=UpdateMode.PER_BROKER,
)
ssl_enabled_protocols = Setting(
    "ssl.enabled.protocols",
    LIST,
    (
        "TLSv1.2",
        "TLSv1.3",
    ),
    "The versions of TLS that are spoken.",
    check=list_of(),
    dynamic=UpdateMode.PER_BROKER,
)
ssl_protocol = Setting(
    "ssl.protocol",
    STRING,
    "TLSv1.3",
    "The version of TLS that Java prepares for.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_cipher_suites = Setting(
    "ssl.cipher.suites",
    LIST,
    (),
    "The cipher suites that may be chosen; empty means the library's own choice.",
    check=list_of(),
    dynamic=UpdateMode.PER_BROKER,
)
ssl_endpoint_identification_algorithm = Setting(
    "ssl.endpoint.identification.algorithm",
    STRING,
    "https",
    "How a server's name is checked against its certificate; empty means not at all.",
    dynamic=UpdateMode.PER_BROKER,
    importance=Importance.LOW,
)
ssl_engine_factory_class = Setting(
    "ssl.engine.factory.class",
    CLASS,
    None,
    "A Java class that makes TLS engines.",
    dynamic=UpdateMode.PER_BROKER,
    importance=Importance.LOW,
)
ssl_provider = Setting(
    "ssl.provider",
    STRING,
    None,
    "The Java security provider of TLS.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_secure_random_implementation = Setting(
    "ssl.secure.random.implementation",
    STRING,
    None,
    "Java's source of random numbers for TLS.",
    dynamic=UpdateMode.PER_BROKER,
    importance=Importance.LOW,
)
ssl_keymanager_algorithm = Setting(
    "ssl.keymanager.algorithm",
    STRING,
    "SunX509",
    "Java's algorithm to choose keys.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_trustmanager_algorithm = Setting(
    "ssl.trustmanager.algorithm",
    STRING,
    "PKIX",
    "Java's algorithm to check trust.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_principal_mapping_rules = Setting(
    "ssl.principal.mapping.rules",
    STRING,
    "DEFAULT",
    "Rules that make a short name of the distinguished name in a client's certificate.",
    importance=Importance.LOW,
)
ssl_allow_dn_changes = Setting(
    "ssl.allow.dn.changes",
    BOOLEAN,
    False,
    "Whether a new certificate may have another distinguished name than the one before.",
    importance=Importance.LOW,
)
ssl_allow_san_changes = Setting(
    "ssl.allow.san.changes",
    BOOLEAN,
    False,
    "Whether a new certificate may have other alternative names than the one before.",
    importance=Importance.LOW,
)
