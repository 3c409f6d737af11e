"""The writer of a leader beside a log in memory: what it does when it is unknown what was written.

The simulation has all of it beside a cluster; here each case is alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from moldau.client import KafkaError
from moldau.errors.codes import ErrorCode
from moldau.folds.leader_writer import Claim, ClaimFailed, Entry, LeaderWriter, NotLeader, Outcome


class Writer(LeaderWriter):
    """Its log takes all records; while it fails, they are not replayed."""

    def __init__(self) -> None:
        super().__init__(None, {}, None, "id", 1000)  # type: ignore[arg-type]
        self.log: list[Entry] = []
        self.replayed = 0
        self.fails: BaseException | None = None
        self.unreadable: Exception | None = None
        self.steps: list[str] = []
        self.on_resigned = lambda: self.steps.append("resigned")

    async def _take(self) -> None:
        self.steps.append("claimed")
        if self.unreadable is not None:
            raise self.unreadable
        self.replayed = len(self.log)
        self._claim = Claim.HELD

    async def _append(self, records: Sequence[Entry]) -> None:
        self.log += records
        if self.fails is not None:
            raise self.fails
        self.replayed = len(self.log)

    def next(self) -> Outcome:
        """Decide: the next number."""
        return Outcome(self.replayed, [(b"number", b"")])

    async def number(self) -> int:
        return int(await self.write(self.next))


def play(scenario: Callable[[Writer], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        writer = Writer()
        with pytest.raises(NotLeader):
            await writer.number()
        await writer.claim()
        assert await writer.number() == 0
        await scenario(writer)

    asyncio.run(whole())


@pytest.mark.parametrize("error", [TimeoutError(), KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)])
def test_a_writer_that_does_not_know_what_it_wrote_resigns(error: Exception) -> None:
    async def scenario(writer: Writer) -> None:
        writer.fails = error
        with pytest.raises(type(error)):
            await writer.number()
        writer.fails = None
        assert not writer.is_claimed
        with pytest.raises(NotLeader):
            await writer.number()
        await writer.claim()
        assert await writer.number() == 2, "1 is in the log"
        assert writer.steps == ["claimed", "resigned", "claimed"]

    play(scenario)


def test_records_that_are_too_large_change_nothing() -> None:
    async def scenario(writer: Writer) -> None:
        writer.fails = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        with pytest.raises(KafkaError):
            await writer.number()
        assert (writer.is_claimed, writer.steps) == (True, ["claimed"])

    play(scenario)


def test_after_a_cancelled_write_the_log_is_read_before_the_next_decision() -> None:
    async def scenario(writer: Writer) -> None:
        writer.fails = asyncio.CancelledError()
        with pytest.raises(asyncio.CancelledError):
            await writer.number()
        writer.fails = None
        assert await writer.number() == 2
        assert writer.steps == ["claimed", "claimed"]

    play(scenario)


@pytest.mark.parametrize("error", [TimeoutError(), KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)])
def test_a_log_that_cannot_be_read_again_ends_the_claim(error: Exception) -> None:
    async def scenario(writer: Writer) -> None:
        writer.fails = asyncio.CancelledError()
        with pytest.raises(asyncio.CancelledError):
            await writer.number()
        writer.unreadable = error
        with pytest.raises(ClaimFailed):
            await writer.number()
        assert (writer.is_claimed, writer.steps[-1]) == (False, "resigned")

    play(scenario)


def test_a_decision_without_records_is_answered_at_once() -> None:
    async def scenario(writer: Writer) -> None:
        assert await writer.write(lambda: Outcome("known")) == "known"
        assert len(writer.log) == 1

    play(scenario)


def test_a_request_that_is_cancelled_while_its_writer_resigns_leaves_an_election() -> None:
    class Interrupted(Writer):
        async def _drop(self) -> None:
            await super()._drop()
            raise asyncio.CancelledError

    async def whole() -> None:
        writer = Interrupted()
        await writer.claim()
        writer.fails = TimeoutError()
        with pytest.raises(asyncio.CancelledError):
            await writer.number()
        assert (writer.is_claimed, writer.steps) == (False, ["claimed", "resigned"])

    asyncio.run(whole())
