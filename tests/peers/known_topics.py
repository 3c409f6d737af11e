"""Waiting for a broker to know a topic; for tests marked `real` only.

A broker of Apache Kafka learns of topics from the metadata log: a moment later than its controller
has answered who made them.
"""

from __future__ import annotations

import asyncio

from moldau.client import Admin
from moldau.errors.codes import KafkaError

_POLL_S = 0.05
_POLLS = 400


async def known(admin: Admin, topic: str, *, more_than: int = 0) -> int:
    """How many partitions of it the broker knows, as soon as these are more than that."""
    for _ in range(_POLLS):
        described = (await admin.describe_topics([topic]))[topic]
        if not isinstance(described, KafkaError) and len(described.partitions) > more_than:
            return len(described.partitions)
        await asyncio.sleep(_POLL_S)
    raise AssertionError(f"the broker knows no more than {more_than} partitions of {topic}")
