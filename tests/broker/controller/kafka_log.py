"""A metadata log that Apache Kafka 4.3.1 wrote, and its snapshot, read from the kept data."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

from moldau.broker.controller.image import Image
from moldau.protocol.schemas.framed_log import METADATA_LOG
from moldau.records import Batch, open_batch

_KEPT = Path(__file__).with_name("kafka_metadata_log.txt")
SNAPSHOT_OFFSET = 195


def _section(name: str) -> list[Batch]:
    section = ""
    batches = []
    for line in _KEPT.read_text(encoding="ascii").splitlines():
        if line in ("log", "snapshot"):
            section = line
        elif section == name and not line.startswith("#"):
            batches.append(open_batch(b64decode(line)))
    return batches


def log_batches() -> list[Batch]:
    """The log, in order."""
    return _section("log")


def snapshot_bytes() -> bytes:
    """The whole snapshot file."""
    return b"".join(bytes(each.data) for each in _section("snapshot"))


def written(start: int, end: int) -> list[tuple[object, int]]:
    """The records at these offsets, each with the version that Kafka wrote it in."""
    return [
        METADATA_LOG.decode(record.value)
        for batch in log_batches()
        if not batch.header.is_control
        for record in batch.records()
        if start <= record.offset < end and record.value is not None
    ]


def image_before(offset: int) -> Image:
    """What the log says below that offset."""
    image = Image()
    for record, _ in written(0, offset):
        image.replay(record)  # type: ignore[arg-type]
    return image
