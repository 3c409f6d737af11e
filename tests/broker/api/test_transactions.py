"""Transactions over the wire of one node: clients of both versions, their offsets, late requests,
restarts of the coordinator, and bad input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moldau.broker.coordinator.kind import KeyType
from moldau.broker.coordinator.transaction.producers import Producer
from moldau.broker.replication.partition import Leadership
from moldau.broker.replication.topic_config import topic_config
from moldau.errors import BadData
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages import describe_transactions as describing
from moldau.protocol.messages import list_transactions as listing
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.produce import ProduceResponse
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
)
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.protocol.schemas.metadata_log import RemoveTopicRecord
from tests.broker.api.requests import produce_all
from tests.broker.api.serving import Sent, Serving, serving
from tests.broker.api.transactional_client import (
    ID,
    IDS_IN_A_BLOCK,
    NEW,
    OFFSETS,
    OLD,
    STATE,
    Client,
    begin,
    committed,
    kinds,
    load,
    stable,
)

BOTH = pytest.mark.parametrize("version", [OLD, NEW])


@BOTH
def test_a_transaction_is_read_when_it_has_ended(version: int) -> None:
    @serving()
    async def scenario(at: Serving) -> None:
        client = await begin(at, version)
        for commit in (True, False, True):
            end = stable(at)[0][1]
            assert set((await client.send(("t", 0), ("t", 1))).values()) == {0}
            assert stable(at) == [(end, end + 2)] * 2
            assert await client.end(commit=commit) == 0
            assert stable(at) == [(end + 3, end + 3)] * 2
        epochs = [1, 2, 3] if version == NEW else [0, 0, 0]
        assert kinds(at) == [part for each in epochs for part in ("2", f"marker {each}")]
        log = at.partition("t").log
        aborted = log.reading.aborted_transactions(0, log.read(0, 1 << 20))
        assert [each[:3] for each in aborted] == [(client.producer.id, 3, 5)]

    scenario()


@BOTH
def test_offsets_are_committed_with_the_transaction(version: int) -> None:
    @serving()
    async def scenario(at: Serving) -> None:
        client = await begin(at, version)
        expected = -1
        for offset, commit in ((5, True), (9, False), (7, True)):
            assert await client.commit_offset(offset) == 0
            assert await committed(at) == (expected, 0)
            assert (await committed(at, stable=True))[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert await client.end(commit=commit) == 0
            expected = offset if commit else expected
            assert await committed(at, stable=True) == (expected, 0)
        await load(at, 1)
        assert await committed(at, stable=True) == (7, 0)

    scenario()


@serving()
async def test_a_late_request_reaches_no_later_transaction(at: Serving) -> None:
    """Version 2: its epoch is of the transaction that it was sent for (KIP-890)."""
    client = await begin(at)
    late = Client(at)
    late.become(client.producer)
    assert await client.send(("t", 0)) == {("t", 0): 0}
    assert await client.end(commit=True) == 0
    assert await client.send(("t", 0)) == {("t", 0): 0}
    before = stable(at)
    refused = await late.produce({("t", 0): late.batch(("t", 0)), ("t", 1): late.batch(("t", 1))})
    assert set(refused.values()) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert await late.commit_offset(3) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await late.end(commit=False) == ErrorCode.PRODUCER_FENCED
    assert stable(at) == before
    assert await client.end(commit=True) == 0


@BOTH
def test_records_outside_of_the_transaction_are_refused(version: int) -> None:
    """An older client that has not added the partition; any client that has no transaction."""

    @serving()
    async def scenario(at: Serving) -> None:
        client = await begin(at, version)
        if version == OLD:
            code = ErrorCode.TRANSACTION_ABORTABLE
            assert await client.produce({("t", 0): client.batch(("t", 0))}) == {("t", 0): code}
            client.version = 10
            code = ErrorCode.INVALID_TXN_STATE
            assert await client.produce({("t", 0): client.batch(("t", 0))}) == {("t", 0): code}
            client.version = OLD
        wrong = Client(at, version)
        wrong.become(Producer(4711, 0))
        code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await wrong.produce({("t", 1): wrong.batch(("t", 1))}) == {("t", 1): code}
        assert stable(at) == [(0, 0), (0, 0)]

    scenario()


@serving(transaction__partition__verification__enable="false")
async def test_verification_can_be_switched_off_for_older_clients(at: Serving) -> None:
    client = await begin(at, OLD)
    assert await client.produce({("t", 0): client.batch(("t", 0))}) == {("t", 0): 0}


@BOTH
def test_a_coordinator_that_begins_again_ends_what_was_decided(version: int) -> None:
    @serving()
    async def scenario(at: Serving) -> None:
        client = await begin(at, version)
        await client.send(("t", 0), ("t", 1))
        await load(at, 1)
        assert stable(at) == [(0, 2)] * 2
        assert set((await client.send(("t", 0))).values()) == {0}
        # One partition cannot be written to when the transaction ends.
        partition = at.partition("t", 1)
        epoch = partition.leader_epoch
        at.replicas.resign("t", 1, partition.topic_id, epoch)
        assert await client.end(commit=True) == 0
        await at.pass_ms(1000)
        assert await described(at) == "PrepareCommit"
        await load(at, 2)
        at.lead("t", 1)
        await at.pass_ms(1000)
        assert await described(at) == "CompleteCommit"
        assert stable(at)[1] == (3, 3)

    scenario()


async def described(at: Serving, name: str = ID) -> str:
    request = describing.DescribeTransactionsRequest(transactional_ids=[name])
    answer = await at.ask(request, describing.DescribeTransactionsResponse)
    (state,) = answer.transaction_states
    return state.transaction_state if not state.error_code else ErrorCode(state.error_code).name


@serving()
async def test_a_deleted_topic_holds_no_transaction_open(at: Serving) -> None:
    client = await begin(at)
    at.create("gone")
    await client.send(("t", 0), ("gone", 0))
    assert await described(at) == "Ongoing"
    at.replicas.remove("gone", 0)
    made = at.node.image.topics.by_name("gone")
    assert made is not None
    at.cluster.append([RemoveTopicRecord(topic_id=made.topic_id)])
    assert await client.end(commit=True) == 0
    await at.pass_ms(500)
    assert await described(at) == "CompleteCommit"


@BOTH
def test_a_topic_made_again_with_fewer_partitions_holds_no_transaction_open(version: int) -> None:
    @serving()
    async def scenario(at: Serving) -> None:
        client = await begin(at, version)
        at.create("again", 3)
        await client.send(("t", 0), ("again", 2))
        made = at.node.image.topics.by_name("again")
        assert made is not None
        for index in range(3):
            at.replicas.remove("again", index)
        at.cluster.append([RemoveTopicRecord(topic_id=made.topic_id)])
        at.create("again", 1)
        assert await client.end(commit=True) == 0
        await at.pass_ms(500)
        assert await described(at) == "CompleteCommit"

    scenario()


@serving()
async def test_a_completion_that_the_log_refuses_is_reported_again(at: Serving) -> None:
    client = await begin(at)
    await client.send(("t", 0), ("t", 1))
    partition = at.partition("t", 1)
    at.replicas.resign("t", 1, partition.topic_id, partition.leader_epoch)
    assert await client.end(commit=True) == 0
    lack_replicas(at, STATE)
    at.lead("t", 1)
    await at.pass_ms(2000)
    assert stable(at)[1] == (3, 3)
    assert await described(at) == "PrepareCommit"
    at.lead(STATE)
    await at.pass_ms(3000)
    assert await described(at) == "CompleteCommit"
    assert set((await client.send(("t", 1))).values()) == {0}


@serving()
async def test_a_marker_that_cannot_be_written_holds_no_other_back(at: Serving) -> None:
    client = await begin(at)
    await client.send(("t", 0))
    assert await client.commit_offset(5) == 0
    ((_, groups),) = at.node.groups.loaded()
    failures: list[int] = []

    def fails(producer_id: int, *, is_commit: bool) -> None:
        failures.append(producer_id)
        raise BadData("a record that cannot be read")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(groups, "replay_end", fails)
        assert await client.end(commit=True) == 0
    assert len(failures) == 1
    assert stable(at)[0] == (3, 3)
    assert await described(at) == "PrepareCommit"
    await at.pass_ms(500)
    assert await described(at) == "CompleteCommit"
    assert await committed(at, stable=True) == (5, 0)


@serving()
async def test_only_a_new_producer_waits_for_an_id(at: Serving) -> None:
    client = await begin(at)
    at.channel.is_slow = True
    taken: list[object] = []
    while len(taken) < IDS_IN_A_BLOCK - 1:
        at.node.producer_ids.take(taken.append)
    assert await client.init() == 0
    assert client.producer.epoch == 1
    other = InitProducerIdRequest(transactional_id="other", transaction_timeout_ms=60_000)
    sent = at.send(other, 5)
    assert not sent.answers
    at.channel.answer_late()
    (answer,) = sent.answers
    assert isinstance(answer, InitProducerIdResponse)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert answer.producer_id == IDS_IN_A_BLOCK, "the first of the block, none is passed over"


def lack_replicas(at: Serving, name: str, isr: tuple[int, ...] = (1,)) -> None:
    """Until `at.lead(name)`, a partition refuses to be written to by its coordinator. If node 2 is
    in sync, it is written to, but nothing is committed."""
    known = at.partition(name)
    leadership = Leadership(name, 0, known.topic_id, known.leader_epoch, isr, (1, 2))
    config = topic_config(at.node.topic_settings(name))
    at.replicas.lead(leadership, replace(config, min_insync_replicas=2))


@BOTH
def test_a_marker_that_overtakes_a_confirmation_ends_no_later_commit(version: int) -> None:
    """Otherwise the offsets would open a transaction that no marker ends."""

    @serving()
    async def scenario(at: Serving) -> None:
        client = await begin(at, version)
        assert await client.commit_offset(5) == 0
        assert await client.end(commit=True) == 0
        if version == OLD:
            assert await client.commit_offset(6) == 0
            assert await mark(at, *client.producer, topic=OFFSETS, version=0) == 0
        lack_replicas(at, STATE, (1, 2))
        other = InitProducerIdRequest(transactional_id="other", transaction_timeout_ms=60_000)
        at.send(other, 5)
        sent = at.send(client.offsets(7), 5 if version == NEW else 3)
        assert not sent.answers
        assert await mark(at, *client.producer, topic=OFFSETS, version=0) == 0
        at.lead(STATE)
        await sent.answered.wait()
        (answer,) = sent.answers
        assert isinstance(answer, TxnOffsetCommitResponse)
        code = answer.topics[0].partitions[0].error_code
        again = ErrorCode.CONCURRENT_TRANSACTIONS
        assert code == (again if version == NEW else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        log = at.partition(OFFSETS)
        assert log.last_stable_offset == log.log_end_offset

    scenario()


@serving()
async def test_partitions_of_a_topic_that_the_coordinator_does_not_know_wait(at: Serving) -> None:
    """Its metadata may be behind that of the broker that asks for them."""
    client = await begin(at)

    async def codes(index: int = 0) -> set[int]:
        asked = AddPartitionsToTxnTransaction(
            transactional_id=ID,
            producer_id=client.producer.id,
            producer_epoch=client.producer.epoch,
            topics=[
                AddPartitionsToTxnTopic(name="t", partitions=[0]),
                AddPartitionsToTxnTopic(name="new", partitions=[index]),
            ],
        )
        request = AddPartitionsToTxnRequest(transactions=[asked])
        answer = await at.ask(request, AddPartitionsToTxnResponse, 5)
        (result,) = answer.results_by_transaction
        rows = [row for each in result.topic_results for row in each.results_by_partition]
        return {row.partition_error_code for row in rows}

    wait = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert await codes() == wait
    at.create("new")
    assert await codes(index=1) == wait, "the topic has fewer partitions, as far as is known"
    assert await described(at) == "Empty"
    assert await codes() == {0}


@BOTH
def test_adding_no_partitions_begins_no_transaction(version: int) -> None:
    @serving()
    async def scenario(at: Serving) -> None:
        client = await begin(at, version)
        assert await client.add() == set()
        assert await described(at) == "Empty"
        assert set((await client.send(("t", 0))).values()) == {0}
        assert await client.add() == set()
        assert await client.end(commit=True) == 0
        assert await described(at) == "CompleteCommit"

    scenario()


@serving()
async def test_an_overdue_transaction_is_aborted(at: Serving) -> None:
    client = await begin(at)
    await client.send(("t", 0))
    await at.pass_ms(59_000)
    assert await described(at) == "Ongoing"
    await at.pass_ms(12_000)
    assert await described(at) == "CompleteAbort"
    assert stable(at)[0] == (3, 3)
    assert await client.end(commit=True) == ErrorCode.INVALID_TXN_STATE
    refused = await client.produce({("t", 0): client.batch(("t", 0))})
    assert set(refused.values()) == {ErrorCode.INVALID_PRODUCER_EPOCH}


@serving()
async def test_a_marker_for_an_older_epoch_harms_no_newer_transaction(at: Serving) -> None:
    """KAFKA-19999: refused where a transaction is open, and harmless where none is."""
    client = await begin(at)
    await client.send(("t", 0))
    await client.end(commit=True)
    await client.send(("t", 0))
    for epoch in (client.producer.epoch - 1, client.producer.epoch):
        assert await mark(at, client.producer.id, epoch) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert stable(at)[0] == (3, 5)
    await client.end(commit=True)
    for epoch in (client.producer.epoch - 1, 0):
        assert await mark(at, client.producer.id, epoch) == 0
    assert stable(at)[0] == (6, 6), "nothing to write"
    assert await mark(at, client.producer.id, client.producer.epoch) == 0
    assert stable(at)[0] == (7, 7)
    assert await client.send(("t", 0)) == {("t", 0): 0}


async def mark(
    at: Serving,
    producer_id: int,
    epoch: int,
    index: int = 0,
    topic: str = "t",
    version: int = 2,
) -> int:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        coordinator_epoch=0,
        transaction_version=version,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    answer = await at.ask(request, WriteTxnMarkersResponse, 2)
    ((row,),) = [topic.partitions for each in answer.markers for topic in each.topics]
    return row.error_code


@serving()
async def test_markers_for_what_is_not_here_are_refused(at: Serving) -> None:
    await begin(at)
    assert await mark(at, 1, 1, 7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await mark(at, 1, 1, topic="nope") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    at.node.groups.resign(0)
    assert await mark(at, 1, 1, topic=OFFSETS) == ErrorCode.NOT_COORDINATOR
    none = WriteTxnMarkersRequest(markers=[])
    assert (await at.ask(none, WriteTxnMarkersResponse, 2)).markers == []


@serving()
async def test_brokers_add_and_verify_partitions_of_many_transactions(at: Serving) -> None:
    client = await begin(at)
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0, 1])]

    def asked(name: str, *, verify: bool) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=client.producer.id,
            producer_epoch=client.producer.epoch,
            verify_only=verify,
            topics=topics,
        )

    seen = []
    for verify in (True, False, True):
        request = AddPartitionsToTxnRequest(
            transactions=[asked(ID, verify=verify), asked("none", verify=verify)]
        )
        answer = await at.ask(request, AddPartitionsToTxnResponse, 5)
        seen.append(
            [
                {row.partition_error_code for row in topic.results_by_partition}
                for each in answer.results_by_transaction
                for topic in each.topic_results
            ]
        )
    unknown = {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert seen == [
        [{ErrorCode.TRANSACTION_ABORTABLE}, unknown],
        [{0}, unknown],
        [{0}, unknown],
    ]


@serving()
async def test_bad_input_changes_nothing(at: Serving) -> None:
    client = await begin(at, OLD)
    rest = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED}
    assert await client.add(("t", 0), ("nope", 0)) == rest
    known = client.producer
    for wrong, code in (
        (Producer(known.id + 1, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (Producer(known.id, 5), ErrorCode.PRODUCER_FENCED),
    ):
        client.become(wrong)
        assert await client.add(("t", 0)) == {code}
        assert await client.end(commit=True) == code
        assert await client.commit_offset(1) == code
    client.become(known)
    assert await client.end(commit=True) == ErrorCode.INVALID_TXN_STATE
    assert await client.commit_offset(1, generation=3, member="m") == ErrorCode.ILLEGAL_GENERATION
    assert await described(at, "nope") == "TRANSACTIONAL_ID_NOT_FOUND"
    assert await described(at, "") == "INVALID_REQUEST"
    assert await client.init(producer=Producer(known.id, 9)) == ErrorCode.PRODUCER_FENCED
    at.node.coordinators.of(KeyType.TRANSACTION).resign(0)
    assert await client.end(commit=True) == ErrorCode.NOT_COORDINATOR
    assert await client.init() == ErrorCode.NOT_COORDINATOR


@serving()
async def test_a_fenced_producer_of_an_old_client_hears_a_code_that_it_knows(at: Serving) -> None:
    client = await begin(at)
    request = EndTxnRequest(
        transactional_id=ID, producer_id=client.producer.id, producer_epoch=9, committed=True
    )
    codes = [(await at.ask(request, EndTxnResponse, version)).error_code for version in range(6)]
    old, new = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED
    assert codes == [old, old, new, new, new, new]


@serving()
async def test_transactions_are_listed_by_state_producer_age_and_name(at: Serving) -> None:
    client = await begin(at)
    await client.send(("t", 0))
    await at.pass_ms(500)

    async def found(version: int = 2, **filters: Any) -> list[str]:
        fields: dict[str, Any] = {"state_filters": [], "producer_id_filters": [], **filters}
        answer = await at.ask(
            listing.ListTransactionsRequest(**fields), listing.ListTransactionsResponse, version
        )
        if answer.error_code:
            return [ErrorCode(answer.error_code).name]
        return [each.transactional_id for each in answer.transaction_states] + [
            f"? {each}" for each in answer.unknown_state_filters
        ]

    assert await found(0) == [ID]
    assert await found(state_filters=["Ongoing"]) == [ID]
    assert await found(state_filters=["Empty"]) == []
    assert await found(state_filters=["Odd"]) == ["? Odd"]
    assert await found(producer_id_filters=[client.producer.id + 1]) == []
    assert await found(duration_filter=100) == [ID]
    assert await found(duration_filter=10_000) == []
    assert await found(transactional_id_pattern="a.*") == [ID]
    assert await found(transactional_id_pattern="b.*") == []
    for refused in ("(", "a(?=p)", r"(a)\1"):
        assert await found(transactional_id_pattern=refused) == ["INVALID_REGULAR_EXPRESSION"]


@serving()
async def test_no_pattern_of_a_client_holds_the_broker_up(at: Serving) -> None:
    """The id takes a backtracking engine 2 ** 40 steps."""
    await begin(at)
    name = "a" * 40
    made = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    assert not (await at.ask(made, InitProducerIdResponse, 5)).error_code
    request = listing.ListTransactionsRequest(
        state_filters=[], producer_id_filters=[], transactional_id_pattern="(a+)+b"
    )
    answer = await at.ask(request, listing.ListTransactionsResponse)
    assert (answer.error_code, answer.transaction_states) == (0, [])


@serving()
async def test_the_next_transaction_begins_while_the_last_one_ends(at: Serving) -> None:
    """The broker asks its coordinator again for a moment, so that the client need not."""
    client = await begin(at)
    await client.send(("t", 0), ("t", 1))
    partition = at.partition("t", 1)
    at.replicas.resign("t", 1, partition.topic_id, partition.leader_epoch)
    assert await client.end(commit=True) == 0
    sent = at.send(
        produce_all({("t", 0): client.batch(("t", 0))}, transactional_id=ID, acks=-1), NEW
    )
    sent.overwrite()
    await at.pass_ms(50)
    assert not sent.answers
    await at.pass_ms(100)
    assert _codes(sent) == {ErrorCode.CONCURRENT_TRANSACTIONS}
    client.sequences.clear()
    at.lead("t", 1)
    await at.pass_ms(100)
    sent = at.send(
        produce_all({("t", 0): client.batch(("t", 0))}, transactional_id=ID, acks=-1), NEW
    )
    sent.overwrite()
    await sent.answered.wait()
    assert _codes(sent) == {0}, "taken from a copy of the request"
    assert kinds(at)[-1] == "1"


@serving()
async def test_the_second_of_two_requests_is_not_taken_first(at: Serving) -> None:
    """The first one may still wait for the end of the transaction before."""
    client = await begin(at)
    place = ("t", 0)
    first, second = client.batch(place), client.batch(place)
    refused = await client.produce({place: second})
    assert refused == {place: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
    for each in (first, second):
        assert await client.produce({place: each}) == {place: 0}
    assert await client.end(commit=True) == 0
    assert kinds(at) == ["1", "1", "marker 1"]


@serving()
async def test_a_batch_behind_a_refused_one_of_an_older_client_is_not_taken_first(
    at: Serving,
) -> None:
    """Its sequences go on through transactions, so any may be the first in a partition."""
    client = await begin(at, OLD)
    place = ("t", 0)
    client.sequences[place] = 7
    assert await client.add(place) == {0}
    first, second, third = (client.batch(place) for _ in range(3))
    at.node.coordinators.of(KeyType.TRANSACTION).resign(0)
    for each in (second, first):
        assert await client.produce({place: each}) == {place: ErrorCode.NOT_ENOUGH_REPLICAS}
    await load(at, 1)
    for each in (third, second):
        out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await client.produce({place: each}) == {place: out_of_order}
    for each in (first, second, third):
        assert await client.produce({place: each}) == {place: 0}
    assert await client.end(commit=True) == 0


def _codes(sent: Sent) -> set[int]:
    (answer,) = sent.answers
    assert isinstance(answer, ProduceResponse)
    return {row.error_code for topic in answer.responses for row in topic.partition_responses}
