"""Runs decisions where they may be run: here if this instance leads, else at the leader.

Invariants: one decision runs at a time, on a store that has replayed all decisions before it, and
it is answered when its own records were replayed. Records that were not read back may be in the log
all the same, with ids that the store does not know yet. So after a time-out this instance resigns:
the start of the next writer ends a transaction that is open, and reads all that was written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging import Logger
from moldau.registry import refusals
from moldau.registry.decisions import Outcome
from moldau.registry.log import SchemasLog
from moldau.registry.refusals import Refusal

LEADER_S: Final = 10.0
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class Writer:
    """The way of writes to the log."""

    def __init__(self, log: SchemasLog, url: str, transactional_id: str, logger: Logger) -> None:
        self._log = log
        self.url = url
        self._transactional_id = transactional_id
        self._logger = logger
        self._lock = asyncio.Lock()
        self._leader: str | None = None
        self._changed = asyncio.Condition()
        self._is_behind = False
        self.on_fenced: Callable[[], Any] | None = None

    async def follow(self, leader: str | None) -> None:
        """Follow the result of an election. For this instance, begin or end to write."""
        if leader != self.url:
            await self._tell(leader)
            async with self._lock:
                await self._log.step_down()
            return
        if self._leader == self.url:
            return
        async with self._lock:
            await self._log.lead(self._transactional_id)
            self._is_behind = False
        self._logger.info("this instance writes now", url=self.url)
        await self._tell(leader)

    async def _tell(self, leader: str | None) -> None:
        async with self._changed:
            self._leader = leader
            self._changed.notify_all()

    @property
    def is_leading(self) -> bool:
        """Whether this instance writes."""
        return self._leader == self.url

    async def leader(self) -> str:
        """Return the URL of the leader. While there is none, wait for it. Raise Refusal."""
        if self._leader is None:
            try:
                async with asyncio.timeout(LEADER_S), self._changed:
                    await self._changed.wait_for(lambda: self._leader is not None)
            except TimeoutError:
                raise Refusal(refusals.NO_LEADER, "No instance leads now: try again") from None
        assert self._leader is not None
        return self._leader

    async def write(self, decide: Callable[[], Outcome]) -> Any:
        """Return the answer of a decision, when its records were read back. Raise Refusal."""
        async with self._lock:
            if self._leader != self.url:
                raise Refusal(refusals.NO_LEADER, "The leader is just changing: try again")
            if self._is_behind:
                await self._catch_up()
            outcome = decide()
            if outcome.records:
                await self._append(outcome)
        return outcome.answer

    async def _append(self, outcome: Outcome) -> None:
        self._is_behind = True  # until it is known what became of the records
        try:
            await self._log.append(outcome.records)
        except TimeoutError:
            await self._resign()
            raise Refusal(refusals.TIMEOUT, "The write was not read back in time") from None
        except KafkaError as error:
            if error.code in _TOO_LARGE:
                self._is_behind = False
                raise Refusal(refusals.TOO_LARGE, f"The schema is too large: {error}") from error
            # Another instance may write now, or nothing is known of this write: begin anew.
            await self._resign()
            raise Refusal(refusals.STORE, f"The cluster refused the write: {error}") from error
        self._is_behind = False

    async def _catch_up(self) -> None:
        """Read what a cancelled write has left in the log. Raise Refusal."""
        try:
            await self._log.lead(self._transactional_id)
        except (KafkaError, TimeoutError) as error:
            await self._resign()
            raise Refusal(refusals.STORE, f"The schemas cannot be read: {error}") from error
        self._is_behind = False

    async def _resign(self) -> None:
        """Stop to write, and ask for an election: the next writer reads all before it writes."""
        self._leader = None
        try:
            await self._log.step_down()
        finally:  # also if the request is cancelled meanwhile: without an election none writes
            if self.on_fenced is not None:
                self.on_fenced()
