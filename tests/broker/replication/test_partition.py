"""What may be read when, what an append waits for, and what everybody hears at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from moldau.broker.log.leader_epochs import EpochEnd
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.rounds import rest
from moldau.broker.log.slice import LogSlice
from moldau.broker.replication.partition import Partition
from moldau.broker.replication.topic_config import TopicConfig
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import Producer
from moldau.runtime import Runtime
from moldau.runtime.simulated.node import Node
from tests.broker.log.machine import NOW, batch
from tests.broker.log.producing import data_batch, marker_batch
from tests.broker.one_node import simulate
from tests.broker.replication.hosting import CONFIG, FLUSHED, NODE_ID, Host, leadership


def test_an_append_is_readable_and_acknowledged_at_once() -> None:
    async def main(runtime: Runtime) -> None:
        partition = Host.open(runtime).lead("t", epoch=3)
        appended = partition.append(batch(), -1, runtime.clock.wall_ms())
        assert (appended.first_offset, appended.last_offset) == (0, 2)
        assert partition.is_acknowledged(2, 1)
        assert partition.is_acknowledged(2, -1)
        assert partition.fetch_bound(0, False) == 3
        piece = partition.read(0, 1 << 20, partition.fetch_bound(0, False), True)
        assert isinstance(piece, LogSlice)
        assert piece.read()[12:16] == (3).to_bytes(4, "big"), "the leader epoch is stamped"

    simulate(main)


def test_where_a_flush_is_due_it_comes_before_readers_and_the_answer() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        partition = host.lead("t", config=FLUSHED)
        now_ms = runtime.clock.wall_ms()
        last = partition.append(batch(), 1, now_ms).last_offset
        assert not partition.is_acknowledged(last, 1)
        assert partition.fetch_bound(0, False) == 0
        assert partition.fetch_bound(0, True) == 3, "a follower gets all"
        assert not partition.read(0, 1 << 20, partition.fetch_bound(0, False), True).size_bytes
        # Others that come meanwhile share the next flush.
        produced = [host.acknowledged(partition, batch()) for _ in range(20)]
        assert await asyncio.gather(*produced) == list(range(3, 63, 3))
        assert partition.high_watermark == partition.log.flushed_end_offset == 63
        assert host.replicas._commits.of(host.directories.directories[0]).sync_count <= 3
        assert len(host.replicas.purgatory) == 0

    simulate(main)


def test_every_nth_record_is_flushed_where_the_topic_says_so() -> None:
    async def main(runtime: Runtime) -> None:
        config = TopicConfig(replace(CONFIG.log, segment_bytes=1 << 20, flush_messages=10))
        host = Host.open(runtime)
        partition = host.lead("t", config=config)
        flushed = []
        for _ in range(8):
            await host.acknowledged(partition, batch())
            flushed.append(partition.log.flushed_end_offset)
        assert flushed == [0, 0, 0, 12, 12, 12, 12, 24]

    simulate(main)


def test_a_full_segment_holds_up_nobody() -> None:
    async def main(runtime: Runtime) -> None:
        partition = Host.open(runtime).lead("t")
        for _ in range(30):
            last = partition.append(batch(), 1, runtime.clock.wall_ms()).last_offset
            assert partition.is_acknowledged(last, 1)
        assert len(partition.log.segments) > 3

    simulate(main)


def test_readers_of_committed_records_stop_before_an_open_transaction() -> None:
    async def main(runtime: Runtime) -> None:
        partition = Host.open(runtime).lead("t")
        partition.append(batch(), 1, NOW)
        open_one = batch(producer=Producer(7, 0, 0, is_transactional=True))
        partition.append(open_one, 1, NOW)
        assert partition.fetch_bound(0, False) == 6
        assert partition.fetch_bound(1, False) == partition.last_stable_offset == 3

    simulate(main)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, None),
        (4, None),
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_who_knows_another_epoch_is_told(epoch: int, code: ErrorCode | None) -> None:
    async def main(runtime: Runtime) -> None:
        partition = Host.open(runtime).lead("t", epoch=4)
        if code is None:
            partition.check_epoch(epoch)
            return
        with pytest.raises(KafkaError) as error:
            partition.check_epoch(epoch)
        assert error.value.code is code

    simulate(main)


def test_the_end_of_an_epoch_is_known_before_the_next_has_records() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        partition = host.lead("t", epoch=1)
        assert partition.epoch_end(0) == EpochEnd(0, 0)
        assert partition.epoch_end(-1) == EpochEnd(-1, -1)
        partition.append(batch(), 1, NOW)
        host.lead("t", epoch=5)
        assert partition.epoch_end(1) == EpochEnd(1, 3)
        assert partition.epoch_end(3) == EpochEnd(1, 3)
        assert partition.epoch_end(5) == EpochEnd(5, 3)
        assert partition.epoch_end(6) == EpochEnd(-1, -1)
        partition.append(batch(), 1, NOW)
        assert partition.epoch_end(3) == EpochEnd(1, 3)
        assert partition.epoch_end(5) == EpochEnd(5, 6)

    simulate(main)


def test_deleted_records_are_gone_and_stay_gone() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        partition = host.lead("t")
        for _ in range(4):
            partition.append(batch(), 1, NOW)
        assert partition.delete_records(5) == 5
        assert partition.delete_records(2) == 5
        for offset in (13, -2):
            with pytest.raises(KafkaError) as error:
                partition.delete_records(offset)
            assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(KafkaError) as error:
            partition.read(4, 100, 12, True)
        assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert partition.delete_records(-1) == 12

    simulate(main)


def test_only_compaction_deletes_from_a_compacted_topic() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        compacted = replace(CONFIG.log, is_compacted=True, is_deleted=False)
        partition = host.lead("t", config=TopicConfig(compacted))
        partition.append(batch(), 1, NOW)
        with pytest.raises(KafkaError) as error:
            partition.delete_records(1)
        assert error.value.code is ErrorCode.POLICY_VIOLATION
        host.replicas.configure("t", TopicConfig(replace(compacted, is_deleted=True)))
        assert partition.delete_records(1) == 1

    simulate(main)


def test_more_in_sync_replicas_than_there_are_refuse_acks_all() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        config = TopicConfig(CONFIG.log, min_insync_replicas=2)
        host.replicas.lead(leadership("t", replicas=(1, 2, 3)), config)
        partition = host.replicas.partition("t", 0)
        with pytest.raises(KafkaError) as error:
            partition.append(batch(), -1, NOW)
        assert error.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert partition.log_end_offset == 0
        partition.append(batch(), 1, NOW)
        assert partition.is_acknowledged(2, 1)
        host.replicas.configure("t", CONFIG)
        partition.append(batch(), -1, NOW)

    simulate(main)


def test_the_log_knows_whether_a_replica_is_out_of_sync() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        for isr in ((NODE_ID, 8, 9), (NODE_ID, 9), (NODE_ID, 8, 9)):
            host.replicas.lead(leadership("t", replicas=(NODE_ID, 8, 9), isr=isr), CONFIG)
            log = host.replicas.partition("t", 0).log.state
            assert log.is_everywhere is (len(isr) == 3)

    simulate(main)


def test_who_waits_hears_of_the_end() -> None:
    async def main(runtime: Runtime) -> list[ErrorCode]:
        host = Host.open(runtime)
        heard = []
        for end in ("resign", "remove", "fail"):
            partition = await host.led(end, config=FLUSHED)
            waiting = asyncio.ensure_future(host.acknowledged(partition, batch()))
            await asyncio.sleep(0)
            if end == "resign":
                host.replicas.resign(end, 0, partition.topic_id, 1)
            elif end == "remove":
                host.replicas.remove(end, 0)
            else:
                directory = host.directories.directory_of(TopicPartition(end, 0))
                assert directory is not None
                directory.state.fail(OSError(5, "the disk is gone"))
            with pytest.raises(KafkaError) as error:
                await waiting
            heard.append(error.value.code)
            with pytest.raises(KafkaError) as error:
                partition.append(batch(), 1, NOW)
            assert error.value.code is heard[-1]
            asks: tuple[Callable[[Partition], object], ...] = (
                lambda of: of.fetch_bound(0, False),
                lambda of: of.read(0, 1, 1, True),
                lambda of: of.check_epoch(-1),
                lambda of: of.epoch_end(0),
                lambda of: of.delete_records(0),
            )
            for ask in asks:
                with pytest.raises(KafkaError):
                    ask(partition)
        return heard

    assert simulate(main) == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ]


def of_producer(records: int, epoch: int = 0, sequence: int = -1) -> bytearray:
    return bytearray(data_batch(5, epoch, sequence, records, transactional=True).data)


def markers(*epochs: int, abort: bool = False) -> bytearray:
    """A marker of producer 5 for each epoch."""
    return bytearray(b"".join(marker_batch(5, epoch, abort=abort).data for epoch in epochs))


@pytest.mark.parametrize("sequence", [-1, 0])
def test_a_coordinators_batches_of_one_producer_are_all_written(sequence: int) -> None:
    """A coordinator numbers no batch: the second is neither out of order nor a duplicate."""

    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        partition = host.lead("t")
        assert partition.append(batch(), -1, NOW).first_offset == 0
        assert partition.append_own(of_producer(1, sequence=sequence), NOW)[:2] == (3, 3)
        assert partition.append_own(of_producer(2, sequence=sequence), NOW)[:2] == (4, 5)
        assert (partition.last_stable_offset, partition.high_watermark) == (3, 6)
        host.directories.release()
        again = Host.open(runtime).lead("t", epoch=1)
        assert again.append_own(of_producer(1, sequence=sequence), NOW)[:2] == (6, 6)
        assert (again.last_stable_offset, again.high_watermark) == (3, 7)
        assert again.append_own(markers(0), NOW)[:2] == (7, 7)
        assert again.last_stable_offset == again.high_watermark == 8

    simulate(main)


def test_markers_end_transactions_for_readers_after_a_restart_too() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        partition = host.lead("t")
        partition.append_own(of_producer(2), NOW)
        assert partition.append_own(markers(1, abort=True), NOW, 2)[:2] == (2, 2)
        partition.append_own(of_producer(1, epoch=1), NOW)
        assert partition.last_stable_offset == 3
        host.directories.release()
        again = Host.open(runtime).lead("t", epoch=1)
        assert again.last_stable_offset == 3
        piece = again.read(0, 1 << 20, again.last_stable_offset, True)
        assert isinstance(piece, LogSlice)
        aborted = again.aborted_transactions(0, piece)
        assert [each[:3] for each in aborted] == [(5, 0, 2)]
        with pytest.raises(KafkaError) as late:  # with an open transaction, as a strict marker
            again.append_own(markers(1), NOW, 2)
        assert late.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert again.append_own(markers(2, 2, 2), NOW, 2)[:2] == (4, 6)
        assert again.last_stable_offset == again.log_end_offset == 7

    simulate(main)


def test_a_coordinator_waits_for_the_in_sync_replicas_and_keeps_to_the_limits() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        two = TopicConfig(CONFIG.log, min_insync_replicas=2)
        partition = host.lead("t", config=two, replicas=(1, 2))
        for records in (of_producer(1), markers(0)):
            with pytest.raises(KafkaError) as few:
                partition.append_own(records, NOW)
            assert few.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        partition.configure(TopicConfig(replace(CONFIG.log, max_message_bytes=80)))
        with pytest.raises(KafkaError) as large:
            partition.append_own(of_producer(5), NOW)
        assert large.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert partition.log_end_offset == 0
        host.replicas.resign("t", 0, partition.topic_id, 1)
        with pytest.raises(KafkaError) as gone:
            partition.append_own(markers(0), NOW)
        assert gone.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    simulate(main)


def test_a_flush_that_takes_too_long_is_a_timeout_and_comes_anyway() -> None:
    nodes: list[Node] = []

    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime)
        partition = host.lead("t", config=FLUSHED)
        await host.acknowledged(partition, batch())
        nodes[0].disk.faults.slow_sync = 1.0
        began = runtime.clock.monotonic()
        with pytest.raises(TimeoutError):
            await host.acknowledged(partition, batch(), timeout_ms=1500)
        assert 1.5 <= runtime.clock.monotonic() - began < 1.502
        await rest(30)
        assert partition.high_watermark == 6

    simulate(main, prepare=nodes.append)


def test_what_was_recovered_is_not_shown_before_it_is_durable() -> None:
    async def main(runtime: Runtime) -> None:
        host = Host.open(runtime, ["/a"], FLUSHED.log)
        partition = host.lead("t", config=FLUSHED)
        partition.append(batch(), 1, NOW)
        host.directories.release()
        again = Host.open(runtime, ["/a"], FLUSHED.log)
        partition = again.lead("t", config=FLUSHED, epoch=1)
        assert (partition.log_end_offset, partition.high_watermark) == (3, 0)
        await again.replicas.aclose()
        assert partition.high_watermark == 3

    simulate(main)


def test_a_log_that_a_restore_fills_takes_no_marker() -> None:
    """It would stand where a batch of the backup belongs. The coordinator sends it again."""

    async def main(runtime: Runtime) -> None:
        restoring = TopicConfig(replace(CONFIG.log, is_restoring=True))
        partition = Host.open(runtime).lead("t", config=restoring)
        with pytest.raises(KafkaError) as early:
            partition.append_own(markers(0), NOW)
        assert early.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert partition.log_end_offset == 0
        partition.configure(CONFIG)
        assert partition.append_own(markers(0), NOW)[:2] == (0, 0)

    simulate(main)
