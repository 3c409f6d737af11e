"""A worker of the queue `orders`. Start as many as you like, and kill any of them."""

import asyncio
from contextlib import suppress

from moldau.client import ShareConsumer


async def main() -> None:
    async with ShareConsumer("orders", group="mailer", bootstrap_servers="localhost:9092") as queue:
        async for message in queue:
            await asyncio.sleep(0.02)  # the work; the lock is renewed while it runs
            print("sent", message.value.decode(), flush=True)
            message.ack()


with suppress(KeyboardInterrupt):
    asyncio.run(main())
