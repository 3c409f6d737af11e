"""Partitions that are fetched before the first poll."""

from __future__ import annotations

import asyncio

from moldau.client import Consumer, TopicPartition

COUNT = 4


async def all_at_once(reader: Consumer) -> None:
    """Everything is fetched before the first poll gives any of it."""
    wanted = [TopicPartition("t", index) for index in range(COUNT)]
    reader.assign(wanted)
    reader.pause()
    reader.resume()
    await asyncio.sleep(1.0)  # the simulation's time
