"""Apache Kafka's DumpLogSegments reads a segment of our `__remote_log_metadata`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from moldau.broker.tiered.metadata_records import encode
from moldau.broker.tiered.remote_segment import DeletionState, PartitionDeletion, SegmentState
from moldau.records import BatchBuilder
from tests.broker.tiered.segments import NOW, TOPIC, TOPIC_ID, changed, segment
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import TOOL_JVM

EVENTS = (
    segment(1, range(10, 20), ((3, 10), (4, 15))),
    changed(1, SegmentState.COPY_FINISHED),
    PartitionDeletion(TOPIC_ID, 0, TOPIC, DeletionState.MARKED, 1, NOW),
)


@pytest.mark.deep
@pytest.mark.real
def test_kafka_decodes_each_record(tmp_path: Path) -> None:
    kafka = fetch_or_skip()
    builder = BatchBuilder()
    for event in EVENTS:
        assert builder.append(NOW, None, encode(event)) is not None
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(builder.build()))
    dump = "org.apache.kafka.tools.DumpLogSegments"
    command = [*kafka.command(*TOOL_JVM), dump]
    command += ["--remote-log-metadata-decoder", "--files", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)  # noqa: S603
    lines = [line for line in done.stdout.splitlines() if "payload" in line]
    assert len(lines) == 3
    assert "startOffset=10, endOffset=19" in lines[0]
    assert "segmentLeaderEpochs={3=10, 4=15}" in lines[0]
    assert "COPY_SEGMENT_FINISHED" in lines[1]
    assert "DELETE_PARTITION_MARKED" in lines[2]
