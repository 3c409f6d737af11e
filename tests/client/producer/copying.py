"""A program of a user: copies one topic into another, offsets inside, until it is killed.

python -m tests.client.producer.copying SERVERS SOURCE TARGET NAME PROTOCOL
"""

from __future__ import annotations

import asyncio
import sys

from moldau.client import Consumer, Producer, Transaction


async def main(servers: str, source: str, target: str, name: str, protocol: str) -> None:
    producer = Producer(bootstrap_servers=servers, transactional_id=name)
    consumer = Consumer(
        {"group.protocol": protocol},
        bootstrap_servers=servers,
        group_id=target,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        group_instance_id=name if protocol == "classic" else None,
    )

    async def copy(transaction: Transaction) -> None:
        for part in await consumer.poll(0.5, max_records=10):
            await producer.send_many(target, list(part.values()))

    async with producer, consumer:
        await consumer.subscribe([source])
        while True:
            await producer.run_transaction(copy, consumer)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
