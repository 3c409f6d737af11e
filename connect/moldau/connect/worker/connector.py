"""One connector instance on a thread of its own, so that its code never runs on the event loop.

The thread makes the calls one after the other. A call that takes too long fails for the caller; the
thread continues with it, and later calls wait or are never made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from moldau.connect.api import Connector, ConnectorContext, OffsetStorageReader
from moldau.connect.errors import ConnectError
from moldau.connect.task.offsets import Ask, AskedOffsets
from moldau.runtime.children import Mailbox, start_thread

T = TypeVar("T")

Call = Callable[[], None]


class WorkerConnectorContext(ConnectorContext):
    """The connector's context. The connector may call it from any of its threads."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_reconfigure: Callable[[], None],
        on_error: Callable[[Exception], None],
        on_waiting: Callable[[str | None], None],
        ask: Ask,
    ) -> None:
        self._loop = loop
        self._on_reconfigure = on_reconfigure
        self._on_error = on_error
        self._on_waiting = on_waiting
        self._offsets = AskedOffsets(ask)

    def request_task_reconfiguration(self) -> None:
        self._soon(self._on_reconfigure)

    def raise_error(self, error: Exception) -> None:
        self._soon(self._on_error, error)

    def report_waiting(self, cause: str | None) -> None:
        self._soon(self._on_waiting, cause)

    def _soon(self, function: Callable[..., None], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    @property
    def offset_storage_reader(self) -> OffsetStorageReader:
        return self._offsets


class ConnectorThread:
    """A connector's thread, and the instance that it creates."""

    def __init__(self, name: str, timeout_s: float) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._calls: Mailbox[Call | None] = Mailbox()
        self.connector: Connector | None = None
        self.props: dict[str, str] = {}
        self.waits_for: str | None = None
        self.begun_at = 0.0
        start_thread(self._serve, f"connector {name}")

    def _serve(self) -> None:
        while (call := self._calls.take(None)) is not None:
            call()

    async def run(self, what: str, function: Callable[[], T], timeout_s: float | None = None) -> T:
        """Run `function` on the thread; return its result. Raise ConnectError after `timeout_s`,
        or after the thread's own timeout; the function is run all the same when its turn comes."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(method: Callable[[Any], None], value: object) -> None:
            if not answer.done():
                method(value)

        def call() -> None:
            try:
                value = function()
            except Exception as error:
                loop.call_soon_threadsafe(settle, answer.set_exception, error)
            else:
                loop.call_soon_threadsafe(settle, answer.set_result, value)

        self._calls.put(call)
        try:
            return await asyncio.wait_for(answer, timeout_s)
        except TimeoutError:
            if answer.done() and not answer.cancelled() and answer.exception() is not None:
                raise
            raise ConnectError(
                f"the connector's {what} did not return in time",
                seconds=timeout_s,
                hint="it waits for something: check that what it connects to is reachable",
            ) from None

    def end(self) -> None:
        """End the thread after the calls that are already queued."""
        self._calls.put(None)
