"""The scalar types of the protocol, as annotations: `partition: Int32`.

Each alias is `Annotated[python type, Scalar]`: a type checker sees the Python type, the codec sees
the encoding. A value that names a topic, a group or the like has an alias with its `Entity`.
Multi-byte numbers are big-endian. Only `Records` and `BytesView` are never copied: they decode to a
memoryview of the input (valid as long as that buffer keeps its content), and encode from any
buffer, or from any sized object that the caller sends by itself, such as a slice of a file.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, NamedTuple, TypeAlias

from moldau.ids import ZERO_UUID


class Scalar(NamedTuple):
    """The encoding of one value; `format` is its `struct` code, empty if it is length-prefixed."""

    name: str
    format: str
    size: int
    zero: object


class Entity(Enum):
    """What a value names: the `entityType` of Kafka's schemas."""

    TOPIC_NAME = "topicName"
    GROUP_ID = "groupId"
    TRANSACTIONAL_ID = "transactionalId"
    BROKER_ID = "brokerId"
    PRODUCER_ID = "producerId"


BOOL = Scalar("bool", "?", 1, False)
INT8 = Scalar("int8", "b", 1, 0)
INT16 = Scalar("int16", "h", 2, 0)
UINT16 = Scalar("uint16", "H", 2, 0)
INT32 = Scalar("int32", "i", 4, 0)
UINT32 = Scalar("uint32", "I", 4, 0)
INT64 = Scalar("int64", "q", 8, 0)
FLOAT64 = Scalar("float64", "d", 8, 0.0)
UUID = Scalar("uuid", "16s", 16, ZERO_UUID)
STRING = Scalar("string", "", 0, "")
BYTES = Scalar("bytes", "", 0, b"")
BYTES_VIEW = Scalar("bytes_view", "", 0, b"")
RECORDS = Scalar("records", "", 0, b"")

Bool: TypeAlias = Annotated[bool, BOOL]
Int8: TypeAlias = Annotated[int, INT8]
Int16: TypeAlias = Annotated[int, INT16]
Uint16: TypeAlias = Annotated[int, UINT16]
Int32: TypeAlias = Annotated[int, INT32]
Uint32: TypeAlias = Annotated[int, UINT32]
Int64: TypeAlias = Annotated[int, INT64]
Float64: TypeAlias = Annotated[float, FLOAT64]
Uuid: TypeAlias = Annotated[bytes, UUID]
String: TypeAlias = Annotated[str, STRING]
Bytes: TypeAlias = Annotated[bytes, BYTES]
TopicName: TypeAlias = Annotated[str, STRING, Entity.TOPIC_NAME]
GroupId: TypeAlias = Annotated[str, STRING, Entity.GROUP_ID]
TransactionalId: TypeAlias = Annotated[str, STRING, Entity.TRANSACTIONAL_ID]
BrokerId: TypeAlias = Annotated[int, INT32, Entity.BROKER_ID]
ProducerId: TypeAlias = Annotated[int, INT64, Entity.PRODUCER_ID]

# Any, because it is a memoryview when read, and the caller's buffer or sized object when written.
BytesView: TypeAlias = Annotated[Any, BYTES_VIEW]
Records: TypeAlias = Annotated[Any, RECORDS]
