"""Random work on one log through several lives, and what must be true after each."""

from __future__ import annotations

from random import Random

import pytest

from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.producer_state import Origin, ProducerState, ProducerStateEntry
from moldau.broker.log.recovery import replay
from moldau.broker.log.transaction_index import AbortedTransaction
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.schemas.control_records import EndTxnMarker
from moldau.records import ControlType, Producer, encode_batch, encode_control_batch
from moldau.runtime.simulated.incarnation import NodeKilled
from tests.broker.log.machine import NOW, SMALL, Machine, batch, contents

LIVES = 6

STEPS = 25


class Story:
    """Random work on one log through several lives, and what must be true after each."""

    def __init__(self, seed: int, *, with_errors: bool = False, config: LogConfig = SMALL) -> None:
        self.random = Random(seed)
        self.machine = Machine(seed, config)
        self.with_errors = with_errors
        self.error_count = 0
        self.written: list[tuple[int, bytes]] = []
        self.durable_end = 0
        self.log_start = 0
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.is_clean = False
        self.cut_count = 0
        self.log: PartitionLog

    def run(self) -> None:
        faults = self.machine.disk.faults
        for _ in range(LIVES):
            faults.write_error = faults.sync_error = 0.0
            faults.capacity_bytes = None
            self.log = self.machine.open(is_clean=self.is_clean)
            self.check()
            self.epoch += self.random.randrange(2)
            if self.random.random() < 0.9:
                self.machine.disk.calls_left = self.random.randrange(220)
            if self.with_errors and self.random.random() < 0.7:
                self.break_disk()
            has_failed = False
            try:
                for _ in range(STEPS):
                    self.step()
                self.is_clean = self.random.random() < 0.4
                if self.is_clean:
                    self.close()
            except NodeKilled:
                self.is_clean = False
            except KafkaError as error:
                if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                has_failed = True
                self.is_clean = False
                self.error_count += 1
                self.check_refusal()
            # After a failed sync only a fresh look at the platter tells what is there.
            if has_failed or self.random.random() < 0.7:
                self.machine.lose_power()
            else:
                self.machine.kill()
        faults.write_error = faults.sync_error = 0.0
        faults.capacity_bytes = None
        self.log = self.machine.open(is_clean=self.is_clean)
        self.check()

    def break_disk(self) -> None:
        faults = self.machine.disk.faults
        kind = self.random.randrange(3)
        if kind == 0:
            faults.write_error = 0.03
        elif kind == 1:
            faults.sync_error = 0.1
        else:
            used = sum(len(self.machine.disk.contents(each)) for each in self.machine.disk.paths())
            faults.capacity_bytes = used + self.random.randrange(3000)

    def check_refusal(self) -> None:
        """Out of service for good, whatever the disk does next."""
        for act in (self.log.flush, lambda: self.log.append_as_leader(batch(), 0, NOW)):
            with pytest.raises(KafkaError) as refusal:
                act()
            assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    def close(self) -> None:
        self.log.close()
        self.durable_end = self.log.log_end_offset
        self.machine.recovery_point = self.log.log_end_offset

    def step(self) -> None:
        draw = self.random.random()
        self.machine.now_ms += self.random.randrange(2000)
        if draw < 0.55:
            self.append()
        elif draw < 0.62:
            self.replicate()
        elif draw < 0.70:
            self.end_transaction()
        elif draw < 0.80:
            self.flush()
        elif draw < 0.85:
            self.persist()
        elif draw < 0.91:
            self.truncate()
        elif draw < 0.96:
            self.forget()
        else:
            self.log.rolling.roll(self.machine.now_ms)

    def next_batch(self) -> bytearray:
        return batch(
            self.random.randrange(1, 5),
            size=self.random.randrange(40),
            timestamp=NOW + self.random.randrange(100),
            producer=self.producer(),
        )

    def append(self) -> None:
        made = self.next_batch()
        self.expect(made)
        if self.random.random() < 0.5:
            self.log.append_as_leader(made, self.epoch, self.machine.now_ms)
        else:
            self.log.append_as_leader(bytes(made), self.epoch, self.machine.now_ms)
        self.log.update_high_watermark(self.log.log_end_offset)

    def producer(self) -> Producer | None:
        number = self.random.randrange(4)
        if not number:
            return None
        known = self.log.producers.entries.get(number)
        sequence = known.last_sequence + 1 if known and known.batches else 0
        return Producer(number, 0, sequence, is_transactional=number > 1)

    def expect(self, made: bytearray, *, offset: int | None = None) -> None:
        """The log will hold this, if it gets that far."""
        stamped = bytearray(made)
        base = self.log.log_end_offset if offset is None else offset
        stamped[0:8] = base.to_bytes(8, "big")
        stamped[12:16] = self.epoch.to_bytes(4, "big")
        self.written.append((base, bytes(stamped)))

    def replicate(self) -> None:
        """Two batches of a leader, with a gap before them as compaction leaves it."""
        made = bytearray()
        offset = self.log.log_end_offset + self.random.randrange(3)
        for _ in range(2):
            one = encode_batch([(NOW, b"k", b"v", ())] * 2, offset, leader_epoch=self.epoch)
            self.expect(one, offset=offset)
            made += one
            offset += 2
        self.log.append_as_follower(made, self.machine.now_ms)
        self.log.update_high_watermark(self.log.log_end_offset)

    def end_transaction(self) -> None:
        marker = EndTxnMarker(coordinator_epoch=1).encode(0)
        kind = self.random.choice((ControlType.ABORT, ControlType.COMMIT))
        producer = Producer(2 + self.random.randrange(2), 0, -1, is_transactional=True)
        made = encode_control_batch(
            [(kind, b"\0\0" + marker)], NOW, leader_epoch=self.epoch, producer=producer
        )
        self.expect(made)
        self.log.append_as_leader(made, self.epoch, self.machine.now_ms, origin=Origin.COORDINATOR)
        self.log.update_high_watermark(self.log.log_end_offset)

    def flush(self) -> None:
        self.log.flush()
        self.durable_end = self.log.log_end_offset

    def persist(self) -> None:
        try:
            self.machine.persist_points()
        except OSError as error:  # as a directory would
            self.log.state.take_out_of_service(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error

    def truncate(self) -> None:
        depth = self.random.choice((12, 12, 50))
        low = max(self.log.log_start_offset, self.log.log_end_offset - depth)
        offset = self.random.randint(low, self.log.log_end_offset)
        kept = [each for each in self.written if end_of(each) <= offset]
        after = end_of(kept[-1]) if kept else 0
        self.durable_end = min(self.durable_end, after)
        if offset <= self.log.segments[0].base_offset and offset < self.log.log_end_offset:
            return
        self.log.truncate_to(offset)
        self.written = kept
        self.epoch += 1

    def forget(self) -> None:
        middle = (self.log.log_start_offset + self.log.log_end_offset) // 2
        self.log_start = max(self.log_start, middle)
        self.log.increment_log_start_offset(middle)
        self.persist()
        self.log.delete_old_segments(self.machine.now_ms)
        self.log.retention.remove_deleted(self.machine.now_ms)

    def check(self) -> None:
        """What was found is what was written, as far as it goes."""
        log = self.log
        assert log.log_start_offset <= self.log_start
        found = contents(log)
        start = log.segments[0].base_offset
        expected = [each for each in self.written if end_of(each) > log.log_start_offset]
        assert found == expected[: len(found)], (start, log.notes)
        assert log.log_end_offset >= self.durable_end, log.notes
        ends = [end_of(each) for each in found]
        assert not ends or ends[-1] == log.log_end_offset
        self.cut_count += len(expected) - len(found)
        self.written = [each for each in self.written if end_of(each) <= log.log_end_offset]
        self.durable_end = min(self.durable_end, log.log_end_offset)
        self.check_reads(found)
        self.check_epochs(found)
        self.check_producers()

    def check_reads(self, found: list[tuple[int, bytes]]) -> None:
        log = self.log
        everything = b"".join(data for _, data in found)
        if found:
            offset, got = log.log_start_offset, b""
            while offset < log.log_end_offset:
                piece = log.read(offset, self.random.randrange(600))
                whole = piece.read()
                header_end = 0
                while len(whole) - header_end >= 61:
                    size = 12 + int.from_bytes(whole[header_end + 8 : header_end + 12], "big")
                    if header_end + size > len(whole):
                        break
                    base = int.from_bytes(whole[header_end : header_end + 8], "big")
                    delta = int.from_bytes(whole[header_end + 23 : header_end + 27], "big")
                    offset = base + delta + 1
                    header_end += size
                assert header_end, "progress"
                got += whole[:header_end]
            assert got == everything

    def check_epochs(self, found: list[tuple[int, bytes]]) -> None:
        expected = LeaderEpochs()
        for base, data in found:
            expected.assign(int.from_bytes(data[12:16], "big"), base)
        got = self.log.leader_epochs
        assert [e.epoch for e in got.entries][-len(expected.entries) :] == [
            e.epoch for e in expected.entries
        ] or not expected.entries

    def check_producers(self) -> None:
        """The state is what the log says, as far as the log still says it."""
        log = self.log
        expected = ProducerState(log.config.producer_expiration_ms)
        expected.reset(log.log_start_offset)
        replay(expected, log.batches(log.log_start_offset))
        for producer_id, entry in expected.entries.items():
            got = log.producers.entries[producer_id]
            assert got.last_sequence == entry.last_sequence or not entry.batches
            if log.log_start_offset == 0:
                assert last_batch_only(got) == last_batch_only(entry)
        if log.log_start_offset == 0:
            assert log.producers.entries.keys() == expected.entries.keys()
            assert log.producers.first_undecided_offset == expected.first_undecided_offset
            self.check_aborted()

    def check_aborted(self) -> None:
        state = ProducerState(1 << 50)
        expected: list[AbortedTransaction] = []
        for each in self.log.batches(0):
            append = state.prepare(Origin.REPLICATION)
            append.add(each)
            expected += state.commit(append)
        got = [entry for each in self.log.segments for entry in each.transaction_index.all()]
        assert got == expected


def last_batch_only(entry: ProducerStateEntry) -> ProducerStateEntry:
    """A snapshot keeps no more, and one timestamp for the producer and its batch."""
    last = tuple(each._replace(timestamp=0) for each in entry.batches[-1:])
    return entry._replace(batches=last)


def end_of(written: tuple[int, bytes]) -> int:
    base, data = written
    return base + int.from_bytes(data[23:27], "big") + 1
