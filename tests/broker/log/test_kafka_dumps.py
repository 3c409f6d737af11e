"""Apache Kafka's DumpLogSegments reads our snapshot files and transaction indexes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from moldau.broker.log.names import TRANSACTION_INDEX, segment_file_name
from moldau.broker.log.producer_snapshot import ProducerSnapshots
from moldau.broker.log.producer_state import Origin, ProducerState
from moldau.broker.log.transaction_index import AbortedTransaction, TransactionIndex
from moldau.runtime.real_files import RealFiles
from tests.broker.log.producing import NOW, data_batch, marker_batch
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import TOOL_JVM


def dumped(path: str) -> str:
    kafka = fetch_or_skip()
    dump = "org.apache.kafka.tools.DumpLogSegments"
    command = [*kafka.command(*TOOL_JVM), dump, "--files", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)  # noqa: S603
    return done.stdout


@pytest.mark.real
def test_kafka_dumps_our_producer_snapshot(tmp_path: Path) -> None:
    state = ProducerState(86_400_000)
    batches = [
        data_batch(7, 3, 0, 4),
        data_batch(8, 1, 9, 2, transactional=True, place=(4, NOW + 1)),
        marker_batch(9, 2, offset=6, coordinator_epoch=5, timestamp=NOW + 2),
    ]
    for batch in batches:
        append = state.prepare(Origin.REPLICATION)
        append.add(batch)
        state.commit(append)
    snapshots = ProducerSnapshots(RealFiles(), str(tmp_path))
    offset = snapshots.take(state, sync=True)
    assert offset == 7
    lines = [line for line in dumped(snapshots.path(offset)).splitlines() if "producerId" in line]
    told = [re.findall(r"(\w+): (-?\d+|None|\w+\[\d+\]|OptionalLong\S+)", line) for line in lines]
    facts = [dict(each) for each in told]
    assert [each["producerId"] for each in facts] == ["7", "8", "9"]
    assert [each["producerEpoch"] for each in facts] == ["3", "1", "2"]
    assert [each["coordinatorEpoch"] for each in facts] == ["-1", "-1", "5"]
    assert [each["lastTimestamp"] for each in facts] == [str(NOW + at) for at in (3, 2, 2)]
    assert [each.get("lastSequence") for each in facts] == ["3", "10", None]
    assert "4" in facts[1]["currentTxnFirstOffset"]


@pytest.mark.real
def test_kafka_dumps_our_transaction_index(tmp_path: Path) -> None:
    path = str(tmp_path / segment_file_name(0, TRANSACTION_INDEX))
    index = TransactionIndex(RealFiles(), path, 0)
    index.append(AbortedTransaction(1, 0, 10, 5), AbortedTransaction(2, 6, 20, 21))
    index.close()
    said = dumped(path)
    found = re.findall(r"producerId: (\d+).*?(\d+)\D+(\d+)\D+lastStableOffset: (\d+)", said)
    assert found == [("1", "0", "10", "5"), ("2", "6", "20", "21")]
