"""Typed keywords of the clients; docs/client-settings.md says what each one does.

`python -m tests.client.settings.options` makes this module of the settings' rows.
"""

from collections.abc import Sequence

from moldau.client.base.interceptor import ConsumerInterceptor
from moldau.client.group.assignors import AssignorGiven
from moldau.client.settings.options import RecordOptions


class ConsumerOptions(RecordOptions, total=False):
    """Those of `Consumer`."""

    group_id: str | None
    group_protocol: str
    group_instance_id: str | None
    group_remote_assignor: str | None
    partition_assignment_strategy: str | AssignorGiven | Sequence[AssignorGiven]
    session_timeout_ms: int | str
    heartbeat_interval_ms: int | str
    max_poll_interval_ms: int | str
    enable_auto_commit: bool | str | None
    auto_commit_interval_ms: int | str
    exclude_internal_topics: bool | str
    client_rack: str
    buffer_memory: int | str
    fetch_min_bytes: int | str
    fetch_max_bytes: int | str
    fetch_max_wait_ms: int | str
    max_partition_fetch_bytes: int | str
    max_poll_records: int | str
    isolation_level: str
    auto_offset_reset: str
    check_crcs: bool | str
    allow_auto_create_topics: bool | str
    interceptor_classes: str | Sequence[str | ConsumerInterceptor | type[ConsumerInterceptor]]
    deserializer_encoding: str
    key_deserializer_encoding: str | None
    value_deserializer_encoding: str | None
