"""A fetch of records that come later: it waits for them, and they delay no other partition."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.broker.log.slice import LogSlice
from moldau.broker.replication.later_slice import LaterSlice
from moldau.broker.replication.partition import READ_UNCOMMITTED, Partition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchResponse
from tests.broker.api.requests import batch, fetch, produce, want
from tests.broker.api.serving import Sent, Serving, fetched, serving

reads: list[tuple[LaterSlice, LogSlice]] = []
"""The slow reads that were started, and what each of them will bring."""


class SlowPartition(Partition):
    """A partition whose records come later."""

    __slots__ = ()

    def read(
        self,
        offset: int,
        max_bytes: int,
        upper: int,
        min_one_batch: bool,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> LogSlice | LaterSlice:
        found = super().read(offset, max_bytes, upper, min_one_batch, isolation_level)
        if not isinstance(found, LogSlice) or not found.size_bytes:
            return found
        later = LaterSlice(self._purgatory)
        found.is_newest = False
        reads.append((later, found))
        return later


@pytest.fixture(autouse=True)
def forget_reads() -> None:
    reads.clear()


def create(at: Serving) -> None:
    """Partition 0 is slow, and partition 1 is as always."""
    at.create("t", 2)
    at.partition("t", 0).__class__ = SlowPartition
    put(at, 0)


def put(at: Serving, index: int) -> None:
    answer: Any = at.send(produce("t", batch(), index=index), 12).answers[0]
    assert answer.responses[0].partition_responses[0].error_code == 0


def ask(at: Serving, *indexes: int, wait_ms: int = 500, **more: Any) -> Sent:
    wanted = [("t", want(index, **more)) for index in indexes]
    return at.send(fetch(*wanted, wait_ms=wait_ms, min_bytes=1), 12)


def rows(sent: Sent) -> list[tuple[int, int, int]]:
    """Of each partition of the response: index, error, bytes of records."""
    (answer,) = sent.answers
    assert isinstance(answer, FetchResponse)
    return [
        (each.partition_index, each.error_code, len(each.records or b""))
        for each in fetched(answer).values()
    ]


@serving()
async def test_a_fetch_waits_for_records_that_come_later(at: Serving) -> None:
    create(at)
    sent = ask(at, 0)
    await at.pass_ms(100)
    assert not sent.answers
    ((later, records),) = reads
    later.arrive(records)
    await at.pass_ms(1)
    assert rows(sent) == [(0, 0, len(batch()))]
    assert len(reads) == 1, "one read for one fetch"


@serving()
async def test_a_read_that_fails_later_is_the_error_of_its_partition(at: Serving) -> None:
    create(at)
    sent = ask(at, 0, 1)
    reads[0][0].fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    await at.pass_ms(1)
    assert rows(sent) == [(0, ErrorCode.KAFKA_STORAGE_ERROR, 0), (1, 0, 0)]


@serving()
async def test_records_that_do_not_come_in_time_are_left_out(at: Serving) -> None:
    create(at)
    sent = ask(at, 0, wait_ms=200)
    await sent.answered.wait()
    assert rows(sent) == [(0, 0, 0)]
    later, records = reads[0]
    later.arrive(records)  # after the answer: it harms nothing
    await at.pass_ms(1)
    assert len(sent.answers) == 1
    assert len(at.replicas.purgatory) == 0


@serving()
async def test_records_that_come_later_delay_no_other_partition(at: Serving) -> None:
    create(at)
    sent = ask(at, 0, 1)
    assert not sent.answers
    put(at, 1)
    await at.pass_ms(1)
    assert rows(sent) == [(0, 0, 0), (1, 0, len(batch()))]
    at_once = ask(at, 0, 1)
    assert rows(at_once) == [(0, 0, 0), (1, 0, len(batch()))]


@serving()
async def test_an_append_starts_no_second_read_of_a_waiting_fetch(at: Serving) -> None:
    create(at)
    sent = ask(at, 0)
    put(at, 0)
    await at.pass_ms(1)
    assert not sent.answers
    assert len(reads) == 1
    reads[0][0].arrive(reads[0][1])
    await at.pass_ms(1)
    assert rows(sent) == [(0, 0, len(batch()))]


@pytest.mark.parametrize(("room", "given"), [(10, 0), (len(batch()) + 10, len(batch()) + 10)])
def test_records_that_come_are_cut_to_the_limit_but_not_within_the_first_batch(
    room: int, given: int
) -> None:
    """A client takes records without a whole batch for damaged ones."""

    @serving()
    async def run(at: Serving) -> None:
        create(at)
        at.partition("t", 1).__class__ = SlowPartition
        put(at, 1)
        put(at, 1)
        wanted = [("t", want(index)) for index in (0, 1)]
        limit = len(batch()) + room
        sent = at.send(fetch(*wanted, wait_ms=500, min_bytes=1, max_bytes=limit), 12)
        for later, records in reads:
            later.arrive(records)
        await at.pass_ms(1)
        assert rows(sent) == [(0, 0, len(batch())), (1, 0, given)]

    run()


@serving()
async def test_a_fetch_that_does_not_wait_still_waits_for_what_comes_later(at: Serving) -> None:
    """As in Kafka, for remote.fetch.max.wait.ms: it could never read remote records else."""
    create(at)
    sent = ask(at, 0, wait_ms=0)
    await at.pass_ms(100)
    assert not sent.answers
    reads[0][0].arrive(reads[0][1])
    await at.pass_ms(1)
    assert rows(sent) == [(0, 0, len(batch()))]


@serving(remote__fetch__max__wait__ms="50")
async def test_a_fetch_waits_no_longer_than_the_setting_for_what_comes_later(at: Serving) -> None:
    create(at)
    sent = ask(at, 0, wait_ms=30_000)
    await at.pass_ms(60)
    assert rows(sent) == [(0, 0, 0)]
