"""The batches of a segment or of a KRaft snapshot, one by one, with every checksum checked."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from moldau.broker.log.names import parse_partition_dir
from moldau.broker.log.scan import batches
from moldau.broker.log.slice import SegmentFile
from moldau.broker.main.log_facts import Decode, Facts, control_facts, decoder_of, text
from moldau.errors import BadData
from moldau.protocol.schemas.framed_log import METADATA_LOG
from moldau.records import Batch, control_records
from moldau.runtime.files import Files

CHECKPOINT: Final = ".checkpoint"


class Item(NamedTuple):
    """One item of a dumped file: a part of its contents, or a problem (`kind` is "problem")."""

    kind: str
    facts: Facts


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """Which part of a log to show."""

    records: bool = False
    first_offset: int = 0
    limit: int | None = None


def dump_batches(files: Files, path: str, options: DumpOptions) -> Iterator[Item]:
    """Yield the batches from `first_offset` on, at most `limit` of them. Every batch of the file is
    checked, whether it is shown or not."""
    decode = decoder_of(topic_of(path))
    told = 0
    expected: int | None = None
    source = SegmentFile(files.open(path))
    end = source.file.size
    try:
        for batch in batches(source, 0, end):
            yield from _problems(batch, expected)
            expected = batch.header.next_offset
            is_wanted = batch.header.last_offset >= options.first_offset
            if not is_wanted or (options.limit is not None and told >= options.limit):
                continue
            told += 1
            yield Item("batch", batch_facts(batch))
            if options.records:
                yield from _records(batch, decode)
    except BadData as error:
        yield problem(error.reason, **error.context)


def problem(what: str, /, **context: object) -> Item:
    """Return an item that describes a problem."""
    return Item("problem", {"what": what, **context})


def topic_of(path: str) -> str | None:
    """Return the topic whose log a file belongs to, from its directory's name; None if unknown."""
    if path.endswith(CHECKPOINT):
        return METADATA_LOG.topic
    where = parse_partition_dir(posixpath.basename(posixpath.dirname(path)))
    return None if where is None else where.topic


def _problems(batch: Batch, expected: int | None) -> Iterator[Item]:
    header = batch.header
    try:
        batch.check_crc()
    except BadData as error:
        yield problem(error.reason, **error.context)
    if expected is not None and header.base_offset < expected:
        yield problem(
            "offsets go back", at=batch.position, base_offset=header.base_offset, expected=expected
        )


def batch_facts(batch: Batch) -> Facts:
    """Return the fields of a batch's header."""
    header = batch.header
    facts: Facts = {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "position": batch.position,
        "size_bytes": header.size_bytes,
        "records": header.record_count,
        "compression": batch.codec.name.lower(),
        "leader_epoch": header.partition_leader_epoch,
        "timestamp_type": "append" if header.is_log_append_time else "create",
        "max_timestamp": header.max_timestamp,
        "crc": header.crc,
    }
    if header.has_producer_id:
        facts["producer"] = header.producer_id
        facts["producer_epoch"] = header.producer_epoch
        facts["base_sequence"] = header.base_sequence
        facts["last_sequence"] = header.last_sequence
    for name, value in (
        ("transactional", header.is_transactional),
        ("control", header.is_control),
        ("delete_horizon_ms", header.delete_horizon_ms),
    ):
        if value:
            facts[name] = value
    return facts


def _records(batch: Batch, decode: Decode) -> Iterator[Item]:
    try:
        if batch.header.is_control:
            for control in control_records(batch):
                facts = control_facts(control.type, control.value)
                yield Item("record", {"offset": control.offset, **facts})
            return
        for record in batch.records():
            facts = {"offset": record.offset, "timestamp": record.timestamp}
            if record.headers:
                headers = [{"name": name, "value": text(value)} for name, value in record.headers]
                facts["headers"] = headers
            yield Item("record", {**facts, **decode(record)})
    except BadData as error:
        yield problem(error.reason, **{"at": batch.position, **error.context})
