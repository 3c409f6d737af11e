"""Transactions: InitProducerId with an id, partitions, offsets, ends, markers, and their tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages import describe_transactions as describing
from moldau.protocol.messages import list_transactions as listing
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from moldau.records import Producer
from tests.broker.api.requests import produce_all
from tests.differential.group_requests import coordinated
from tests.differential.requests import batch
from tests.differential.talk import Talk, versions

_BROKERS_SINCE = 4
_BUMPS_SINCE = 5
_DONE_STATES = ("CompleteCommit", "CompleteAbort")


def init(name: str, producer: tuple[int, int] = (-1, -1), **more: Any) -> InitProducerIdRequest:
    fields: dict[str, Any] = {"transaction_timeout_ms": 60_000, **more}
    return InitProducerIdRequest(
        transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], **fields
    )


def add(name: str, producer: tuple[int, int], *places: tuple[str, int]) -> Callable[[int], Any]:
    topics = [AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in places]

    def request(version: int) -> AddPartitionsToTxnRequest:
        if version >= _BROKERS_SINCE:
            return broker_adds(name, producer, *places)
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics,
        )

    return request


def broker_adds(
    name: str, producer: tuple[int, int], *places: tuple[str, int], verify: bool = False
) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in places]
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify,
        topics=topics,
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def add_offsets(name: str, producer: tuple[int, int], group: str = "g") -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], group_id=group
    )


def commit_offset(
    name: str, producer: tuple[int, int], offset: int, topic: str = "t", **more: Any
) -> TxnOffsetCommitRequest:
    row = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=None
    )
    return TxnOffsetCommitRequest(
        transactional_id=name,
        group_id="g",
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[row])],
        **more,
    )


def end(name: str, producer: tuple[int, int], *, commit: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=commit,
    )


def describe(*names: str) -> describing.DescribeTransactionsRequest:
    return describing.DescribeTransactionsRequest(transactional_ids=list(names))


async def scenario(talk: Talk) -> None:
    await talk.topic("t", 3)
    await coordinated(talk)
    old = await begun(talk, "old")
    await _not_begun(talk, old)
    await _older_client(talk, old)
    await _newer_client(talk)
    await _fenced(talk)
    await _markers(talk)
    await _tools(talk)


async def begun(talk: Talk, name: str) -> tuple[int, int]:
    """A producer of this transactional id, when the coordinator is up."""
    found: list[tuple[int, int]] = []

    async def is_given() -> bool:
        asked = FindCoordinatorRequest(coordinator_keys=[name], key_type=1)
        await talk.send(asked, FindCoordinatorResponse)  # it creates the topic
        answer = await talk.send(init(name), InitProducerIdResponse, 4)
        found.append((answer.producer_id, answer.producer_epoch))
        return answer.error_code == ErrorCode.NONE

    await talk.until(is_given)
    return found[-1]


async def complete(talk: Talk, name: str) -> None:
    """The markers are written, and the coordinator knows it."""

    async def is_complete() -> bool:
        answer = await talk.send(describe(name), describing.DescribeTransactionsResponse)
        return answer.transaction_states[0].transaction_state in _DONE_STATES

    await talk.until(is_complete)


async def _not_begun(talk: Talk, old: tuple[int, int]) -> None:
    for version in versions(InitProducerIdRequest, last=5):
        await talk.ask(f"another instance {version}", init("old"), version)
    for label, request in {
        "no time": init("x", transaction_timeout_ms=0),
        "too long": init("x", transaction_timeout_ms=900_001),
        "an instance that continues": init("old", (old[0], old[1] + 6)),
        "the same again": init("old", (old[0], old[1] + 6)),
        "a fenced instance": init("old", old),
        "an unknown producer": init("old", (4711, 0)),
        "an empty id": init(""),
    }.items():
        await talk.ask(label, request, versions(InitProducerIdRequest, 3, 5)[-1:])
    wrong = (old[0], 99)
    await talk.ask("a fenced instance, older versions", init("old", old), [3, 4, 5])
    await talk.ask("add, fenced", add("old", wrong, ("t", 0)), versions(AddPartitionsToTxnRequest))
    await talk.ask(
        "add offsets, fenced", add_offsets("old", wrong), versions(AddOffsetsToTxnRequest)
    )
    await talk.ask("end, fenced", end("old", wrong, commit=True), versions(EndTxnRequest))
    await talk.ask("end, unknown id", end("x", old, commit=True), versions(EndTxnRequest))
    await talk.ask("end, empty id", end("", old, commit=True), 4)
    await talk.ask("end, unknown producer", end("old", (4711, 0), commit=True), [4, 5])


async def _older_client(talk: Talk, old: tuple[int, int]) -> None:
    producer = (old[0], old[1] + 7)
    await talk.ask("the end of nothing", end("old", producer, commit=True), [0, 4])
    await talk.ask("an unknown topic", add("old", producer, ("t", 0), ("nope", 0)), [0, 3])
    await talk.ask(
        "add", add("old", producer, ("t", 0)), versions(AddPartitionsToTxnRequest, last=3)
    )
    await talk.ask("not added", produce_in("old", producer, ("t", 1)), [3, 10, 11])
    await talk.ask("added", produce_in("old", producer, ("t", 0)), 11)
    await talk.ask("add offsets", add_offsets("old", producer), versions(AddOffsetsToTxnRequest))
    await talk.ask(
        "offsets", commit_offset("old", producer, 5), versions(TxnOffsetCommitRequest, last=4)
    )
    await talk.ask("offsets of an unknown topic", commit_offset("old", producer, 5, "nope"), [0, 3])
    generation = commit_offset("old", producer, 5, generation_id_or_member_epoch=3, member_id="m")
    await talk.ask("offsets of another generation", generation, [3, 4])
    await talk.ask("while it is open", describe("old"))
    await talk.ask("commit", end("old", producer, commit=True), 4)
    await complete(talk, "old")
    await talk.ask("commit again", end("old", producer, commit=True), [0, 1, 2, 3, 4])
    await talk.ask("abort what is committed", end("old", producer, commit=False), 4)


def produce_in(
    name: str, producer: tuple[int, int], place: tuple[str, int], sequence: int = 0
) -> Any:
    data = batch(2, producer=Producer(*producer, sequence, True))
    return produce_all({place: data}, transactional_id=name, acks=-1)


async def _newer_client(talk: Talk) -> None:
    """Transaction version 2: the broker adds partitions, each end bumps the epoch (KIP-890)."""
    new = await begun(talk, "new")
    await talk.ask("broker adds", broker_adds("new", new, ("t", 2)), [4, 5])
    for index in (1, 2):
        verify = broker_adds("new", new, ("t", index), verify=True)
        await talk.ask(f"broker verifies {index}", verify, [4, 5])
    await talk.ask("records", produce_in("new", new, ("t", 2)), 12)
    await talk.ask("new offsets", commit_offset("new", new, 7), 5)
    await talk.ask("new commit", end("new", new, commit=True), 5)
    await complete(talk, "new")
    await talk.ask("new commit again", end("new", new, commit=True), 5)
    await talk.ask("new abort instead", end("new", new, commit=False), 5)
    await talk.ask("late records", produce_in("new", new, ("t", 2), 2), 12)
    await talk.ask("late offsets", commit_offset("new", new, 8), 5)
    second = (new[0], new[1] + 1)
    await talk.ask("commit of nothing", end("new", second, commit=True), 5)
    await talk.ask("abort of nothing", end("new", second, commit=False), 5)
    await complete(talk, "new")
    await talk.ask("abort of nothing again", end("new", second, commit=False), 5)
    third = (new[0], new[1] + 2)
    await talk.ask("the next records", produce_in("new", third, ("t", 2)), 12)
    await talk.ask("new abort", end("new", third, commit=False), 5)
    await complete(talk, "new")
    await talk.ask("described at the end", describe("new"))


async def _fenced(talk: Talk) -> None:
    first = await begun(talk, "fenced")
    await talk.ask("to be fenced", produce_in("fenced", first, ("t", 0)), 12)
    await talk.ask("the next instance", init("fenced"), 5)
    await complete(talk, "fenced")
    await talk.ask("the next instance, again", init("fenced"), 5)
    await talk.ask("the fenced one commits", end("fenced", first, commit=True), 5)
    await talk.ask("the fenced one writes", produce_in("fenced", first, ("t", 0), 2), 12)


async def _markers(talk: Talk) -> None:
    def request(epoch: int, *places: tuple[str, int]) -> WriteTxnMarkersRequest:
        topics = [WritableTxnMarkerTopic(name=name, partition_indexes=[at]) for name, at in places]
        marker = WritableTxnMarker(
            producer_id=4711,
            producer_epoch=epoch,
            transaction_result=True,
            coordinator_epoch=0,
            topics=topics,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    await talk.ask("a marker", request(3, ("t", 1)), versions(WriteTxnMarkersRequest))
    await talk.ask("a marker for no topic", request(3, ("nope", 0)), [1, 2])
    await talk.ask("a marker for no partition", request(3, ("t", 9)), [1, 2])
    await talk.ask("no markers", WriteTxnMarkersRequest(markers=[]), [1, 2])


async def _tools(talk: Talk) -> None:
    await talk.ask("described", describe("old", "nope", ""))
    await talk.ask("none described", describe())

    def listed(**filters: Any) -> listing.ListTransactionsRequest:
        fields: dict[str, Any] = {"state_filters": [], "producer_id_filters": [], **filters}
        return listing.ListTransactionsRequest(**fields)

    every = versions(listing.ListTransactionsRequest)
    await talk.ask("listed by state", listed(state_filters=["CompleteCommit"]), every)
    await talk.ask("listed by an odd state", listed(state_filters=["Odd"]), every)
    await talk.ask("listed by two", listed(state_filters=["Odd", "CompleteCommit"]), every)
    await talk.ask("listed by producer", listed(producer_id_filters=[4711]), every)
    await talk.ask("listed by name", listed(transactional_id_pattern="o.*"), 2)
    await talk.ask("listed by a bad name", listed(transactional_id_pattern="("), 2)
    await talk.ask("listed by age", listed(duration_filter=1_000_000), [1, 2])
