"""Record batches: both kernels beside aiokafka's compiled one, and the codecs beside others.

The batch is 500 records of a 10-byte key and a 100-byte value. Encoding goes from a list of rows to
the finished batch with its checksum, decoding from the bytes to a list of records, with the
checksum checked.

Rates are by the CPU time of the process, so those of one core: nothing here waits, and a neighbour
that takes the core away for a while must not count.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import lz4.frame
import zstandard
from crc32c import crc32c

from bench.harness import Case, Goal, Table, rate
from moldau.records import (
    KERNEL,
    BatchBuilder,
    Codec,
    Row,
    compress,
    decode_batch,
    decompress,
    encode_batch,
    open_batch,
    validate,
    walk,
)
from moldau.records import _pure as pure
from moldau.records.kernel import decode, scan

RECORDS = 500
NOW = 1_700_000_000_000
ROWS: list[Row] = [
    (NOW + index % 7, b"key-%06d" % index, b"v" * 100, ()) for index in range(RECORDS)
]
BATCH = bytes(encode_batch(ROWS))
OURS = f"moldau, {KERNEL}"
TWIN = "moldau, pure twin"
PEER = "aiokafka, compiled"
SLOWER_AT_MOST = 15


class PureBuilder(pure.Appender):
    """`BatchBuilder` over the pure kernel, whichever kernel is in use."""

    codec = Codec.NONE
    level = None
    is_control = False
    build = BatchBuilder.build


def encode_pure() -> object:
    builder = PureBuilder()
    builder.extend(ROWS)
    return builder.build()  # type: ignore[misc]


def decode_pure() -> object:
    batch = open_batch(BATCH)
    batch.check_crc()
    return pure.decode(batch.section(), batch.header)


def append_one_by_one() -> object:
    builder = BatchBuilder()
    append = builder.append
    for timestamp, key, value, headers in ROWS:
        append(timestamp, key, value, headers)
    return builder.build()


def aiokafka_pair() -> tuple[Callable[[], object], Callable[[], object]]:
    """Return aiokafka's functions to encode and to decode; they must be its C extension."""
    from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

    if "._crecords." not in DefaultRecordBatch.__module__:
        raise RuntimeError("aiokafka runs without its C extension: not the peer to measure")
    rows: list[Any] = [(offset, *row[:3], []) for offset, row in enumerate(ROWS)]

    def encode_theirs() -> object:
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 20,
        )
        append = builder.append
        for offset, timestamp, key, value, headers in rows:
            append(offset, timestamp, key, value, headers)
        return builder.build()

    def decode_theirs() -> object:
        batch = DefaultRecordBatch(BATCH)
        batch.validate_crc()
        return list(batch)

    assert bytes(encode_theirs()) == BATCH  # type: ignore[call-overload]
    return encode_theirs, decode_theirs


def case(name: str, work: Callable[[], object], repeat: int, count: int = RECORDS) -> Case:
    """Return a case of a round that runs `work` `repeat` times; each run handles `count` things."""

    def round_of_work() -> None:
        for _ in range(repeat):
            work()

    return Case(name, rate(round_of_work, count * repeat, clock=time.process_time))


def goals(at_least: float) -> list[Goal]:
    if KERNEL != "compiled":
        return []
    return [
        Goal(OURS, at_least=at_least),
        Goal(OURS, versus=PEER, ratio_at_least=2),
        Goal(OURS, versus=TWIN, ratio_at_most=SLOWER_AT_MOST),
    ]


def notes() -> list[str]:
    """Return a warning for readers if the goals are not checked."""
    if KERNEL == "compiled":
        return []
    return [
        "GOALS NOT HELD: there is no compiled kernel here, and the goals of this table are about"
        " it. That none is missed says nothing; install with a C compiler and without MOLDAU_PURE."
    ]


def record_tables() -> list[Table]:
    encode_theirs, decode_theirs = aiokafka_pair()
    batch = open_batch(BATCH)
    section, header = batch.section(), batch.header
    log = BATCH * 20
    return [
        Table(
            "Encode 500 records",
            "records/s",
            [
                case(OURS, lambda: encode_batch(ROWS), 400),
                case(f"{OURS}, one by one", append_one_by_one, 100),
                case(TWIN, encode_pure, 30),
                case(PEER, encode_theirs, 60),
            ],
            goals(25e6),
            notes=notes(),
        ),
        Table(
            "Decode 500 records",
            "records/s",
            [
                case(OURS, lambda: decode_batch(BATCH), 300),
                case(f"{OURS}, columns", lambda: open_batch(BATCH).columns(), 200),
                case(TWIN, decode_pure, 30),
                case(PEER, decode_theirs, 60),
            ],
            goals(8e6),
            notes=notes(),
        ),
        Table(
            "Judge 500 records without making them",
            "records/s",
            [
                case("validate", lambda: validate(BATCH), 400),
                case("scan alone", lambda: scan(section, header, 1), 1000),
                case("scan alone, pure twin", lambda: pure.scan(section, header, 1), 20),
                case("decode alone", lambda: decode(section, header), 300),
                case("walk to the next batch", lambda: list(walk(log)), 100, RECORDS * 20),
            ],
        ),
    ]


def payload() -> bytes:
    """Return 60 KB of JSON lines, as in batches."""
    lines = (
        b'{"id":%d,"city":"%s","price":%d.%02d,"note":"%x"}\n'
        % (index, (b"Praha", b"Brno", b"Wien")[index % 3], index * 37 % 9001, index % 100, index**5)
        for index in range(1000)
    )
    return b"".join(lines)[:60_000]


def codec_tables() -> list[Table]:
    data = payload()
    packed = {codec: bytes(compress(codec, data)) for codec in Codec}
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(data)
    ratios = ", ".join(f"{codec.name} {len(data) / len(packed[codec]):.1f}" for codec in packed)
    size = len(data)
    packers = {
        "snappy": lambda: compress(Codec.SNAPPY, data),
        "lz4": lambda: compress(Codec.LZ4, data),
        "zstd": lambda: compress(Codec.ZSTD, data),
        "zstd level 1": lambda: compress(Codec.ZSTD, data, 1),
        "gzip": lambda: compress(Codec.GZIP, data),
        "gzip level 1": lambda: compress(Codec.GZIP, data, 1),
        "cramjam's lz4": lambda: cramjam.lz4.compress(data, level=1),
        "cramjam's zstd": lambda: cramjam.zstd.compress(data, 3),
        "cramjam's gzip": lambda: cramjam.gzip.compress(data, 6),
    }
    unpackers = {
        "snappy": lambda: decompress(Codec.SNAPPY, packed[Codec.SNAPPY]),
        "lz4": lambda: decompress(Codec.LZ4, packed[Codec.LZ4]),
        "zstd": lambda: decompress(Codec.ZSTD, packed[Codec.ZSTD]),
        "zstd without content size": lambda: decompress(Codec.ZSTD, unsized),
        "gzip": lambda: decompress(Codec.GZIP, packed[Codec.GZIP]),
        "cramjam's lz4, unbounded": lambda: cramjam.lz4.decompress(packed[Codec.LZ4]),
        "lz4.frame, unbounded": lambda: lz4.frame.decompress(packed[Codec.LZ4]),
        "cramjam's zstd, unbounded": lambda: cramjam.zstd.decompress(packed[Codec.ZSTD]),
        "cramjam's gzip, unbounded": lambda: cramjam.gzip.decompress(packed[Codec.GZIP]),
    }
    return [
        Table(
            "Compress 60 KB of JSON lines",
            "bytes/s",
            [case(name, work, 20, size) for name, work in packers.items()],
            notes=[f"ratios: {ratios}"],
        ),
        Table(
            "Decompress 60 KB, bounded",
            "bytes/s",
            [case(name, work, 40, size) for name, work in unpackers.items()],
        ),
        Table(
            "Checksum of 60 KB",
            "bytes/s",
            [
                case("crc32c", lambda: crc32c(data), 400, size),
                case("zlib.crc32", lambda: zlib.crc32(data), 100, size),
            ],
        ),
    ]


def tables() -> list[Table]:
    """Return all tables of this area."""
    return [*record_tables(), *codec_tables()]
