"""Typed keywords of the clients; docs/client-settings.md says what each one does.

`python -m tests.client.settings.options` makes this module of the settings' rows.
"""

from collections.abc import Sequence
from typing import TypedDict

from moldau.config import Secret
from moldau.link.security_options import SecurityOptions


class ClientOptions(SecurityOptions, total=False):
    """Those of every client."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    request_timeout_ms: int | str
    default_api_timeout_ms: int | str
    start_timeout_ms: int | str
    retry_backoff_ms: int | str
    retry_backoff_max_ms: int | str
    reconnect_backoff_ms: int | str
    reconnect_backoff_max_ms: int | str
    socket_connection_setup_timeout_ms: int | str
    metadata_max_age_ms: int | str
    config_providers: str | Sequence[str]


class RegistryOptions(TypedDict, total=False):
    """Those of `SchemaRegistry`."""

    schema_registry_url: str | Sequence[str]
    basic_auth_credentials_source: str
    basic_auth_user_info: str | Secret | None
    schema_registry_basic_auth_user_info: str | Secret | None
    bearer_auth_credentials_source: str | None
    bearer_auth_token: str | Secret | None
    schema_registry_ssl_truststore_location: str | None
    schema_registry_ssl_truststore_type: str
    schema_registry_ssl_keystore_location: str | None
    schema_registry_ssl_keystore_type: str
    schema_registry_ssl_key_password: str | Secret | None
    schema_registry_ssl_endpoint_identification_algorithm: str
    http_connect_timeout_ms: int | str
    http_read_timeout_ms: int | str
    max_retries: int | str
    retries_wait_ms: int | str
    retries_max_wait_ms: int | str
    max_schemas_per_subject: int | str
    latest_cache_ttl_sec: int | str
    auto_register_schemas: bool | str
    normalize_schemas: bool | str
    use_latest_version: bool | str
    use_schema_id: int | str
    key_subject_name_strategy: str
    value_subject_name_strategy: str
    json_fail_invalid_schema: bool | str


class RecordOptions(ClientOptions, RegistryOptions, total=False):
    """Those of readers and writers."""

    metrics_sample_window_ms: int | str
    metrics_num_samples: int | str


class AdminOptions(ClientOptions, total=False):
    """Those of `Admin`."""
