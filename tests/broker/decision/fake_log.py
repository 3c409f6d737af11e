"""A log in memory that rejects, is truncated, and changes hands; and a state that follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from moldau.broker.decision.log import Append
from moldau.broker.decision.outcome import Effect, Outcome, Ticket
from moldau.broker.decision.runtime import DecisionRuntime, Hooks
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages.heartbeat import HeartbeatResponse

FINE = HeartbeatResponse(error_code=0)
NS_OF_MS = 1_000_000
Heard = tuple[str, object]


class Entry(NamedTuple):
    leader_epoch: int
    record: str


class FakeLog:
    """Satisfies `DecisionLog`. Another leader's records are those of `others_wrote`."""

    def __init__(self, *, is_replicated: bool = True) -> None:
        self.entries: list[Entry] = []
        self.appends: list[Append[str]] = []
        self.leader_epoch: int | None = 1
        self.high_watermark = 0
        self.rejections: list[Exception] = []
        """Raised by the next appends, one each."""
        self.records_max = 1000
        self.on_append: Callable[[], None] = lambda: None
        self._is_replicated = is_replicated

    @property
    def end_offset(self) -> int:
        return len(self.entries)

    def is_level(self, leader_epoch: int) -> bool:
        return self.high_watermark >= self.end_offset and self.leader_epoch == leader_epoch

    def append(self, append: Append[str]) -> int:
        if append.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.on_append()
        if self.rejections:
            raise self.rejections.pop(0)
        if len(append.records) > self.records_max:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        offset = self.end_offset
        self.appends.append(append)
        self.entries += [Entry(append.leader_epoch, record) for record in append.records]
        if not self._is_replicated:
            self.high_watermark = self.end_offset
        return offset

    def lose(self, keep: int) -> None:
        """Another broker leads. Its log holds only the first `keep` of our records."""
        self.leader_epoch = None
        del self.entries[max(keep, self.high_watermark) :]

    def others_wrote(self, records: Iterable[str], leader_epoch: int) -> None:
        """The other leader's records, all committed."""
        self.entries += [Entry(leader_epoch, record) for record in records]
        self.high_watermark = self.end_offset

    def win(self, leader_epoch: int) -> None:
        """This node leads again."""
        self.leader_epoch = leader_epoch


class Tale:
    """A core: the records that were replayed. It parks tickets if a decision does."""

    def __init__(self) -> None:
        self.replayed: list[str] = []
        self.is_settled = True
        self.more: list[Outcome[str]] = []

    def settle(self, now_ms: int) -> Outcome[str] | None:
        self.is_settled = True
        return self.more.pop(0) if self.more else None


class Owner:
    """The owner of a runtime over a `FakeLog`, and what its tickets heard."""

    def __init__(
        self,
        log: FakeLog,
        leader_epoch: int = 1,
        *,
        publishes: bool = False,
        heard: list[Heard] | None = None,
    ) -> None:
        self.log = log
        self.core = Tale()
        self.heard: list[Heard] = [] if heard is None else heard
        self.published: list[tuple[tuple[str, ...], int]] = []
        self.parked_in_core: list[Ticket] = []
        self.breaks = False
        self.broken = 0
        self.gathering = 0
        self.waits = 0
        self.processed: list[float] = []
        self.waited: list[float] = []
        self.now_ns = NS_OF_MS
        self.released: list[Effect] = []
        hooks: Hooks[str] = Hooks(
            replay=self._replay,
            as_answer=self._as_answer,
            on_broken=self._on_broken,
            on_parked=self._on_parked,
            on_gathered=self._on_gathered,
            on_committed=self._on_committed if publishes else None,
            processed=lambda name, seconds: self.processed.append(seconds),
            on_effects=self.released.extend,
            waited=self.waited.append,
        )
        self.decisions = DecisionRuntime(self.core, log, hooks, leader_epoch, lambda: self.now_ns)

    def _replay(self, offset: int, append: Append[str], now_ms: int) -> None:
        assert self.log.entries[offset].record == append.records[0]
        if self.breaks:
            raise ValueError("a bug")
        self.core.replayed += append.records

    def _as_answer(self, error: KafkaError) -> KafkaError:
        if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return KafkaError(ErrorCode.NOT_COORDINATOR)
        return error

    def _on_broken(self, name: str) -> None:
        self.broken += 1
        self.close()

    def _on_parked(self) -> None:
        self.waits += 1

    def _on_gathered(self) -> None:
        self.gathering += 1

    def _on_committed(self, records: tuple[str, ...], end_offset: int) -> None:
        self.published.append((records, end_offset))

    def close(self) -> None:
        parked, self.parked_in_core = tuple(self.parked_in_core), []
        self.decisions.close(ErrorCode.NOT_COORDINATOR, parked)

    def ticket(self, name: str) -> Callable[[Response | KafkaError], None]:
        def answer(response: Response | KafkaError) -> None:
            told = response.code if isinstance(response, KafkaError) else "fine"
            self.heard.append((name, told))

        return answer

    def decided(self, name: str, *records: str) -> tuple[Outcome[str], Ticket]:
        ticket = self.ticket(name)
        return Outcome(records, ((ticket, FINE),)), ticket

    def run(self, name: str, *records: str) -> None:
        outcome, ticket = self.decided(name, *records)
        self.decisions.run(lambda core, now_ms: outcome, ticket)

    def gather(self, name: str, *records: str) -> None:
        outcome, ticket = self.decided(name, *records)
        self.decisions.gather(lambda core, now_ms: outcome, ticket)

    def commit(self, high_watermark: int | None = None) -> None:
        end = self.log.end_offset
        self.log.high_watermark = end if high_watermark is None else high_watermark
        self.decisions.on_commit()
