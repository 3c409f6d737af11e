"""The options of each protocol, and a consumer with them in simulated time."""

from __future__ import annotations

from typing import Any

from moldau.client import Consumer
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP

OPTIONS: dict[str, dict[str, Any]] = {
    "eager": {"heartbeat_interval_ms": 300, "session_timeout_ms": 3000},
    "cooperative": {
        "heartbeat_interval_ms": 300,
        "session_timeout_ms": 3000,
        "partition_assignment_strategy": "cooperative-sticky",
    },
    "consumer": {"group_protocol": "consumer"},
}


def consumer(runtime: Runtime, kind: str, **options: Any) -> Consumer:
    return Consumer(
        runtime=runtime,
        bootstrap_servers=BOOTSTRAP,
        group_id="g",
        auto_offset_reset="earliest",
        request_timeout_ms=2000,
        **{**OPTIONS[kind], **options},
    )
