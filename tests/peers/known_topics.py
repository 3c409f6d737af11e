"""Waiting for a broker to know a topic; for tests marked `real` only.

A broker of Apache Kafka learns of topics from the metadata log: a moment later than its controller
has answered who made them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from moldau.client import Admin
from moldau.errors.codes import KafkaError

_POLL_S = 0.05
_WITHIN_S = 20.0


async def known(admin: Admin, topic: str, *, more_than: int = 0) -> int:
    """How many partitions of it the broker knows, as soon as these are more than that."""
    pause = asyncio.Event()
    async with asyncio.timeout(_WITHIN_S):
        while True:
            described = (await admin.describe_topics([topic]))[topic]
            if not isinstance(described, KafkaError) and len(described.partitions) > more_than:
                return len(described.partitions)
            with suppress(TimeoutError):
                await asyncio.wait_for(pause.wait(), _POLL_S)
