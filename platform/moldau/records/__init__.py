"""Kafka's record batches: encode, find, validate, decode, compress.

- encode     `encode_batch`, `BatchBuilder`, `encode_control_batch`
- find       `walk`, `find_last`, `whole_bytes`, `open_batch`, `read_header`
- validate   `validate` (creates no record objects), then `stamp` in place
- decode     `Batch.records`, `Batch.columns`, `decode_batch`, `iter_records`, `control_records`,
             `decode_usual`, `ColumnBuilder`
- clean      `retain`
- partition  `partition_for_key`, `coordinator_partition`

Only format version 2 exists; older ones are rejected. Bad bytes always raise `CorruptRecord`.
`KERNEL` says whether the loops run compiled or in plain Python; nothing else differs.
`kernel_notice` is the line about it for users, and `tell_kernel` passes it on.
"""

from __future__ import annotations

from moldau.records.batch import (
    Batch,
    decode_batch,
    find_last,
    iter_records,
    open_batch,
    stamp,
    walk,
    whole_bytes,
)
from moldau.records.builder import (
    NO_PRODUCER,
    BatchBuilder,
    Producer,
    encode_batch,
    stamp_producer,
)
from moldau.records.codecs import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    OversizedRecords,
    compress,
    decompress,
)
from moldau.records.compaction import retain
from moldau.records.control import (
    ControlRecord,
    ControlType,
    control_records,
    encode_control_batch,
)
from moldau.records.header import HEADER_BYTES, BatchHeader, Buffer, read_header
from moldau.records.kernel import (
    KERNEL,
    ColumnBuilder,
    ConsumerRecord,
    Record,
    Slot,
    decode_usual,
    java_string_hash,
    kernel_notice,
    murmur2,
    span_list,
    tell_kernel,
    with_contents,
)
from moldau.records.partitioning import coordinator_partition, partition_for_key, to_positive
from moldau.records.record import (
    ColumnBuffers,
    Columns,
    Entry,
    HeaderBuffers,
    Headers,
    HeadersGiven,
    K,
    Opened,
    OpenedColumns,
    Row,
    Spans,
    TimestampType,
    V,
)
from moldau.records.validation import (
    LOGGED,
    PRODUCED,
    InvalidRecord,
    InvalidTimestamp,
    Rules,
    ValidatedBatch,
    validate,
)

__all__ = [
    "DECOMPRESSED_BYTES_MAX", "HEADER_BYTES", "KERNEL", "LOGGED", "NO_PRODUCER", "PRODUCED",
    "Batch", "BatchBuilder", "BatchHeader", "Buffer", "Codec", "ColumnBuffers", "ColumnBuilder",
    "Columns", "ConsumerRecord", "ControlRecord", "ControlType", "Entry", "HeaderBuffers",
    "Headers", "HeadersGiven", "InvalidRecord", "InvalidTimestamp", "K", "Opened", "OpenedColumns",
    "OversizedRecords", "Producer", "Record", "Row", "Rules", "Slot", "Spans", "TimestampType", "V",
    "ValidatedBatch", "compress", "control_records", "coordinator_partition", "decode_batch",
    "decode_usual", "decompress", "encode_batch", "encode_control_batch", "find_last",
    "iter_records", "java_string_hash", "kernel_notice", "murmur2", "open_batch",
    "partition_for_key", "read_header", "retain", "span_list", "stamp", "stamp_producer",
    "tell_kernel", "to_positive", "validate", "walk", "whole_bytes", "with_contents",
]  # fmt: skip
