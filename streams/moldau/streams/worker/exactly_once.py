"""Commits as transactions: outputs, changelogs and offsets count together, or not at all (KIP-447).

The worker's transactional id is its permanent name, so a worker that starts again first ends what
its former life left open; the offsets carry its membership, so a worker that lost its partitions
cannot commit them, whatever its id.

Invariants: a transaction is open from the first record sent until the commit, or until `revert`; an
outcome that is not known is settled by a new producer of the same id before anything else is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from moldau.client import (
    AbortableTransactionError,
    Admin,
    Consumer,
    Deliveries,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    TransactionAdmin,
    TransactionError,
)
from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from moldau.runtime.timeouts import timeout
from moldau.streams.engine.batches import Outputs
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.worker.committer import (
    LOG,
    LOST,
    WITHOUT_TEXTS,
    CommitReverted,
    CommittedOffset,
    Existing,
    MembershipLost,
    RecordSender,
    TopicPartition,
)

_LOOK_S: Final = 2.0
_OFFSETS_S: Final = 10.0
"""How long the offsets of a transaction may take."""
_HOPELESS: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Errors that come again with the same records: the worker fails with them."""
_OPEN: Final = "Ongoing"
_CLOSE_S: Final = 10.0
"""How long a worker that stops waits for the end of its transaction. If no broker answers, the
coordinator aborts it in time."""


class ExactlyOnce:
    """One transactional producer for all tasks of the worker."""

    is_atomic = True

    def __init__(
        self,
        make_producer: Callable[[], Producer],
        consumer: Consumer,
        existing: Existing,
        runtime: Runtime,
        lost: Collection[ErrorCode] = LOST,
    ) -> None:
        """`existing` returns those of some topics that exist. `lost` are the errors after which the
        worker is no member of its group."""
        self._lost = lost
        self._existing = existing
        self._make_producer = make_producer
        self._consumer = consumer
        self._runtime = runtime
        self._sending = RecordSender(make_producer(), existing)
        self._are_texts_refused = False
        self._is_open = False
        self._is_broken = False
        """Whether the producer is of no more use, or the outcome of a commit is not known."""

    async def start(self) -> None:
        """Connect. What an earlier producer of the same id left open is aborted."""
        await self._sending.producer.start()

    async def aclose(self) -> None:
        """Abort what is open, and disconnect."""
        await self._sending.producer.aclose(_CLOSE_S, abort=self._is_broken)

    async def find(self, topic: str) -> None:
        """Wait until the topic exists."""
        try:
            await self._begin()
            await self._sending.find(topic)
        finally:
            await self.revert()

    async def keep(self, topic: str, key: bytes, value: bytes) -> None:
        """Write one record to partition 0 in a transaction of its own."""
        producer = self._sending.producer
        try:
            await self._begin()
            await producer.send_and_wait(topic, value, key=key, partition=0)
            await producer.commit_transaction()
            self._is_open = False
        finally:
            await self.revert()

    async def send(self, outputs: Outputs) -> None:
        """Send the outputs in the open transaction."""
        with self._reverting():
            await self._begin()
            await self._sending.send(outputs)

    async def log(self, where: TopicPartition, changes: ChangelogRecords) -> Deliveries:
        """Send changes of a store in the open transaction."""
        with self._reverting():
            await self._begin()
            return await self._sending.log(where, changes)

    async def written(
        self,
        logged: Mapping[TopicPartition, Deliveries],
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> dict[TopicPartition, int]:
        """Send the offsets, and wait until all that was sent is acknowledged. Return the ends of
        what was logged.

        Raise MembershipLost if the group has continued without this worker, CommitReverted if the
        transaction cannot be committed.
        """
        with self._reverting():
            if not offsets:
                return await self._sending.written(logged)
            await self._begin()
            name = "streams-offsets"
            sending = self._runtime.spawn(self._send_offsets(offsets), name=name, reported=False)
            try:
                ends = await self._sending.written(logged)
                await sending
            finally:
                if not sending.cancel() and not sending.cancelled():
                    sending.exception()  # it is seen, whatever else has failed
            return ends

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit the transaction with the offsets that `written` has sent. Raise CommitReverted if
        it cannot be committed, or if it is not known whether it is."""
        if not self._is_open:
            return
        with self._reverting():
            await self._sending.producer.commit_transaction()
            self._is_open = False

    async def _send_offsets(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Send offsets with the transaction. The coordinator gives no final answer for a deleted
        topic, so look whether all exist."""
        group = self._consumer.group_metadata()
        if group.generation < 0:
            # Without a generation the coordinator could not tell a zombie.
            raise MembershipLost("the worker is no member of its group")
        texts, topics = self._texts(offsets), {where.topic for where in offsets}
        waited_s = 0.0
        while waited_s < _OFFSETS_S:
            try:
                async with timeout(_LOOK_S):
                    await self._sending.producer.send_offsets(texts, group)
                    return
            except TimeoutError:
                waited_s += _LOOK_S
            gone = topics - (await self._existing(topics)).keys()
            if gone:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=sorted(gone)[0])
        self._is_broken = True
        raise CommitReverted(f"the group's coordinator took no offsets for {_OFFSETS_S:g} s")

    def _texts(
        self, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, int | OffsetAndMetadata]:
        return {
            where: OffsetAndMetadata(each.offset, "" if self._are_texts_refused else each.metadata)
            for where, each in offsets.items()
        }

    async def revert(self) -> None:
        """Abort the open transaction. A producer that is of no more use is replaced, which also
        ends a transaction whose outcome was not known."""
        if self._is_open and not self._is_broken:
            try:
                await self._sending.producer.abort_transaction()
            except TransactionError as error:
                LOG.warning("streams: the transaction cannot be aborted: %s", error)
                self._is_broken = True
        if self._is_broken:
            await self._sending.producer.aclose(abort=True)
            self._sending = RecordSender(self._make_producer(), self._existing)
            await self._sending.producer.start()
        self._is_open = self._is_broken = False

    async def _begin(self) -> None:
        if not self._is_open:
            await self._sending.producer.begin_transaction()
            self._is_open = True

    @contextmanager
    def _reverting(self) -> Iterator[None]:
        """Turn errors that another attempt may not have into CommitReverted or MembershipLost."""
        try:
            yield
        except KafkaError as error:
            is_of_transaction = isinstance(error, TransactionError)
            if is_of_transaction and not isinstance(error, AbortableTransactionError):
                self._is_broken = True
            if error.code in _HOPELESS:
                raise
            if error.code in self._lost:
                raise MembershipLost(str(error)) from error
            if error.code is ErrorCode.OFFSET_METADATA_TOO_LARGE and not self._are_texts_refused:
                self._are_texts_refused = True
                LOG.warning("streams: %s: %s", error, WITHOUT_TEXTS)
            raise CommitReverted(str(error)) from error


async def end_abandoned(
    admin: Admin, app: str, own_id: str, changelogs: Collection[TopicPartition]
) -> list[str]:
    """Abort what workers of the app that are gone have left open in the changelogs of their tasks,
    and return their transactional ids. `own_id` is that of this worker, which takes the tasks over.

    Without that it would wait until the brokers abort them, after `transaction.timeout.ms`: nothing
    behind an open transaction can be read. Only a transaction is ended that could not be committed
    any more: it is open (not about to commit), and is of a changelog that the group has given to
    this worker, so the group refuses the offsets of the other one. If that one lives, as after a
    pause, it begins again from its last commit with a new producer.
    """
    transactions = TransactionAdmin(admin)
    producers = await transactions.producers(changelogs)
    ids = {
        each.producer_id
        for found in producers.values()
        if not isinstance(found, KafkaError)
        for each in found
        if each.transaction_start_offset >= 0
    }
    if not ids:
        return []
    listed = await transactions.list_all(states=[_OPEN], producer_ids=ids)
    names = [
        each.transactional_id
        for each in listed
        if each.transactional_id.startswith(f"{app}-") and each.transactional_id != own_id
    ]
    described = await transactions.describe(names) if names else {}
    ended = []
    for name, each in described.items():
        if isinstance(each, KafkaError) or each.state != _OPEN:
            continue
        if not set(each.partitions).isdisjoint(changelogs):
            LOG.info("streams: worker %s is gone: its open transaction is aborted", name)
            await transactions.fence(name)
            ended.append(name)
    return ended
