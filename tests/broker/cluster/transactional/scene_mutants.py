"""Bugs of transactions in the history of Kafka and of Redpanda, planted one by one; each with the
scene that provokes it and the promises that must break.

Each is a context in which all brokers have the bug. What is patched is told by its name, so a part
that is renamed fails here and not silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from moldau.broker.api import produced_batches, write_txn_markers
from moldau.broker.coordinator.group import transactional_commits
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.running_shard import RunningShard
from moldau.broker.coordinator.transaction import ending, membership, producers, transactions
from moldau.broker.coordinator.transaction.state import EPOCH_MAX, Transaction, TransactionStatus
from moldau.broker.log import compaction_choice, reading
from moldau.broker.log.compaction_filter import BatchFilter, Round
from moldau.broker.log.producer_state import ProducerAppend, ProducerStateEntry
from moldau.broker.log.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
    collect_aborted,
)
from moldau.broker.network import Request
from moldau.broker.server.markers import _Ending
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import Batch
from tests.broker.cluster.transactional.ledger import Promise
from tests.broker.cluster.transactional.scenes import SCENES
from tests.broker.simulation.search import Hunt, Mutant


@contextmanager
def takes_markers_of_the_open_epoch() -> Iterator[None]:
    """KAFKA-19999: a marker of the epoch in which the producer has a transaction open ends it."""
    check = ProducerAppend._check_epoch

    def lenient(
        self: ProducerAppend,
        entry: ProducerStateEntry,
        header: Any,
        offset: int,
        transaction_version: int,
    ) -> None:
        check(self, entry, header, offset, min(transaction_version, 1))

    with patch.object(ProducerAppend, "_check_epoch", lenient):
        yield


@contextmanager
def refuses_markers_of_known_epochs() -> Iterator[None]:
    """KAFKA-19999: a marker must have a higher epoch, also where no transaction is open, and its
    coordinator takes the refusal for one that passes."""
    check, take = ProducerAppend._check_epoch, _Ending.take

    def strict(
        self: ProducerAppend,
        entry: ProducerStateEntry,
        header: Any,
        offset: int,
        transaction_version: int,
    ) -> None:
        if header.is_control and transaction_version >= 2 and header.producer_epoch <= entry.epoch:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        check(self, entry, header, offset, transaction_version)

    def repeat(self: _Ending, partition: Any, code: ErrorCode) -> None:
        is_old = code is ErrorCode.INVALID_PRODUCER_EPOCH
        take(self, partition, ErrorCode.UNKNOWN_SERVER_ERROR if is_old else code)

    with (
        patch.object(ProducerAppend, "_check_epoch", strict),
        patch.object(write_txn_markers, "_has_open", lambda *_: True),
        patch.object(_Ending, "take", repeat),
    ):
        yield


@contextmanager
def bumps_twice() -> Iterator[None]:
    """KAFKA-19367: the abort by InitProducerId bumps the epoch, and so does the end itself."""
    fence = ending.fence

    def twice(shard: Any, known: Transaction, now_ms: int) -> Any:
        epoch = min(known.producer_epoch + 1, EPOCH_MAX)
        return fence(shard, replace(known, producer_epoch=epoch), now_ms)

    with patch.object(producers, "fence", twice), patch.object(transactions, "fence", twice):
        yield


@contextmanager
def refuses_empty_aborts() -> Iterator[None]:
    """KAFKA-18401: a transaction of version 2 without any partition cannot be ended."""
    end = ending._end_bumped

    def refuse(shard: Any, known: Transaction, is_commit: bool, is_retry: bool, asked: Any) -> Any:
        if known.state is not TransactionStatus.ONGOING and not is_retry:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        return end(shard, known, is_commit, is_retry, asked)

    with patch.object(ending, "_end_bumped", refuse):
        yield


@contextmanager
def keeps_one_marker() -> Iterator[None]:
    """Redpanda PR 16295: markers are records with one key, and only the newest of them stays."""
    filter_control = BatchFilter._filter_control

    def drop(self: BatchFilter, batch: Batch, keep_empty: bool) -> Any:
        kept = filter_control(self, batch, keep_empty)
        is_newest = batch.header.next_offset >= self._round.latest_offset
        return kept if is_newest else self._without_records(batch, keep_empty)

    with patch.object(BatchFilter, "_filter_control", drop):
        yield


def removes_markers_while_replicas_are_away() -> AbstractContextManager[object]:
    """As in Kafka: markers go after `delete.retention.ms`, also those that a replica lacks."""
    return patch.object(
        Round,
        "is_over",
        lambda self, horizon_ms: horizon_ms is not None and horizon_ms <= self.now_ms,
    )


def clips_abort_ranges() -> AbstractContextManager[object]:
    """Redpanda PR 7081: a fetch is told of the transactions that begin in what it gets."""

    def collect(
        indexes: Iterable[TransactionIndex], fetch_offset: int, upper_bound: int
    ) -> list[AbortedTransaction]:
        found = collect_aborted(indexes, fetch_offset, upper_bound)
        return [each for each in found if each.first_offset >= fetch_offset]

    return patch.object(reading, "collect_aborted", collect)


@contextmanager
def cleans_open_transactions() -> Iterator[None]:
    """Redpanda PR 19931 and 24637: compaction goes on behind the last stable offset."""
    first_uncleanable = compaction_choice._first_uncleanable

    def beyond(segments: Any, first_dirty: int, ends: Any, policy: Any, now_ms: int) -> int:
        ends = replace(ends, last_stable_offset=ends.log_end_offset)
        return first_uncleanable(segments, first_dirty, ends, policy, now_ms)

    with patch.object(compaction_choice, "_first_uncleanable", beyond):
        yield


@contextmanager
def loads_no_pending_offsets() -> Iterator[None]:
    """Redpanda issue 31483: the offsets of open transactions are not what the log says of them."""
    replay_log = RunningShard._replay_log

    async def without(self: RunningShard[Any]) -> int:
        end = await replay_log(self)
        if isinstance(self.shard, Groups):
            self.shard.offsets._pending.clear()
        return end

    with patch.object(RunningShard, "_replay_log", without):
        yield


@contextmanager
def trusts_the_id_alone() -> Iterator[None]:
    """Redpanda PR 24852: what a forgotten producer sends joins its transaction by the id, whatever
    its epoch."""
    of_producer = membership._of_producer

    def lenient(shard: Any, joining: membership.JoiningPartitions) -> Transaction:
        known = shard.existing(joining.transactional_id)
        producer = joining.producer._replace(epoch=known.producer_epoch)
        return of_producer(shard, joining._replace(producer=producer))

    with patch.object(membership, "_of_producer", lenient):
        yield


def takes_what_its_coordinator_refuses() -> AbstractContextManager[object]:
    """KIP-890: the coordinator's answer is not waited for, so a late request opens a transaction
    that nothing ends."""
    return patch.object(produced_batches, "check_transaction", lambda *_: None)


@contextmanager
def keeps_the_epoch() -> Iterator[None]:
    """KIP-890: the end of a transaction does not bump the epoch, so a late request is one of the
    next."""
    prepare = ending.prepare

    def unbumped(*given: Any, is_commit: bool, bumps: bool = False) -> Any:
        return prepare(*given, is_commit=is_commit)

    with patch.object(ending, "prepare", unbumped):
        yield


@contextmanager
def continues_whoever_asks() -> Iterator[None]:
    """KIP-360: the producer with which an instance continues is not compared with the newest."""
    renewed = producers._renewed

    def lenient(shard: Any, known: Transaction, _: object, timeout_ms: int, now_ms: int) -> Any:
        return renewed(shard, known, None, timeout_ms, now_ms)

    with ExitStack() as planted:
        planted.enter_context(patch.object(producers, "_may_be_of", lambda *_: True))
        planted.enter_context(patch.object(producers, "_check_current", lambda *_: None))
        planted.enter_context(patch.object(producers, "_renewed", lenient))
        yield


def commits_for_anyone() -> AbstractContextManager[object]:
    """KIP-447: TxnOffsetCommit does not look at the member and its generation."""
    return patch.object(transactional_commits, "_check", lambda *_: None)


@contextmanager
def forgets_by_the_time_of_records() -> Iterator[None]:
    """KAFKA-9144: a marker does not count as a sign of life of its producer."""
    with_marker = ProducerAppend._with_marker

    def silent(
        self: ProducerAppend,
        entry: ProducerStateEntry,
        batch: Batch,
        offset: int,
        timestamp: int | None,
    ) -> ProducerStateEntry:
        found = with_marker(self, entry, batch, offset, timestamp)
        return found._replace(last_timestamp=entry.last_timestamp)

    with patch.object(ProducerAppend, "_with_marker", silent):
        yield


def lets_requests_overtake() -> AbstractContextManager[object]:
    """A batch that waits for the coordinator of its transaction lets the next one be appended."""
    return patch.object(Request, "hold_order", lambda self: None)


def fences_while_markers_are_written() -> AbstractContextManager[object]:
    """KAFKA-18575: a client's next producer is judged by the one before, which is known as long as
    markers are being written."""

    def check(self: Transaction) -> None:
        if self.is_ending:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)

    return patch.object(Transaction, "check_settled", check)


def _hunt(name: str, *promises: str) -> Hunt:
    return Hunt(range(1, 3), promises, SCENES[name])


LATE = "a_request_arrives_in_the_next_transaction"
PIPELINED = "pipelined_transactions_follow_each_other"

SCENE_MUTANTS: dict[Mutant, Hunt] = {
    takes_markers_of_the_open_epoch: _hunt("a_marker_arrives_again", Promise.COMMITTED_KEPT),
    refuses_markers_of_known_epochs: _hunt(
        "a_coordinator_dies_before_it_knows_of_a_marker", Promise.WRITERS_GO_ON, Promise.STABLE_ENDS
    ),
    bumps_twice: _hunt(
        "a_second_instance_aborts_the_transaction_of_the_first", Promise.BUMPED_ONCE
    ),
    lets_requests_overtake: _hunt(PIPELINED, Promise.NO_FATAL_ERROR),
    fences_while_markers_are_written: _hunt(PIPELINED, Promise.WRITERS_GO_ON),
    refuses_empty_aborts: _hunt("transactions_stay_empty", Promise.EMPTY_ENDS),
    keeps_one_marker: _hunt("a_replica_misses_a_marker", Promise.NO_ABORTED_READ),
    removes_markers_while_replicas_are_away: _hunt(
        "a_replica_misses_a_marker_that_is_due", Promise.NO_ABORTED_READ
    ),
    clips_abort_ranges: _hunt("a_reader_begins_in_an_aborted_transaction", Promise.NO_ABORTED_READ),
    cleans_open_transactions: _hunt(
        "a_log_of_offsets_is_cleaned_under_an_open_transaction", Promise.OFFSET_OF_COMMITTED
    ),
    loads_no_pending_offsets: _hunt(
        "a_coordinator_of_offsets_starts_again", Promise.OFFSET_OF_COMMITTED
    ),
    trusts_the_id_alone: _hunt(
        "a_request_arrives_after_its_producer_was_forgotten", Promise.MARKER_FENCES
    ),
    takes_what_its_coordinator_refuses: _hunt(LATE, Promise.STABLE_ENDS),
    keeps_the_epoch: _hunt(LATE, Promise.NO_ABORTED_READ),
    continues_whoever_asks: _hunt(
        "an_instance_continues_after_it_was_replaced", Promise.ZOMBIE_FENCED
    ),
    commits_for_anyone: _hunt(
        "a_member_commits_after_it_was_replaced", Promise.OFFSET_OF_COMMITTED
    ),
    forgets_by_the_time_of_records: _hunt("a_partition_counts_its_markers", Promise.MARKER_FENCES),
}
"""One seed does; the second is there because a world has its own timing."""
