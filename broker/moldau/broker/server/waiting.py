"""What a broker waits for: the first of several coroutines, and the other shards of its host.

A cluster begins with all shards of its host: partitions of the first topics, as those of groups and
of transactions, stay on the brokers that are there when a client or a service first needs them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from moldau.runtime import Runtime

if TYPE_CHECKING:
    from moldau.broker.controller.image import Image

SHARDS_SECONDS: Final = 30.0


async def until_first(runtime: Runtime, **waits: Coroutine[Any, Any, object]) -> None:
    """Run the coroutines as tasks of these names. Wait until one ends, and cancel the others."""
    tasks = [runtime.spawn(each, name=name.replace("_", "-")) for name, each in waits.items()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


class HostShards:
    """All shards of this host, by node id; none if the host has one broker."""

    def __init__(self, ids: Collection[int]) -> None:
        self.ids = ids
        self._ready = asyncio.Event()

    def on_image(self, image: Image) -> None:
        """Note whether a client may be served: all shards are there, or a topic is already."""
        if self._ready.is_set():
            return
        known = image.brokers.by_id
        if image.topics.by_id or all(
            each in known and not known[each].is_fenced for each in self.ids
        ):
            self._ready.set()

    async def wait(self, runtime: Runtime, image: Image, ended: asyncio.Event) -> None:
        """Wait until a client may be served, a shard does not come, or this broker has ended."""
        self.on_image(image)
        if not self._ready.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(SHARDS_SECONDS):
                    await until_first(runtime, shards=self._ready.wait(), ended=ended.wait())
