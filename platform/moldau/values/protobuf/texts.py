"""Messages of Protobuf in its JSON, and back.

Invariant: JSON that `message_to_json` returns gives the same message again, or it raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.values.failures import DeserializationFailed, SerializationFailed

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

_CHECKED: Final = frozenset(
    f"google.protobuf.{name}" for name in ("Any", "Struct", "Value", "ListValue", "FieldMask")
)
"""Messages whose JSON does not always give them again."""


def message_of_json(kind: type[Message], value: Mapping[str, Any]) -> Message:
    """Return the message that a mapping says. Raise SerializationFailed, which names the field."""
    from google.protobuf.json_format import ParseDict, ParseError

    try:
        pool: Any = kind.DESCRIPTOR.file.pool
        made: Message = ParseDict(dict(value), kind(), descriptor_pool=pool)
    except (ParseError, TypeError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise SerializationFailed(f"no {kind.DESCRIPTOR.full_name}: {reason}") from error
    return made


def needs_check(descriptor: Descriptor, seen: set[str] | None = None) -> bool:
    """Whether a message may hold something whose JSON does not always give it again."""
    seen = set() if seen is None else seen
    if descriptor.full_name in seen:
        return False
    seen.add(descriptor.full_name)
    return (
        descriptor.full_name in _CHECKED
        or descriptor.is_extendable
        or any(
            needs_check(each.message_type, seen)
            for each in descriptor.fields
            if each.message_type is not None
        )
    )


def message_to_json(message: Message, *, is_checked: bool) -> dict[str, Any]:
    """Return the JSON of a message. Raise DeserializationFailed if it would not give it again."""
    from google.protobuf.json_format import Error as NoJson
    from google.protobuf.json_format import MessageToDict

    pool: Any = message.DESCRIPTOR.file.pool
    try:
        fields: dict[str, Any] = MessageToDict(
            message, preserving_proto_field_name=True, descriptor_pool=pool
        )
        known = type(message)()
        known.CopyFrom(message)
        known.DiscardUnknownFields()
        if known.ByteSize() != message.ByteSize():
            raise DeserializationFailed("it has fields that its schema has not, so JSON lacks them")
        if is_checked and _bytes_of(message_of_json(type(message), fields)) != _bytes_of(message):
            raise DeserializationFailed("JSON cannot say all of it")
    except (NoJson, TypeError, ValueError, SerializationFailed) as error:
        reason = " ".join(str(error).split())
        raise DeserializationFailed(f"it cannot be written as JSON: {reason}") from error
    return fields


def _bytes_of(message: Message) -> bytes:
    return message.SerializePartialToString(deterministic=True)
