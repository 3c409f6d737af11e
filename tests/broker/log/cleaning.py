"""A compacted log, what was written to it, and rounds of cleaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from moldau.broker.log.compaction import (
    Compaction,
    LogToClean,
    Replacement,
    begin_to_put_in_place,
    log_to_clean,
)
from moldau.broker.log.compaction_choice import CompactionPolicy, LogEnds, examine
from moldau.broker.log.compaction_offsets import OffsetMap
from moldau.broker.log.log import Owner, PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.producer_state import Origin, ProducerState, ProducerStateEntry
from moldau.broker.log.recovery import Opening
from moldau.records import Codec, ControlRecord, Producer, Record, control_records, encode_batch
from moldau.runtime.files import Files
from tests.broker.log.producing import NOW, marker_batch

DAY_MS: Final = 86_400_000
CONFIG: Final = LogConfig(
    segment_bytes=600, segment_index_bytes=4096, index_interval_bytes=100, is_compacted=True
)
POLICY: Final = CompactionPolicy(min_cleanable_dirty_ratio=0.0, delete_retention_ms=DAY_MS)
MEMORY_BYTES: Final = 1 << 16


@dataclass(slots=True)
class Writer:
    """Writes to a log as clients and coordinators do; each producer has its sequences."""

    log: PartitionLog
    now_ms: int = NOW
    sequences: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)

    def write(
        self,
        *pairs: tuple[str | None, str | None],
        producer: int | None = None,
        transactional: bool = False,
        codec: Codec = Codec.NONE,
    ) -> int:
        """One batch; its first offset."""
        rows = [
            (self.now_ms, _bytes(key), _bytes(value), (("h", b"1"),)[: index % 2])
            for index, (key, value) in enumerate(pairs)
        ]
        made = Producer()
        if producer is not None:
            sequence = self.sequences.get(producer, 0)
            self.sequences[producer] = sequence + len(pairs)
            made = Producer(producer, self.epochs.get(producer, 0), sequence, transactional)
        batch = encode_batch(rows, codec=codec, producer=made)
        return self.log.append_as_leader(batch, 0, self.now_ms).first_offset

    def end(self, producer: int, *, abort: bool = False) -> int:
        """The end of a producer's transaction; the offset of the marker."""
        epoch = self.epochs.get(producer, 0)
        batch = marker_batch(producer, epoch, abort=abort, timestamp=self.now_ms)
        appended = self.log.append_as_leader(batch.data, 0, self.now_ms, origin=Origin.COORDINATOR)
        return appended.first_offset

    def roll(self) -> None:
        """Close the segment, make all durable and replicated."""
        self.log.rolling.roll(self.now_ms)
        self.log.flush()
        self.log.update_high_watermark(self.log.log_end_offset)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def open_log(files: Files, cleaned_offset: int = 0, owner: Owner | None = None) -> PartitionLog:
    """The log of a life that began without knowing anything of an earlier one."""
    opening = Opening(now_ms=NOW, cleaned_offset=cleaned_offset)
    return PartitionLog.open(files, "/p/t-0", CONFIG, opening, owner)


def clean(
    log: PartitionLog,
    now_ms: int,
    *,
    cleaned_offset: int | None = None,
    policy: CompactionPolicy = POLICY,
    memory_bytes: int = MEMORY_BYTES,
) -> Compaction:
    """One round over all that can be cleaned."""
    log.flush()
    log.update_high_watermark(log.log_end_offset)
    ends = LogEnds(log.log_start_offset, log.last_stable_offset, log.log_end_offset)
    cleanable = examine(log.segments, ends, cleaned_offset, policy, now_ms)
    job = log_to_clean(log, cleanable, policy.delete_retention_ms)
    compaction = Compaction(job, OffsetMap(memory_bytes), now_ms)
    for step in compaction.steps():
        if isinstance(step, Replacement):
            assert put_in_place(log, step, now_ms)
    return compaction


def put_in_place(log: PartitionLog, replacement: Replacement, now_ms: int) -> bool:
    """All of it, without a thread."""
    swap = begin_to_put_in_place(log, replacement, now_ms)
    if swap is None:
        return False
    while log.replacing.go_on(swap):
        swap.sync()
    return True


def records_of(log: PartitionLog) -> list[Record]:
    """All records for applications, committed or not."""
    return [
        record
        for batch in log.batches(log.log_start_offset)
        if not batch.header.is_control
        for record in batch.records()
    ]


def pairs_of(log: PartitionLog) -> list[tuple[int, str | None, str | None]]:
    """Offset, key and value of all records."""
    return [(each.offset, _text(each.key), _text(each.value)) for each in records_of(log)]


def markers_of(log: PartitionLog) -> list[ControlRecord]:
    return [
        record
        for batch in log.batches(log.log_start_offset)
        if batch.header.is_control
        for record in control_records(batch)
    ]


def committed(log: PartitionLog) -> list[Record]:
    """What a read_committed consumer sees that reads all of it."""
    index = (segment.transaction_index for segment in log.segments)
    aborted = [each for one in index for each in one.all()]
    open_offsets = log.producers.first_unstable_offset
    found = []
    for batch in log.batches(log.log_start_offset):
        header = batch.header
        if header.is_control:
            continue
        is_aborted = header.is_transactional and any(
            each.producer_id == header.producer_id
            and each.first_offset <= header.base_offset < each.last_offset
            for each in aborted
        )
        is_open = open_offsets is not None and header.base_offset >= open_offsets
        if not is_aborted and not is_open:
            found += batch.records()
    return found


def newest(records: list[Record]) -> dict[bytes | None, Record]:
    """The last record of each key, as whoever folds over the log has it; without tombstones."""
    table = {record.key: record for record in records if record.key is not None}
    return {key: record for key, record in table.items() if record.value is not None}


def job_of(log: PartitionLog) -> LogToClean:
    """A round over all of `log` that can be cleaned."""
    log.flush()
    log.update_high_watermark(log.log_end_offset)
    ends = LogEnds(log.log_start_offset, log.last_stable_offset, log.log_end_offset)
    cleanable = examine(log.segments, ends, None, POLICY, NOW)
    return log_to_clean(log, cleanable, POLICY.delete_retention_ms)


Facts = tuple[int, int, int, int | None]


def facts(entries: Mapping[int, ProducerStateEntry]) -> dict[int, Facts]:
    """What a restart must know of each producer."""
    return {
        each.producer_id: (
            each.epoch,
            each.last_sequence,
            each.last_data_offset,
            each.transaction_first_offset,
        )
        for each in entries.values()
    }


def folded(log: PartitionLog) -> dict[int, Facts]:
    """The producers, as a start without any snapshot would find them."""
    state = ProducerState(DAY_MS)
    for batch in log.batches(log.log_start_offset):
        append = state.prepare(Origin.REPLICATION)
        append.add(batch)
        state.commit(append)
    return facts(state.entries)


def random_work(log: PartitionLog, random: Random, count: int) -> Writer:
    """Batches of several kinds, keys that repeat, tombstones, and transactions that end."""
    writer = Writer(log)
    in_transaction: set[int] = set()
    for _ in range(count):
        writer.now_ms += random.randrange(1000)
        kind = random.random()
        producer = random.choice((None, 1, 2, 3))
        if producer == 3 and 3 in in_transaction and kind < 0.4:
            writer.end(3, abort=random.random() < 0.5)
            in_transaction.discard(3)
        else:
            pairs = [
                (f"k{random.randrange(12)}", random.choice((None, "v" * random.randrange(40))))
                for _ in range(random.randrange(1, 5))
            ]
            codec = random.choice((Codec.NONE, Codec.NONE, Codec.LZ4))
            writer.write(*pairs, producer=producer, transactional=producer == 3, codec=codec)
            if producer == 3:
                in_transaction.add(3)
        if random.random() < 0.1:
            writer.roll()
    if in_transaction and random.random() < 0.7:
        writer.end(3, abort=random.random() < 0.5)
    writer.roll()
    return writer
