"""Finds where and why reading or writing a message failed.

Generated code has no error handling: it fails with whatever Python raises, or with `Refused`. The
line of the failure identifies the field, and the local variables show the position, so the error is
built afterwards from the traceback, at no cost to valid messages. Then the traceback is dropped:
its frames hold the input and everything that was decoded so far.
"""

from __future__ import annotations

import struct
from operator import attrgetter
from types import FrameType, TracebackType
from typing import Final, NamedTuple, TypeAlias

from moldau.errors import MalformedMessage, MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.spec import ArrayOf, StructSpec


class Refused(Exception):
    """An error raised by generated code itself; it is always turned into an error with a place."""

    def __init__(self, reason: str, **facts: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.facts = facts


class NotInVersion(Refused):
    """A value is set, but the version to write has no field for it."""


class UnencodableMessage(MoldauError):
    """A value of ours that its field cannot carry: too long, null, out of range, wrong type."""


class Index(NamedTuple):
    """The `[3]` of a path, computed from local variables.

    A reader's list holds the complete elements; a writer's list contains `item`.
    """

    variable: str
    item: str = ""


REASON_LENGTH_MAX: Final = 8_000
"""A string has at most 32,767 bytes, and a character at most 4."""

Path: TypeAlias = tuple[str | Index, ...]


class PackedValue(NamedTuple):
    """A value that is packed together with others: `variable.field`, and its format."""

    value: str
    format: str
    path: Path


class FieldPosition(NamedTuple):
    """The field that a generated line works on, or a run of fields.

    If a run is read, `run` has the end of each field, counted from `p`; if it is written, `values`
    has the packed values.
    """

    path: Path
    run: tuple[tuple[int, Path], ...] = ()
    values: tuple[PackedValue, ...] = ()


READ_FAILURES = (Refused, struct.error, IndexError, UnicodeDecodeError)
WRITE_FAILURES = (
    Refused,
    struct.error,
    TypeError,
    AttributeError,
    UnicodeEncodeError,
    OverflowError,
    ValueError,
)


def malformed(
    error: Exception, name: str, version: int, places: list[FieldPosition]
) -> MalformedMessage:
    """Return the error of a reader that failed, with message, version, field and position."""
    frame, line = _generated_frame(error.__traceback__, f"<read {name} {version}>")
    place = places[line - 1]
    variables = frame.f_locals
    position = variables["p"]
    path = place.path
    if place.run:
        path, position = _cut_field(place, position, len(variables["data"]) - position)
    field = _spell(path, frame)
    error.__traceback__ = None
    reason, facts = _reason_of(error)
    return MalformedMessage(
        reason, message=name, version=version, field=field, position=position, **facts
    )


def unencodable(
    error: Exception, name: str, version: int, places: list[FieldPosition]
) -> MoldauError:
    """Return the error of a writer that failed, with message, version and field."""
    frame, line = _generated_frame(error.__traceback__, f"<write {name} {version}>")
    place = places[line - 1]
    path = next((packed.path for packed in place.values if not _fits(packed, frame)), place.path)
    facts: dict[str, object] = {"message": name, "version": version, "field": _spell(path, frame)}
    error.__traceback__ = None
    if isinstance(error, NotInVersion):
        return KafkaError(ErrorCode.UNSUPPORTED_VERSION, error.reason, **facts, **error.facts)
    if isinstance(error, Refused):
        return UnencodableMessage(error.reason, **facts, **error.facts)
    if "NoneType" in str(error):
        return UnencodableMessage("null where the field is never null", **facts)
    return UnencodableMessage("the value does not fit its field", **facts, because=str(error))


def shorten_reasons(spec: StructSpec, message: object) -> bool:
    """Cut the texts of errors in a message that did not fit their fields: a reason that repeats a
    long name of the request is longer than that. Return whether there was one."""
    found = False
    for field in spec.fields:
        value = getattr(message, field.name, None)
        element = field.type.element if isinstance(field.type, ArrayOf) else field.type
        if isinstance(element, StructSpec):
            for each in value if isinstance(value, list) else [value]:
                found |= shorten_reasons(element, each)
        elif (
            field.name.endswith("error_message")
            and isinstance(value, str)
            and len(value) > REASON_LENGTH_MAX
        ):
            setattr(message, field.name, value[: REASON_LENGTH_MAX - 3] + "...")
            found = True
    return found


def _fits(packed: PackedValue, frame: FrameType) -> bool:
    variable, *fields = packed.value.split(".")
    try:
        struct.pack(f">{packed.format}", attrgetter(".".join(fields))(frame.f_locals[variable]))
    except WRITE_FAILURES:
        return False
    return True


def _cut_field(place: FieldPosition, position: int, left: int) -> tuple[Path, int]:
    """Return the first field of a run that is incomplete, and its position."""
    start = 0
    for end, _ in place.run[:-1]:
        if end > left:
            break
        start = end
    path = next(path for end, path in place.run if end > start)
    return path, position + start


def _generated_frame(traceback: TracebackType | None, filename: str) -> tuple[FrameType, int]:
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == filename:
            return traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next
    raise AssertionError(f"no frame of {filename} in the traceback")


def _reason_of(error: Exception) -> tuple[str, dict[str, object]]:
    if isinstance(error, Refused):
        return error.reason, error.facts
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8", {"byte": error.start}
    return "the input ends too early", {}


def _spell(path: Path, frame: FrameType) -> str:
    text = ""
    for part in path:
        if isinstance(part, Index):
            text += f"[{_position_of(part, frame)}]"
        else:
            text += f".{part}" if text else part
    return text


def _position_of(index: Index, frame: FrameType) -> int:
    elements = frame.f_locals[index.variable]
    if not index.item:
        return len(elements)
    item = frame.f_locals[index.item]
    return next(at for at, element in enumerate(elements) if element is item)
