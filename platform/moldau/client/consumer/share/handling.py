"""Runs a function for each message of a queue, many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from moldau.client.base.user_code import LOG
from moldau.client.consumer.share.message import Message
from moldau.runtime import Runtime

Handler = Callable[[Message[Any, Any]], Awaitable[object]]
_FIRST_S: Final = 1.0
_LAST_S: Final = 60.0


class Source(Protocol):
    """Where the messages come from."""

    async def take(self, count_max: int, timeout_s: float | None) -> list[Message[Any, Any]]:
        """Return up to so many messages, none if the queue is closed."""

    def can_delay(self) -> bool:
        """Whether the broker delays a released message."""


async def handle_all(
    runtime: Runtime, source: Source, handler: Handler, concurrency: int, attempts: int
) -> None:
    """Run the handler for each message until the queue is closed.

    A message is acknowledged when the handler returns without having answered it. After an
    exception it is released, after the `attempts`th delivery rejected with the exception's text.
    """
    running: set[asyncio.Task[None]] = set()
    try:
        while True:
            while len(running) >= concurrency:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                running = {each for each in running if not each.done()}
            found = await source.take(concurrency - len(running), None)
            if not found:
                break
            for message in found:
                running.add(_begin(runtime, source, handler, message, attempts))
        if running:
            await asyncio.wait(running)
    finally:
        for each in running:
            each.cancel()


def _begin(
    runtime: Runtime, source: Source, handler: Handler, message: Message[Any, Any], attempts: int
) -> asyncio.Task[None]:
    """Begin to handle a message. Its answer is given when the handler ends; none if the handler is
    cancelled."""

    async def handle() -> None:
        await handler(message)

    def ended(task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if message.is_answered:
            if error is not None:
                LOG.error("share consumer: the handler of %r has failed", message, exc_info=error)
        elif error is None:
            message.ack()
        else:
            _fail(source, message, attempts, error)

    task = runtime.spawn(handle(), name=f"handle {message!r}", reported=False)
    task.add_done_callback(ended)
    return task


def _fail(source: Source, message: Message[Any, Any], attempts: int, error: BaseException) -> None:
    count = message.delivery_count
    if count >= attempts:
        words = "share consumer: %r is rejected after %d deliveries"
        LOG.error(words, message, count, exc_info=error)
        message.reject(f"{type(error).__name__}: {error}")
        return
    delay_s = min(_LAST_S, _FIRST_S * 2 ** (count - 1)) if source.can_delay() else None
    LOG.warning("share consumer: %r is released: %r", message, error)
    message.release(delay_s)
