"""Typed keywords of the clients: those of `SchemaRegistry`. Made of the settings' rows.

`python -m tests.client.settings.options` makes this module anew.
"""

from collections.abc import Sequence
from typing import TypedDict

from moldau.config import Secret


class RegistryOptions(TypedDict, total=False):
    """Kafka's settings with underscores for dots."""

    schema_registry_url: str | Sequence[str]
    """Where the Schema Registry is: http:// or https:// addresses, several separated by commas; the
    next one is tried when one fails."""

    basic_auth_credentials_source: str
    """Where the registry's name and password are: URL (https://name:password@host) or USER_INFO
    (basic.auth.user.info). Default: URL."""

    basic_auth_user_info: str | Secret | None
    """The registry's name:password, for basic.auth.credentials.source=USER_INFO."""

    schema_registry_basic_auth_user_info: str | Secret | None
    """The same as basic.auth.user.info."""

    bearer_auth_credentials_source: str | None
    """Where the registry's bearer token is: STATIC_TOKEN (bearer.auth.token)."""

    bearer_auth_token: str | Secret | None
    """The registry's bearer token, for bearer.auth.credentials.source=STATIC_TOKEN."""

    schema_registry_ssl_truststore_location: str | None
    """A PEM file of the authorities that may vouch for the registry; the system's if not told."""

    schema_registry_ssl_truststore_type: str
    """The format of the truststore; Java's JKS and PKCS12 are turned to PEM with `keytool` and
    `openssl`. Default: PEM."""

    schema_registry_ssl_keystore_location: str | None
    """A PEM file of this client's certificate and private key, for a registry that asks for one."""

    schema_registry_ssl_keystore_type: str
    """The format of the keystore. Default: PEM."""

    schema_registry_ssl_key_password: str | Secret | None
    """Opens the private key of the keystore."""

    schema_registry_ssl_endpoint_identification_algorithm: str
    """https checks that the registry's certificate is for its host; empty does not. Default:
    https."""

    http_connect_timeout_ms: int | str
    """How long a connection to the registry may take. Default: 60000."""

    http_read_timeout_ms: int | str
    """How long the registry may take to answer. Default: 60000."""

    max_retries: int | str
    """How often a request that the registry could not answer is tried again, each time at all of
    its addresses. Default: 3."""

    retries_wait_ms: int | str
    """How long to wait before the first such retry; each further one waits twice as long. Default:
    1000."""

    retries_max_wait_ms: int | str
    """The longest wait between retries. Default: 20000."""

    max_schemas_per_subject: int | str
    """How many schemas, and how many answers about subjects, are remembered. Default: 1000."""

    latest_cache_ttl_sec: int | str
    """How many seconds the latest version of a subject is remembered; -1 for as long as it is used.
    Default: -1."""

    auto_register_schemas: bool | str
    """Whether a schema that the registry does not have is registered when it is first used.
    Default: true."""

    normalize_schemas: bool | str
    """Whether the registry compares schemas without regard to how they are written. Default:
    false."""

    use_latest_version: bool | str
    """Whether values are written with the latest schema of the subject instead of their own. With
    Java's serializers it counts only with auto.register.schemas=false. Default: false."""

    use_schema_id: int | str
    """The id of the schema to write with; -1 to find it by subject. Comes before all other ways.
    Default: -1."""

    key_subject_name_strategy: str
    """Under which subject the schemas of keys are: topic (`<topic>-key`), record (the schema's
    name), topic-record (`<topic>-<name>`), or the name of Java's class. Default: topic."""

    value_subject_name_strategy: str
    """Under which subject the schemas of values are: topic (`<topic>-value`), record (the schema's
    name), topic-record (`<topic>-<name>`), or the name of Java's class. Default: topic."""

    json_fail_invalid_schema: bool | str
    """Whether values are held against their JSON Schema when they are written and read. Default:
    true."""
