"""The leader's writes to the config topic, each in a transaction of the group's one leader id.

Invariant: what is written is from the newest leader. A worker that was the leader and does not know
that it is no longer has a fenced producer, so its write fails (KIP-618).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from moldau.client import KafkaError, Producer, Sent
from moldau.connect.errors import ConnectError
from moldau.connect.storage.log import Entry
from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime

_CLOSE_S: Final = 5.0
_TIMEOUT_MS: Final = "10000"
"""How long the other workers wait at most for a leader that was killed while it wrote."""
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class LeaderWrites:
    """The transactional producer of a leader. Call `claim` after each election."""

    def __init__(
        self, runtime: Runtime, settings: Mapping[str, object], transactional_id: str
    ) -> None:
        self._runtime = runtime
        self._settings = {
            **settings,
            "acks": "all",
            "linger.ms": "0",
            "transactional.id": transactional_id,
            "transaction.timeout.ms": _TIMEOUT_MS,
        }
        self._producer: Producer | None = None
        self._is_begun = False
        self._lock = asyncio.Lock()

    @property
    def is_claimed(self) -> bool:
        """Whether this worker can write, unless a newer leader has fenced it meanwhile."""
        return self._producer is not None

    async def claim(self) -> None:
        """Fence every earlier leader."""
        async with self._lock:
            await self._drop()
            producer = Producer(self._settings, runtime=self._runtime)
            async with AsyncExitStack() as on_failure:
                on_failure.push_async_callback(producer.aclose, _CLOSE_S, abort=True)
                await producer.start()
                await producer.begin_transaction()
                on_failure.pop_all()
            self._producer, self._is_begun = producer, True

    async def write(self, topic: str, entries: Sequence[Entry]) -> list[Sent]:
        """Write the records in one transaction. Raise ConnectError if another worker leads."""
        async with self._lock:
            producer = self._producer
            if producer is None:
                raise ConnectError("this worker cannot write configs now: try again in a moment")
            try:
                if not self._is_begun:
                    await producer.begin_transaction()
                self._is_begun = False
                sent = [await producer.send(topic, value, key=key) for key, value in entries]
                await producer.commit_transaction()
                return [await each for each in sent]
            except KafkaError as error:
                await self._drop()
                if error.code in _FENCED:
                    raise ConnectError(
                        "another worker has become the leader: try again in a moment",
                        error=str(error),
                    ) from error
                raise

    async def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.aclose(_CLOSE_S, abort=True)

    async def aclose(self) -> None:
        """Release the producer."""
        async with self._lock:
            await self._drop()
