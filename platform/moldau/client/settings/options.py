"""Typed keywords of the clients; docs/client-settings.md says what each one does.

`python -m tests.client.settings.options` makes this module of the settings' rows.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict

from moldau.config import Secret
from moldau.link.security_options import SecurityOptions


class ClientOptions(SecurityOptions, total=False):
    """Those of every client."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    start_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    metadata_cluster_check_enable: bool
    config_providers: str | Sequence[str]


class RegistryOptions(TypedDict, total=False):
    """Those of `SchemaRegistry`."""

    schema_registry_url: str | Sequence[str]
    basic_auth_credentials_source: Literal["URL", "USER_INFO"]
    basic_auth_user_info: str | Secret | None
    schema_registry_basic_auth_user_info: str | Secret | None
    bearer_auth_credentials_source: Literal["STATIC_TOKEN"] | None
    bearer_auth_token: str | Secret | None
    schema_registry_ssl_truststore_location: str | None
    schema_registry_ssl_truststore_type: Literal["PEM"]
    schema_registry_ssl_keystore_location: str | None
    schema_registry_ssl_keystore_type: Literal["PEM"]
    schema_registry_ssl_key_password: str | Secret | None
    schema_registry_ssl_endpoint_identification_algorithm: Literal["https", ""]
    http_connect_timeout_ms: int
    http_read_timeout_ms: int
    max_retries: int
    retries_wait_ms: int
    retries_max_wait_ms: int
    max_schemas_per_subject: int
    latest_cache_ttl_sec: int
    auto_register_schemas: bool
    normalize_schemas: bool
    use_latest_version: bool
    use_schema_id: int
    key_subject_name_strategy: str
    value_subject_name_strategy: str
    json_fail_invalid_schema: bool
    data_contract_rules: Literal["refuse", "ignore"]


class RecordOptions(ClientOptions, RegistryOptions, total=False):
    """Those of readers and writers."""

    metrics_sample_window_ms: int
    metrics_num_samples: int


class AdminOptions(ClientOptions, total=False):
    """Those of `Admin`."""
