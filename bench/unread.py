"""A consumer that is not read: `python -m bench.unread PORT TOPIC`.

Prints by how many bytes the process grew while its consumer fetched ahead as far as it may. Another
consumer has read a record before, so that the growth is the fetched data, and not the program: code
that is loaded and codecs that are made with the first fetch.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

from bench.peer_brokers import resident_bytes
from moldau.client import Consumer

# Far less than would be fetched ahead without a bound: so much of each partition.
BOUND_BYTES: Final = 32 << 20
_OF_A_PARTITION_BYTES: Final = 32 << 20
_PARTITIONS: Final = 6
_TURN_S: Final = 0.2
_STILL_TURNS: Final = 10


def _consumer(port: int, memory_bytes: int, of_a_partition_bytes: int) -> Consumer:
    settings = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "buffer.memory": memory_bytes,
        "max.partition.fetch.bytes": of_a_partition_bytes,
    }
    return Consumer(settings, auto_offset_reset="earliest")


async def _one_record(consumer: Consumer, topic: str) -> None:
    consumer.assign([(topic, index) for index in range(_PARTITIONS)])
    await consumer.poll(timeout_s=10, max_records=1)


async def grown(port: int, topic: str) -> int:
    """Return the growth of the process, once nothing more has come for two seconds."""
    async with _consumer(port, 1, 1) as consumer:
        await _one_record(consumer, topic)
    async with _consumer(port, BOUND_BYTES, _OF_A_PARTITION_BYTES) as consumer:
        before = most = resident_bytes(os.getpid())
        await _one_record(consumer, topic)
        still = 0
        while still < _STILL_TURNS:
            await asyncio.sleep(_TURN_S)
            now = resident_bytes(os.getpid())
            still = 0 if now > most else still + 1
            most = max(now, most)
    return most - before


if __name__ == "__main__":
    print(asyncio.run(grown(int(sys.argv[1]), sys.argv[2])))
