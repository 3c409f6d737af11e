"""Confluent's rules for Protobuf: whether a reader's file can read a writer's data. No IO.

Messages are compared by name, fields by number. Names of fields and values of enums may change,
because they are not in the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from moldau.values.compatibility import Difference, Work

_MESSAGE, _ENUM, _GROUP = 11, 14, 10
_REQUIRED, _REPEATED = 2, 3
_WIRE: Final = (
    frozenset((3, 4, 5, 8, 13, 14)),  # int64, uint64, int32, bool, uint32, enum
    frozenset((17, 18)),  # sint32, sint64
    frozenset((9, 12)),  # string, bytes
    frozenset((7, 15)),  # fixed32, sfixed32
    frozenset((6, 16)),  # fixed64, sfixed64
)
"""Types that are the same in the data."""
_TEXTS: Final = frozenset((9, 12))


def differences(reader: Any, writer: Any, work: Work) -> list[Difference]:
    """Return why the reader's file cannot read the data of the writer's; [] if it can. Raise
    TooMuchWork."""
    found = []
    if reader.package != writer.package:
        text = f"the package is {reader.package or 'none'} and was {writer.package or 'none'}"
        found.append(Difference("PACKAGE_CHANGED", "#/", text))
    own, old = dict(_messages(reader.message_type)), dict(_messages(writer.message_type))
    for name, message in old.items():
        if name in own:
            work.spend(1 + len(message.field) + len(own[name].field))
            found += _message(own[name], message, f"#/{name}/")
        else:
            text = f"the message {name} was removed"
            found.append(Difference("MESSAGE_REMOVED", f"#/{name}", text))
    return found


def _messages(messages: Iterable[Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for each in messages:
        yield f"{prefix}{each.name}", each
        yield from _messages(each.nested_type, f"{prefix}{each.name}.")


def _message(reader: Any, writer: Any, path: str) -> list[Difference]:
    own = {each.number: each for each in reader.field}
    old = {each.number: each for each in writer.field}
    choices, found = _oneofs(reader), []
    for number, field in old.items():
        place = f"{path}{number}"
        if number in own:
            found += _field(own[number], field, place)
        elif field.label == _REQUIRED:
            text = f"the required field {field.name} was removed"
            found.append(Difference("REQUIRED_FIELD_REMOVED", place, text))
        elif _is_choice(field) and _oneof(writer, field) in choices:
            text = f"the choice {field.name} was removed"
            found.append(Difference("ONEOF_FIELD_REMOVED", place, text))
    for number, field in own.items():
        if number not in old and field.label == _REQUIRED:
            text = f"the required field {field.name} was added"
            found.append(Difference("REQUIRED_FIELD_ADDED", f"{path}{number}", text))
    return found + _moved(reader, writer, own, old, path)


def _moved(
    reader: Any, writer: Any, own: dict[int, Any], old: dict[int, Any], path: str
) -> list[Difference]:
    """Fields that were independent and are choices now: the data may have several of them."""
    found, moved = [], dict[str, list[str]]()
    for number, field in own.items():
        if number in old and _is_choice(field) and not _is_choice(old[number]):
            moved.setdefault(_oneof(reader, field), []).append(field.name)
    choices = _oneofs(writer)
    for name, fields in moved.items():
        place, shown = f"{path}{name}", ", ".join(fields)
        if name in choices:
            text = f"{shown} moved into the existing oneof {name}"
            found.append(Difference("FIELD_MOVED_TO_EXISTING_ONEOF", place, text))
        elif len(fields) > 1:
            text = f"{shown} moved into the oneof {name}"
            found.append(Difference("MULTIPLE_FIELDS_MOVED_TO_ONEOF", place, text))
    return found


def _field(reader: Any, writer: Any, path: str) -> list[Difference]:
    found = _type(reader, writer, path)
    if found:
        return found
    is_many, was_many = reader.label == _REPEATED, writer.label == _REPEATED
    if is_many != was_many and reader.type not in _TEXTS and reader.type not in (_MESSAGE, _GROUP):
        text = f"{reader.name} is {'' if is_many else 'not '}repeated now"
        found.append(Difference("FIELD_NUMERIC_LABEL_CHANGED", path, text))
    if reader.label == _REQUIRED != writer.label:
        text = f"{reader.name} has become required"
        found.append(Difference("REQUIRED_FIELD_ADDED", path, text))
    return found


def _type(reader: Any, writer: Any, path: str) -> list[Difference]:
    named = (_MESSAGE, _GROUP)
    if (reader.type in named) != (writer.type in named):
        text = f"{reader.name} is of another kind"
        return [Difference("FIELD_KIND_CHANGED", path, text)]
    if reader.type in named or reader.type == writer.type == _ENUM:
        if reader.type_name == writer.type_name:
            return []
        text = f"{reader.name} is {reader.type_name} and was {writer.type_name}"
        return [Difference("FIELD_NAMED_TYPE_CHANGED", path, text)]
    if reader.type == writer.type or any({reader.type, writer.type} <= each for each in _WIRE):
        return []
    text = f"{reader.name} has a type with another form in the data"
    return [Difference("FIELD_SCALAR_KIND_CHANGED", path, text)]


def _is_choice(field: Any) -> bool:
    return bool(field.HasField("oneof_index") and not field.proto3_optional)


def _oneof(message: Any, field: Any) -> str:
    return str(message.oneof_decl[field.oneof_index].name)


def _oneofs(message: Any) -> set[str]:
    return {_oneof(message, each) for each in message.field if _is_choice(each)}
