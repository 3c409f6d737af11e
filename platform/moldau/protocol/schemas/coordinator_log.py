"""The records of a coordinator's log: keys and values, found by type and wrapped in bytes.

A key is its int16 type and the message in version 0; a value is its int16 version and the message;
a missing value deletes the key. The type stands only in the key, so a value can be read only
together with its key. Bytes that follow no schema raise MalformedMessage; an unknown type
raises UnknownRecordType, which a coordinator may choose to skip.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, cast

from moldau.errors import MalformedMessage
from moldau.protocol.declare import LogKey, LogValue
from moldau.protocol.schemas import UnknownRecordType, schema_class
from moldau.protocol.schemas.versioned import Readable, decode_versioned, encode_versioned

_INT16: Final = struct.Struct(">h")


class CoordinatorLog:
    """The log of a coordinator: its topic and, by type, the common name of its keys and values."""

    __slots__ = ("_names", "topic")

    def __init__(self, topic: str, names: Mapping[int, str]) -> None:
        self.topic = topic
        self._names = names

    def types(self) -> tuple[int, ...]:
        """Return the record types of this log."""
        return tuple(self._names)

    def key_class(self, record_type: int) -> type[LogKey]:
        """Return the class of keys of that type. Raise UnknownRecordType if there is none."""
        return cast("type[LogKey]", self._class(record_type, "Key"))

    def value_class(self, record_type: int) -> type[LogValue]:
        """Return the class of values under keys of that type. Raise UnknownRecordType for none."""
        return cast("type[LogValue]", self._class(record_type, "Value"))

    def encode_key(self, key: LogKey) -> bytes:
        """Return the bytes of a record's key."""
        record_type = _type_of(key)
        assert type(key) is self.key_class(record_type), f"{key!r} is no key of {self.topic}"
        return _INT16.pack(record_type) + key.encode(0)

    def decode_key(self, data: Readable) -> LogKey:
        """Return the key in these bytes."""
        if len(data) < _INT16.size:
            raise MalformedMessage("no type before the key", log=self.topic, size=len(data))
        (record_type,) = _INT16.unpack_from(data)
        key, end = self.key_class(record_type).decode_from(data, _INT16.size, 0)
        if end != len(data):
            raise MalformedMessage("bytes after the key", log=self.topic, at=end, size=len(data))
        return key

    def encode_value(self, value: LogValue, version: int) -> bytes:
        """Return the bytes of a record's value in that version."""
        return encode_versioned(value, version)

    def decode_value(self, record_type: int, data: Readable) -> LogValue:
        """Return the value in these bytes, under a key of that type."""
        return decode_versioned(self.value_class(record_type), data)

    def decode(self, key: Readable, value: Readable | None) -> tuple[LogKey, LogValue | None]:
        """Return the key and value of a record; the value is None if the record deletes its key."""
        decoded = self.decode_key(key)
        if value is None:
            return decoded, None
        return decoded, self.decode_value(_type_of(decoded), value)

    def _class(self, record_type: int, suffix: str) -> type[Any]:
        name = self._names.get(record_type)
        if name is None:
            raise UnknownRecordType("unknown record type", log=self.topic, type=record_type)
        return schema_class(name + suffix)


def _type_of(key: LogKey) -> int:
    record_type = type(key).spec.key
    assert record_type is not None
    return record_type


GROUP_LOG: Final = CoordinatorLog(
    "__consumer_offsets",
    {
        0: "LegacyOffsetCommit",
        1: "OffsetCommit",
        2: "GroupMetadata",
        3: "ConsumerGroupMetadata",
        4: "ConsumerGroupPartitionMetadata",
        5: "ConsumerGroupMemberMetadata",
        6: "ConsumerGroupTargetAssignmentMetadata",
        7: "ConsumerGroupTargetAssignmentMember",
        8: "ConsumerGroupCurrentMemberAssignment",
        10: "ShareGroupMemberMetadata",
        11: "ShareGroupMetadata",
        12: "ShareGroupTargetAssignmentMetadata",
        13: "ShareGroupTargetAssignmentMember",
        14: "ShareGroupCurrentMemberAssignment",
        15: "ShareGroupStatePartitionMetadata",
        16: "ConsumerGroupRegularExpression",
        17: "StreamsGroupMetadata",
        19: "StreamsGroupMemberMetadata",
        20: "StreamsGroupTargetAssignmentMetadata",
        21: "StreamsGroupTargetAssignmentMember",
        22: "StreamsGroupCurrentMemberAssignment",
        23: "StreamsGroupTopology",
    },
)
TRANSACTION_LOG: Final = CoordinatorLog("__transaction_state", {0: "TransactionLog"})
SHARE_LOG: Final = CoordinatorLog("__share_group_state", {0: "ShareSnapshot", 1: "ShareUpdate"})
