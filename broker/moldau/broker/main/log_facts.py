"""Turn protocol messages, such as the records of internal topics, into plain values to print.

Invariant: a record that cannot be decoded is still shown, as bytes with the reason: a dump is for
files that may be damaged, or newer than this version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

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
from moldau.records import ControlType, Record

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
