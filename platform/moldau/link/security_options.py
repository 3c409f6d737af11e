"""Typed keywords of the clients; docs/client-settings.md says what each one does.

`python -m tests.client.settings.options` makes this module of the settings' rows.
"""

from collections.abc import Sequence
from typing import TypedDict

from moldau.config import Secret
from moldau.link.token import GivenTokens


class SecurityOptions(TypedDict, total=False):
    """Those of encryption and logins."""

    security_protocol: str
    ssl_truststore_location: str | None
    ssl_truststore_type: str
    ssl_truststore_password: str | Secret | None
    ssl_truststore_certificates: str | Secret | None
    ssl_keystore_location: str | None
    ssl_keystore_type: str
    ssl_keystore_password: str | Secret | None
    ssl_keystore_key: str | Secret | None
    ssl_keystore_certificate_chain: str | Secret | None
    ssl_key_password: str | Secret | None
    ssl_enabled_protocols: str | Sequence[str]
    ssl_cipher_suites: str | Sequence[str]
    ssl_endpoint_identification_algorithm: str
    sasl_mechanism: str
    sasl_jaas_config: str | Secret | None
    sasl_username: str | None
    sasl_password: str | Secret | None
    sasl_kerberos_service_name: str | None
    sasl_kerberos_principal: str | None
    sasl_kerberos_keytab: str | None
    oauth: GivenTokens | str | None
