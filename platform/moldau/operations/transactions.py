"""Transactions: those that are open in partitions, what coordinators know of them, and their end.

A transaction hangs in a partition if it is open there, its coordinator does not count it as open
there, and nothing was written for longer than any transaction may be open. A younger one may be on
its way: the coordinator's answer and that of the partition are not of the same moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError
from moldau.operations.hidden import check_all_ids_visible, check_all_visible, check_visible

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from moldau.client import (
        ActiveProducer,
        Admin,
        TopicPartition,
        TransactionAdmin,
        TransactionDescription,
    )

LONGEST_S: Final = 900
"""Kafka's default of transaction.max.timeout.ms: what is older, no coordinator has left open."""
STATE_TOPIC: Final = "__transaction_state"
DONE: Final = frozenset(("Empty", "CompleteCommit", "CompleteAbort"))


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in one partition."""

    where: TopicPartition
    producer: ActiveProducer
    end_offset: int
    """The high watermark of the partition."""
    holder: TransactionDescription | None
    """What the coordinator of its producer id says; None if none knows that producer id."""
    is_judged: bool = True
    """Whether each coordinator that may know it was asked. One cannot be while its partition has no
    leader. It may have decided to commit the transaction, and a marker of an abort would tear
    that."""

    @property
    def behind(self) -> int:
        """The number of offsets that readers of committed records cannot reach."""
        return max(self.end_offset - self.producer.transaction_start_offset, 0)

    def age_ms(self, now_ms: int) -> int:
        """How long ago it began, or, if no coordinator knows it, was written last."""
        began_ms = self.producer.last_timestamp_ms
        if self.is_known and self.holder is not None and self.holder.started_ms > 0:
            began_ms = self.holder.started_ms
        return max(now_ms - began_ms, 0)

    @property
    def is_known(self) -> bool:
        """Whether its coordinator counts it as open in this partition."""
        return (
            self.holder is not None
            and self.holder.state not in DONE
            and self.where in self.holder.partitions
        )

    def hangs(self, now_ms: int, longest_ms: int) -> bool:
        """Whether nothing will end it."""
        if self.is_known or not self.is_judged:
            return False
        return now_ms - self.producer.last_timestamp_ms >= longest_ms


@dataclass(frozen=True, slots=True)
class Survey:
    """The open transactions of some partitions, and the partitions that could not be asked."""

    found: Sequence[OpenTransaction]
    failed: dict[TopicPartition, KafkaError]

    def at(self, partition: int, start_offset: int) -> OpenTransaction | None:
        """Return the transaction that begins at this offset, if one topic was asked."""
        place = partition, start_offset
        for each in self.found:
            if place == (each.where.partition, each.producer.transaction_start_offset):
                return each
        return None


async def open_transactions(admin: Admin, topics: Collection[str]) -> Survey:
    """Find the open transactions of these topics, or of all topics, internal ones too. Raise
    HiddenNames if topics, or the owner of a transaction, may be hidden."""
    from moldau.client import LATEST, TransactionAdmin

    transactions = TransactionAdmin(admin)
    if not topics:
        await check_all_visible(admin)
        topics = [each.name for each in await admin.list_topics(internal=True)]
    asked = await transactions.producers(await admin.partitions(*topics) if topics else [])
    failed = {where: each for where, each in asked.items() if isinstance(each, KafkaError)}
    opened = [
        (where, producer)
        for where, producers in asked.items()
        if not isinstance(producers, KafkaError)
        for producer in producers
        if producer.transaction_start_offset >= 0
    ]
    if not opened:
        return Survey((), failed)
    holders = await _holders(transactions, {producer.producer_id for _, producer in opened})
    ends = await admin.list_offsets({where: LATEST for where, _ in opened})
    is_any_unknown = any(producer.producer_id not in holders for _, producer in opened)
    if is_any_unknown:
        await check_all_ids_visible(admin)  # the owner of a hidden one seems to be unknown
    are_all_asked = not is_any_unknown or await _are_all_led(admin)
    found = []
    for where, producer in opened:
        holder = holders.get(producer.producer_id)
        is_judged = holder is not None or are_all_asked
        found.append(OpenTransaction(where, producer, ends[where].offset, holder, is_judged))
    return Survey(sorted(found, key=lambda each: each.behind, reverse=True), failed)


async def _are_all_led(admin: Admin) -> bool:
    """Whether each partition with transactional ids has a leader, that is, a coordinator."""
    await check_visible(admin, {STATE_TOPIC: None})
    if STATE_TOPIC not in {each.name for each in await admin.list_topics(internal=True)}:
        return True
    places = await admin.partitions(STATE_TOPIC)
    return len(await admin.led_partitions(places)) == len(places)


async def _holders(
    transactions: TransactionAdmin, producer_ids: Collection[int]
) -> dict[int, TransactionDescription]:
    """Return the descriptions of the transactional ids of these producers, by producer id."""
    listed = await transactions.list_all(producer_ids=sorted(producer_ids))
    described = await transactions.describe({each.transactional_id for each in listed})
    by_id = {each.transactional_id: each.producer_id for each in listed}
    return {
        by_id[name]: each for name, each in described.items() if not isinstance(each, KafkaError)
    }


async def end(admin: Admin, chosen: OpenTransaction) -> None:
    """Write the marker of an abort into one partition. It tears a transaction that its coordinator
    has decided to commit."""
    from moldau.client import TransactionAdmin

    producer = chosen.producer
    epoch = max(producer.coordinator_epoch, 0)  # -1: no coordinator has written there yet
    await TransactionAdmin(admin).abort(chosen.where, producer.producer_id, producer.epoch, epoch)


async def abort(admin: Admin, transactional_id: str) -> None:
    """Let its coordinator abort a transaction, and fence its producer. Raise KafkaError for an
    unknown id, which the request would create."""
    from moldau.client import TransactionAdmin

    transactions = TransactionAdmin(admin)
    known = (await transactions.describe([transactional_id]))[transactional_id]
    if isinstance(known, KafkaError):
        raise known
    await transactions.fence(transactional_id)
