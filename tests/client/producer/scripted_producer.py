"""A producer among scripted brokers, and its memory."""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.client import Producer
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP


def producer(runtime: Runtime, **options: Any) -> Producer:
    return Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options)


def fill(sender: Producer) -> int:
    """As if all memory were used; what was used before."""
    used = sender._accumulator.buffer.used_bytes
    sender._accumulator.buffer.used_bytes = sender._accumulator.options.memory_bytes
    return used


def free(sender: Producer, used: int) -> None:
    sender._accumulator.buffer.used_bytes = used
    sender._sender._wake_senders()


async def spin(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
