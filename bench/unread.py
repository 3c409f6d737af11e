"""A consumer that is not read: `python -m bench.unread PORT TOPIC`.

Prints by how many bytes the process grew while its consumer fetched ahead as far as it may.
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


async def grown(port: int, topic: str) -> int:
    """Until nothing more came for two seconds."""
    settings = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "buffer.memory": BOUND_BYTES,
        "max.partition.fetch.bytes": _OF_A_PARTITION_BYTES,
    }
    async with Consumer(settings, auto_offset_reset="earliest") as consumer:
        before = most = resident_bytes(os.getpid())
        consumer.assign([(topic, index) for index in range(_PARTITIONS)])
        await consumer.poll(timeout_s=10, max_records=1)
        still = 0
        while still < _STILL_TURNS:
            await asyncio.sleep(_TURN_S)
            now = resident_bytes(os.getpid())
            still = 0 if now > most else still + 1
            most = max(now, most)
    return most - before


if __name__ == "__main__":
    print(asyncio.run(grown(int(sys.argv[1]), sys.argv[2])))
