"""Settings of a node and a topic for tests of tiered storage."""

from __future__ import annotations

from typing import Final

SETTINGS: Final = {
    "remote_log_storage_system_enable": "true",
    "remote_log_manager_task_interval_ms": "200",
    "remote_storage_orphan_grace_ms": "0",
    "log_retention_check_interval_ms": "200",
    "log_initial_task_delay_ms": "100",
}
"""Of a node that has much to do in a short time; `remote_storage` is missing."""
TOPIC: Final = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": "2000",
    "local_retention_bytes": "1",
    "retention_bytes": "-1",
    "retention_ms": "-1",
    "file_delete_delay_ms": "0",
}
"""Of a topic with small segments that go to the store at once."""
