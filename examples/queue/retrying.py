"""Fifty handlers at a time: acknowledges on return, tries again after an exception."""

import asyncio
from contextlib import suppress
from typing import Any

from moldau.client import Message, ShareConsumer


async def send(message: Message[Any, Any]) -> None:
    if not message.value:
        message.reject("an empty order")
    elif message.delivery_count == 1:
        raise ConnectionError("the mail server is down")
    else:
        print("sent", message.value.decode(), "at attempt", message.delivery_count, flush=True)


async def main() -> None:
    async with ShareConsumer("orders", group="mailer", bootstrap_servers="localhost:9092") as queue:
        await queue.map(send, concurrency=50)


with suppress(KeyboardInterrupt):
    asyncio.run(main())
