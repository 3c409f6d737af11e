"""Runs a function for each message of a queue, many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from moldau.client.settings.user_code import LOG
from moldau.client.share.message import Message
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
                work = _handle(source, handler, message, attempts)
                running.add(runtime.spawn(work, name=f"handle {message!r}"))
        if running:
            await asyncio.wait(running)
    finally:
        for each in running:
            each.cancel()


async def _handle(
    source: Source, handler: Handler, message: Message[Any, Any], attempts: int
) -> None:
    try:
        await handler(message)
    except Exception as error:
        if not message.is_answered:
            _fail(source, message, attempts, error)
    else:
        if not message.is_answered:
            message.ack()


def _fail(source: Source, message: Message[Any, Any], attempts: int, error: Exception) -> None:
    count = message.delivery_count
    if count >= attempts:
        LOG.error(
            "share consumer: %r is rejected after %d deliveries", message, count, exc_info=error
        )
        message.reject(f"{type(error).__name__}: {error}")
        return
    delay_s = min(_LAST_S, _FIRST_S * 2 ** (count - 1)) if source.can_delay() else None
    LOG.warning("share consumer: %r is released: %r", message, error)
    message.release(delay_s)
