"""Make the records that are appended to the metadata log durable, off the event loop.

Invariant: one flush runs at a time; records that are appended meanwhile are in the next one. A disk
failure is reported once, and nothing is flushed after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.errors.codes import KafkaError

if TYPE_CHECKING:
    import asyncio

    from moldau.broker.raft.quorum import Quorum
    from moldau.runtime import Runtime


class Flusher:
    """Flushes one quorum's log. After each flush `on_flushed` gets whether more is committed."""

    def __init__(
        self,
        runtime: Runtime,
        quorum: Quorum,
        on_flushed: Callable[[bool], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.is_durability_unknown = False
        """Whether a sync has failed: the kernel dropped pages that it could not write. A reader of
        the log would still see them, and a later sync would succeed, and confirm records that are
        not on the disk."""
        self._runtime = runtime
        self._quorum = quorum
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._running: asyncio.Task[None] | None = None

    def flush_soon(self) -> None:
        """Start to make the current records of the log durable."""
        if self._running is None:
            self._running = self._runtime.spawn(self._flush(), name="metadata-flush")

    async def flush(self) -> None:
        """Make all records of the log durable, and wait for it."""
        while not self._quorum.is_durable and not self._is_over:
            self.flush_soon()
            if self._running is not None:
                await self._running

    async def idle(self) -> None:
        """Wait until no flush is running."""
        if self._running is not None:
            await self._running

    @property
    def _is_over(self) -> bool:
        return self._quorum.log.failure is not None

    async def _flush(self) -> None:
        quorum = self._quorum
        try:
            while not quorum.is_durable and not self._is_over:
                job = quorum.begin_flush()
                try:
                    await self._runtime.run_blocking(job.run)
                except OSError as error:
                    self.is_durability_unknown = True
                    self._on_flushed(quorum.end_flush(job, error))
                else:
                    self._on_flushed(quorum.end_flush(job))
        except KafkaError as error:
            self._on_failure(error)
        finally:
            self._running = None
