"""The batches of a segment or of a KRaft snapshot, one by one, with every checksum checked.

Turn protocol messages, such as the records of internal topics, into plain values to print.

Invariant: a record that cannot be decoded is still shown, as bytes with the reason: a dump is for
files that may be damaged, or newer than this version.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from moldau.broker.log.names import parse_partition_dir
from moldau.broker.log.scan import batches
from moldau.broker.log.slice import SegmentFile
from moldau.deferred import dataclass
from moldau.errors import BadData
from moldau.ids import format_uuid
from moldau.protocol.declare import Message, Struct
from moldau.protocol.schemas import schema_class
from moldau.protocol.schemas.coordinator_log import (
    GROUP_LOG,
    SHARE_LOG,
    TRANSACTION_LOG,
    CoordinatorLog,
)
from moldau.protocol.schemas.framed_log import METADATA_LOG, REMOTE_LOG, FramedLog
from moldau.protocol.schemas.versioned import decode_versioned
from moldau.records import Batch, ControlType, Record, control_records
from moldau.runtime.files import Files

Facts = dict[str, Any]
Decode = Callable[[Record], Facts]

_UUID_BYTES: Final = 16
_KRAFT_CONTROL: Final = {
    ControlType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlType.KRAFT_VOTERS: "VotersRecord",
}


def message_facts(message: Struct) -> Facts:
    """Return the fields of a message by name."""
    return {
        field.name: _plain(getattr(message, field.name), _is_uuid(field.type))
        for field in type(message).spec.fields
    }


def _is_uuid(field_type: Any) -> bool:
    element = getattr(field_type, "element", field_type)
    return getattr(element, "name", "").lower() == "uuid"


def _plain(value: Any, is_uuid: bool) -> Any:
    if isinstance(value, Struct):
        return message_facts(value)
    if isinstance(value, list):
        return [_plain(each, is_uuid) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return format_uuid(data) if is_uuid and len(data) == _UUID_BYTES else text(data)
    return value


def text(data: bytes | None) -> str | None:
    """Return the bytes as readable text. Bytes that are not UTF-8 are escaped."""
    return None if data is None else data.decode("utf-8", "backslashreplace")


def decoder_of(topic: str | None) -> Decode:
    """Return the function that decodes the records of the topic. For the metadata topic it also
    decodes the records of a KRaft snapshot."""
    framed = {each.topic: each for each in (METADATA_LOG, REMOTE_LOG)}.get(topic or "")
    if framed is not None:
        return lambda record: _or_bytes(record, lambda: _framed(framed, record))
    logs = (GROUP_LOG, TRANSACTION_LOG, SHARE_LOG)
    coordinator = {each.topic: each for each in logs}.get(topic or "")
    if coordinator is not None:
        return lambda record: _or_bytes(record, lambda: _coordinated(coordinator, record))
    return _as_bytes


def _as_bytes(record: Record) -> Facts:
    return {"key": text(record.key), "value": text(record.value)}


def _or_bytes(record: Record, decode: Callable[[], Facts]) -> Facts:
    try:
        return decode()
    except BadData as error:
        return {**_as_bytes(record), "undecoded": str(error)}


def _framed(log: FramedLog, record: Record) -> Facts:
    message, version = log.decode(record.value or b"")
    return {"type": type(message).__name__, "version": version, **_only(message)}


def _coordinated(log: CoordinatorLog, record: Record) -> Facts:
    key, value = log.decode(record.key or b"", record.value)
    told = None if value is None else {"type": type(value).__name__, **_only(value)}
    return {"key": {"type": type(key).__name__, **_only(key)}, "value": told}


def _only(message: Message) -> Facts:
    return {"fields": message_facts(message)}


def control_facts(control_type: int, value: bytes | None) -> Facts:
    """Return the type and the fields of a control record."""
    try:
        kind = ControlType(control_type)
    except ValueError:
        return {"control": control_type, "value": text(value)}
    facts: Facts = {"control": kind.name}
    try:
        facts |= _only(_control_message(kind, value or b""))
    except BadData as error:
        facts |= {"value": text(value), "undecoded": str(error)}
    return facts


def _control_message(kind: ControlType, value: bytes) -> Message:
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        return decode_versioned(schema_class("EndTxnMarker"), value)
    cls = schema_class(_KRAFT_CONTROL[kind])
    version = int.from_bytes(value[:2], "big")
    return cls.decode(value, min(version, cls.spec.versions.last))


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
