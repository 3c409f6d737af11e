"""Carries out the decisions of a leader: decide, write in a transaction, replay, answer.

Invariants: one decision is made at a time, on a state that has replayed all decisions before it,
and its answer leaves when its own records are committed and replayed. All leaders share one
transactional id, so `claim` fences the predecessor: what it writes late is refused by the cluster.
Records of which nothing is known may be in the log all the same. So after an error this writer
resigns, and after a write that was cancelled it claims again before the next decision: either ends
a transaction that is open, and reads all that was written.

Why not the broker's `DecisionRuntime`: that one replays at once what its own log has taken, and
parks the answers of many decisions until they are committed. A client's log takes nothing at once,
and a decision on records that may yet be aborted would have to be undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from enum import Enum
from typing import Any, Final

from moldau.client import KafkaError, Producer
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode
from moldau.folds.topic_fold import TopicFold
from moldau.runtime import Runtime

Entry = tuple[bytes, bytes | None]

TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
"""Errors of the records alone: nothing was written, and the leader goes on."""
_CLOSE_S: Final = 5.0
_WRITER: Final = {"acks": "all", "linger.ms": "0"}


class NotLeader(MoldauError):
    """This process does not write now."""


class ClaimFailed(NotLeader):
    """The log could not be read after a write of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a decision returns: its answer, and the records that must be replayed before."""

    answer: Any
    records: Sequence[Entry] = field(default_factory=list)


class Claim(Enum):
    """NONE -> UNSURE -> HELD by `claim`; HELD -> UNSURE while a write is under way, and after it if
    it was cancelled; UNSURE -> HELD when all in the log is replayed; each -> NONE by an error."""

    NONE = "none"
    HELD = "held"
    UNSURE = "unsure"


class LeaderWriter:
    """The writer of a process that may lead. Call `claim` after each election."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Mapping[str, object],
        fold: TopicFold,
        transactional_id: str,
        timeout_ms: int,
    ) -> None:
        """`timeout_ms` is how long others wait at most for a leader that was killed while it
        wrote."""
        self._runtime = runtime
        self._fold = fold
        self._settings = {
            **settings,
            **_WRITER,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": str(timeout_ms),
        }
        self._producer: Producer | None = None
        self._claim = Claim.NONE
        self._lock = asyncio.Lock()
        self.on_resigned: Callable[[], object] = lambda: None
        """Called when an error has ended the claim."""

    @property
    def is_claimed(self) -> bool:
        """Whether this process can write, unless a newer leader has fenced it meanwhile."""
        return self._claim is not Claim.NONE

    async def claim(self) -> None:
        """Fence every earlier leader. On return all that they wrote was replayed. Raise KafkaError
        or TimeoutError."""
        async with self._lock:
            try:
                await self._take()
            except (KafkaError, TimeoutError):
                await self._drop()
                raise

    async def _take(self) -> None:
        await self._drop()
        self._claim = Claim.UNSURE  # also if this is cancelled: then the next write takes it
        self._producer = Producer(self._settings, runtime=self._runtime)
        await self._producer.start()
        await self._fold.catch_up()
        self._claim = Claim.HELD

    async def write(self, decide: Callable[[], Outcome]) -> Any:
        """Return the answer of a decision, when its records were replayed.

        Raise NotLeader before the decision. An error of TOO_LARGE changes nothing. After any other
        KafkaError and after a TimeoutError it is unknown whether the records are in the log, and
        this writer has resigned.
        """
        async with self._lock:
            if self._claim is Claim.UNSURE:
                await self._take_again()
            if self._claim is Claim.NONE:
                raise NotLeader("this process cannot write now: try again in a moment")
            outcome = decide()
            if outcome.records:
                await self._carry_out(outcome.records)
            return outcome.answer

    async def _take_again(self) -> None:
        try:
            await self._take()
        except (KafkaError, TimeoutError) as error:
            await self._resign()
            raise ClaimFailed(str(error)) from error

    async def _carry_out(self, records: Sequence[Entry]) -> None:
        self._claim = Claim.UNSURE
        try:
            await self._append(records)
        except (KafkaError, TimeoutError) as error:
            if isinstance(error, KafkaError) and error.code in TOO_LARGE:
                self._claim = Claim.HELD
            else:
                await self._resign()
            raise
        self._claim = Claim.HELD

    async def _append(self, records: Sequence[Entry]) -> None:
        """Append all records or none, and read them back."""
        assert self._producer is not None
        async with self._producer.transaction():
            topic = self._fold.topic.name
            sent = [await self._producer.send(topic, value, key=key) for key, value in records]
        await self._fold.read_back([await each for each in sent])

    async def _resign(self) -> None:
        try:
            await self._drop()
        finally:  # also if the request is cancelled meanwhile: else none would write
            self.on_resigned()

    async def step_down(self) -> None:
        """Write no more: another process leads, or this one ends. A write under way ends first."""
        async with self._lock:
            await self._drop()

    async def _drop(self) -> None:
        producer, self._producer = self._producer, None
        self._claim = Claim.NONE
        if producer is not None:
            with suppress(KafkaError):
                await producer.aclose(_CLOSE_S, abort=True)
