"""The bytes of internal topics are those of Java's MirrorMaker."""

from __future__ import annotations

import pytest

from moldau.client import TopicPartition
from moldau.mirror.formats import BadMirrorRecord, Checkpoint, Heartbeat, OffsetSync

SYNC = OffsetSync(TopicPartition("orders", 3), 7, 9)
CHECKPOINT = Checkpoint("billing", TopicPartition("A.orders", 3), 7, 9, "note")
HEARTBEAT = Heartbeat("A", "B", 1_700_000_000_000)


def test_an_offset_sync_has_the_bytes_of_java() -> None:
    assert SYNC.key == b"\0\x06orders\0\0\0\x03"
    assert SYNC.value == b"\0" * 7 + b"\x07" + b"\0" * 7 + b"\x09"


def test_a_checkpoint_has_the_bytes_of_java() -> None:
    assert CHECKPOINT.key == b"\0\x07billing\0\x08A.orders\0\0\0\x03"
    assert CHECKPOINT.value == b"\0\0" + b"\0" * 7 + b"\x07" + b"\0" * 7 + b"\x09\0\x04note"


def test_a_heartbeat_has_the_bytes_of_java() -> None:
    assert HEARTBEAT.key == b"\0\x01A\0\x01B"
    assert HEARTBEAT.value == b"\0\0" + (1_700_000_000_000).to_bytes(8, "big")


def test_what_was_written_is_read() -> None:
    for each in (SYNC, CHECKPOINT, HEARTBEAT):
        assert type(each).read(each.key, each.value) == each


@pytest.mark.parametrize("kind", [OffsetSync, Checkpoint, Heartbeat])
@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\x05abc", b"\0\x01\xff\0\x01\xff"])
def test_other_bytes_are_refused(
    kind: type[OffsetSync] | type[Checkpoint] | type[Heartbeat], data: bytes
) -> None:
    with pytest.raises(BadMirrorRecord):
        kind.read(data, data)


def test_a_later_version_is_refused() -> None:
    with pytest.raises(BadMirrorRecord, match="version"):
        Heartbeat.read(HEARTBEAT.key, b"\0\x01" + HEARTBEAT.value[2:])
