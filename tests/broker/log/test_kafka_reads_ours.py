"""Apache Kafka's own DumpLogSegments on our files: it finds each batch, entry and snapshot, and
complains of none (it holds indexes against logs itself)."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.producer_state import Origin
from moldau.broker.log.recovery import Opening
from moldau.protocol.schemas.control_records import EndTxnMarker
from moldau.records import Codec, ControlType, Producer, encode_control_batch
from moldau.runtime.real_files import RealFiles
from tests.broker.log.machine import NOW, batch
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import TOOL_JVM

CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
COMPLAINTS = ("Mismatches in", "Found ", "isvalid: false", "Exception", "do not match", "non-")


def write(folder: Path) -> PartitionLog:
    """A log of several segments with transactions, codecs and epochs."""
    log = PartitionLog.open(RealFiles(), str(folder), CONFIG, Opening(NOW))
    sequence = 0
    for number in range(150):
        codec = list(Codec)[number % 5]
        log.append_as_leader(batch(9, timestamp=NOW + number, codec=codec), number // 40, NOW)
        producer = Producer(7, 0, sequence, is_transactional=True)
        log.append_as_leader(batch(3, timestamp=NOW, producer=producer), number // 40, NOW)
        sequence += 3
        if number % 10 == 9:
            kind = ControlType.ABORT if number % 20 == 9 else ControlType.COMMIT
            value = b"\0\0" + EndTxnMarker(coordinator_epoch=2).encode(0)
            ending = Producer(7, 0, -1, is_transactional=True)
            marker = encode_control_batch([(kind, value)], NOW, producer=ending)
            log.append_as_leader(marker, number // 40, NOW, origin=Origin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)
    return log


def dump(paths: list[Path], *options: str) -> str:
    """What Kafka's tool prints about files."""
    kafka = fetch_or_skip()
    names = ",".join(map(str, paths))
    command = kafka.command(*TOOL_JVM)
    command += ["org.apache.kafka.tools.DumpLogSegments", "--files", names, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.real
def test_kafka_finds_nothing_wrong(tmp_path: Path) -> None:
    log = write(tmp_path)
    expected = [
        (each.header.base_offset, each.header.last_offset, each.header.partition_leader_epoch)
        for each in log.batches(0)
    ]
    aborted = [entry for each in log.segments for entry in each.transaction_index.all()]
    bases = [each.base_offset for each in log.segments]
    log.close()
    assert len(bases) > 2
    text = dump(sorted(tmp_path.glob("*.log")), "--deep-iteration")
    found = re.findall(
        r"^baseOffset: (\d+) lastOffset: (\d+) .*partitionLeaderEpoch: (\d+)", text, re.MULTILINE
    )
    assert [tuple(map(int, each)) for each in found] == expected
    assert not [line for line in text.splitlines() if line.startswith(COMPLAINTS)]
    indexes = [*sorted(tmp_path.glob("*.index")), *sorted(tmp_path.glob("*.timeindex"))]
    assert len(indexes) == 2 * len(bases)
    text = dump([*indexes, *sorted(tmp_path.glob("*.txnindex"))])
    assert len(re.findall(r"^offset: \d+ position: \d+", text, re.MULTILINE)) > 20
    assert len(re.findall(r"^timestamp: \d+ offset: \d+", text, re.MULTILINE)) > 1
    assert text.count("producerId: 7") == len(aborted) == 8
    assert not [line for line in text.splitlines() if line.startswith(COMPLAINTS)]
    text = dump(sorted(tmp_path.glob("*.snapshot")))
    assert text.count("producerId: 7") == len(list(tmp_path.glob("*.snapshot")))


@pytest.mark.real
def test_kafka_tells_a_planted_mismatch(tmp_path: Path) -> None:
    log = write(tmp_path)
    log.close()
    index = tmp_path / f"{0:020d}.index"
    content = bytearray(index.read_bytes())
    content[3] ^= 1
    index.write_bytes(content)
    text = dump([index])
    assert [line for line in text.splitlines() if line.startswith(COMPLAINTS)]


@pytest.mark.real
def test_an_index_in_use_is_what_kafka_preallocates(tmp_path: Path) -> None:
    config = replace(CONFIG, segment_index_bytes=1 << 20)
    log = PartitionLog.open(RealFiles(), str(tmp_path), config, Opening(NOW))
    for _ in range(20):
        log.append_as_leader(batch(9), 0, NOW)
    active = tmp_path / f"{0:020d}"
    assert active.with_suffix(".index").stat().st_size == 1 << 20
    assert active.with_suffix(".timeindex").stat().st_size == (1 << 20) // 12 * 12
    text = dump([active.with_suffix(".index")])
    assert not [line for line in text.splitlines() if line.startswith(COMPLAINTS)]
    log.close()
