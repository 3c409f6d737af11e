"""A consumer in a group, by one of the protocols."""

from __future__ import annotations

from typing import Any

from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer
from tests.client.group.simulated_consumer import OPTIONS

PROTOCOLS = list(OPTIONS)


def member(runtime: Runtime, kind: str, **options: Any) -> Any:
    return consumer(
        runtime, group_id="g", auto_offset_reset="earliest", **{**OPTIONS[kind], **options}
    )
