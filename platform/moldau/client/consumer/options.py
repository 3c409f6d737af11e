"""Typed keywords of the clients; docs/client-settings.md says what each one does.

`python -m tests.client.settings.options` makes this module of the settings' rows.
"""

from collections.abc import Sequence
from typing import Literal

from moldau.client.base.interceptor import ConsumerInterceptor
from moldau.client.group.assignors import AssignorGiven
from moldau.client.settings.options import RecordOptions


class ConsumerOptions(RecordOptions, total=False):
    """Those of `Consumer`."""

    group_id: str | None
    group_protocol: Literal["classic", "consumer"]
    group_instance_id: str | None
    group_remote_assignor: str | None
    partition_assignment_strategy: str | AssignorGiven | Sequence[AssignorGiven]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    enable_auto_commit: bool | None
    auto_commit_interval_ms: int
    exclude_internal_topics: bool
    client_rack: str
    buffer_memory: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    isolation_level: Literal["read_uncommitted", "read_committed"]
    auto_offset_reset: Literal["earliest", "latest", "none"]
    check_crcs: bool
    allow_auto_create_topics: bool
    interceptor_classes: str | Sequence[str | ConsumerInterceptor | type[ConsumerInterceptor]]
    deserializer_encoding: str
    key_deserializer_encoding: str | None
    value_deserializer_encoding: str | None
