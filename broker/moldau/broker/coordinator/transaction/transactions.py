"""The transactional ids of one partition of `__transaction_state`: a shard of the coordinator.

Invariants:
- The table is what the log says, and for each transaction that ends, the partitions whose markers
  are still missing. The latter is not in the log: after loading, all markers are written again.
- Markers are written when the record of the decision is committed, never before. For transactions
  that were found ending in the log, they wait until everything that was loaded is committed.
- A transaction that is open for longer than its client allowed is aborted, and the client fenced.
- A transactional id that has no open transaction and was not used for long is forgotten. A
  transaction that ends is never forgotten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from moldau.broker.coordinator.outcome import NOTHING, Answer, LogRecord, Outcome, Ticket
from moldau.broker.coordinator.transaction.ending import fence, markers_of
from moldau.broker.coordinator.transaction.state import Transaction, TransactionStatus
from moldau.broker.settings import transaction as settings
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.schemas.transaction_log import TransactionLogKey, TransactionLogValue

if TYPE_CHECKING:
    from moldau.broker.coordinator.outcome import Effect
    from moldau.broker.coordinator.transaction.services import TransactionServices
    from moldau.broker.coordinator.transaction.state import Partitions, TopicPartition
    from moldau.protocol.declare import LogKey, LogValue

FORGOTTEN_AT_ONCE: Final = 500
_AT_ONCE_MS: Final = 0


class Transactions:
    """A shard of the transaction coordinator; satisfies `coordinator.shard.Shard`."""

    def __init__(self, services: TransactionServices) -> None:
        self.services = services
        self._known: dict[str, Transaction] = {}
        self._unmarked: dict[str, set[TopicPartition]] = {}
        """The partitions without a marker, of each transaction that ends."""
        self._open: dict[str, None] = {}
        """The ids with an open transaction."""
        self._staged: tuple[TransactionLogValue, Transaction] | None = None
        """The last decided value and its record, which does not hold all of it."""
        self._overdue: list[str] = []
        self._search_ms: int | None = None
        """When to look for overdue transactions next. None before the shard is loaded."""
        self._expiry_ms = 0
        """When to look for ids to forget next."""

    # Lookup.

    def get(self, transactional_id: str) -> Transaction | None:
        """Return what is known of this id, or None."""
        return self._known.get(transactional_id)

    def existing(self, transactional_id: str) -> Transaction:
        """Return what is known of this id. Raise KafkaError if it is empty or unknown."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
        known = self._known.get(transactional_id)
        if known is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return known

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def unmarked(self, known: Transaction) -> Collection[TopicPartition]:
        """Return the partitions in the transaction; if it ends, those without a marker."""
        if known.is_ending:
            return self._unmarked.get(known.transactional_id, ())
        return known.partitions

    # For decisions.

    def stored(
        self,
        value: Transaction,
        answers: tuple[Answer, ...] = (),
        effects: tuple[Effect, ...] = (),
    ) -> Outcome:
        """Return the outcome that stores this value."""
        record = value.record(self.services.transaction_version)
        assert isinstance(record.value, TransactionLogValue)
        self._staged = record.value, value
        return Outcome((record,), answers, effects)

    def without_markers(self, known: Transaction, written: Partitions) -> bool:
        """Note partitions that have their marker. Return whether any still has none."""
        left = self._unmarked[known.transactional_id]
        left -= written
        return bool(left)

    # Replay.

    def replay(
        self, offset: int, producer_id: int, key: LogKey, value: LogValue | None, now_ms: int
    ) -> None:
        """Apply one record of the log."""
        assert isinstance(key, TransactionLogKey)
        transactional_id = key.transactional_id
        staged, self._staged = self._staged, None
        found: Transaction | None = None
        if value is not None:
            assert isinstance(value, TransactionLogValue)
            if staged is not None and staged[0] is value:
                found = staged[1]
            else:
                found = Transaction.of_value(transactional_id, value)
        if found is None:
            self._known.pop(transactional_id, None)
        else:
            self._known[transactional_id] = found
        if found is not None and found.state is TransactionStatus.ONGOING:
            self._open[transactional_id] = None
        else:
            self._open.pop(transactional_id, None)
        if found is not None and found.is_ending:
            self._unmarked[transactional_id] = set(found.partitions)
        else:
            self._unmarked.pop(transactional_id, None)

    def replay_end(self, producer_id: int, *, is_commit: bool) -> None:
        """Do nothing: no transaction writes to this log."""

    # After each step.

    @property
    def is_settled(self) -> bool:
        return self._search_ms is not None

    def settle(self, now_ms: int) -> Outcome | None:
        """After loading, write the markers of all transactions that end."""
        if self._search_ms is not None:
            return None
        self._search_ms = now_ms + self._search_interval_ms()
        self._expiry_ms = now_ms + self._expiry_interval_ms()
        unfinished = tuple(
            markers_of(self._known[transactional_id]) for transactional_id in self._unmarked
        )
        return Outcome((), (), unfinished) if unfinished else None

    def on_topics_changed(
        self, changed: Collection[str], deleted: Collection[str], now_ms: int
    ) -> Iterable[Outcome]:
        """Do nothing: the shell learns from the metadata that a partition needs no marker."""
        return ()

    def on_unloaded(self) -> tuple[Ticket, ...]:
        """Return no tickets: no request is parked in the core."""
        return ()

    # Time.

    def _search_interval_ms(self) -> int:
        key = settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        return self.services.settings[key]

    def _expiry_interval_ms(self) -> int:
        key = settings.transaction_remove_expired_transaction_cleanup_interval_ms
        return self.services.settings[key]

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next search, or that one is going on."""
        if self._overdue:
            return _AT_ONCE_MS
        if self._search_ms is None:
            return None
        return min(self._search_ms, self._expiry_ms)

    def on_tick(self, now_ms: int) -> Outcome:
        """Abort one overdue transaction, or forget some ids."""
        if self._search_ms is not None and now_ms >= self._search_ms:
            self._search_ms = now_ms + self._search_interval_ms()
            wall_ms = self.services.wall_ms(now_ms)
            self._overdue = [each for each in self._open if self._is_overdue(each, wall_ms)]
        if self._overdue:
            return self._abort_overdue(self._overdue.pop(), now_ms)
        if now_ms >= self._expiry_ms:
            return self._forget(now_ms)
        return NOTHING

    def _is_overdue(self, transactional_id: str, wall_ms: int) -> bool:
        known = self._known[transactional_id]
        return wall_ms - known.started_ms >= known.timeout_ms

    def _abort_overdue(self, transactional_id: str, now_ms: int) -> Outcome:
        is_open = transactional_id in self._open
        if not is_open or not self._is_overdue(transactional_id, self.services.wall_ms(now_ms)):
            return NOTHING  # it ended since the search began
        try:
            return fence(self, self._known[transactional_id], now_ms)
        except KafkaError:  # no producer id at this moment: the next search finds it again
            return NOTHING

    def _forget(self, now_ms: int) -> Outcome:
        """Return the tombstones of ids that were not used for long. If there are more of them, the
        next tick continues."""
        limit_ms = (
            self.services.wall_ms(now_ms)
            - self.services.settings[settings.transactional_id_expiration_ms]
        )
        old = [
            each.transactional_id
            for each in self._known.values()
            if each.updated_ms <= limit_ms and each.state is not TransactionStatus.ONGOING
            if not each.is_ending
        ]
        gone = old[:FORGOTTEN_AT_ONCE]
        if len(gone) == len(old):
            self._expiry_ms = now_ms + self._expiry_interval_ms()

        def later(error: KafkaError, failed_ms: int) -> Outcome:
            self._expiry_ms = failed_ms + self._expiry_interval_ms()
            return NOTHING

        records = tuple(LogRecord(TransactionLogKey(transactional_id=each)) for each in gone)
        return Outcome(records, on_failure=later) if records else NOTHING
