"""Protobuf files that every registry knows, and pools that hold a file with all its imports.

The Python package of protobuf does not contain Confluent's and some of Google's files, so they are
described here: dates, times of day, decimals, and the option that keeps what protobuf cannot
express.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from moldau.plugins.extras import need
from moldau.values.failures import DeserializationFailed

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

META: Final = "confluent/meta.proto"
DECIMAL: Final = "confluent/type/decimal.proto"
DATE: Final = "google/type/date.proto"
TIME: Final = "google/type/timeofday.proto"
TIMESTAMP: Final = "google/protobuf/timestamp.proto"
WRAPPERS: Final = "google/protobuf/wrappers.proto"

_BYTES, _INT32, _UINT32, _STRING, _MESSAGE = 12, 5, 13, 9, 11
_OPTIONAL, _REPEATED = 1, 3
_META_NUMBER: Final = 1088
_DESCRIPTOR: Final = "google/protobuf/descriptor.proto"
_ANY: Final = "google/protobuf/any.proto"
_IN_ANY: Final = tuple(
    f"google/protobuf/{name}.proto"
    for name in ("duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
)
"""The files of messages that an `Any` may hold though its own file does not import them."""
_FIELDS: Final[Mapping[str, tuple[str, str, tuple[tuple[str, int], ...]]]] = {
    DECIMAL: (
        "confluent.type", "Decimal", (("value", _BYTES), ("precision", _UINT32), ("scale", _INT32)),
    ),
    DATE: ("google.type", "Date", (("year", _INT32), ("month", _INT32), ("day", _INT32))),
    TIME: (
        "google.type", "TimeOfDay",
        (("hours", _INT32), ("minutes", _INT32), ("seconds", _INT32), ("nanos", _INT32)),
    ),
}  # fmt: skip


META_TEXT: Final = """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
}
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""


def meta_file() -> FileDescriptorProto:
    """Return the file of META_TEXT."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name=META, package="confluent", syntax="proto3")
    file.dependency.append(_DESCRIPTOR)
    meta = file.message_type.add(name="Meta")
    meta.field.add(name="doc", number=1, type=_STRING, label=_OPTIONAL)
    entry = meta.nested_type.add(name="ParamsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, type=_STRING, label=_OPTIONAL)
    meta.field.add(
        name="params", number=2, type=_MESSAGE, label=_REPEATED,
        type_name=".confluent.Meta.ParamsEntry",
    )  # fmt: skip
    meta.field.add(name="tags", number=3, type=_STRING, label=_REPEATED)
    for part in ("File", "Message", "Field", "Enum", "EnumValue"):
        name = "enum_value" if part == "EnumValue" else part.lower()
        file.extension.add(
            name=f"{name}_meta", number=_META_NUMBER, type=_MESSAGE, label=_OPTIONAL,
            type_name=".confluent.Meta", extendee=f".google.protobuf.{part}Options",
        )  # fmt: skip
    return file


DESCRIBED: Final = tuple(_FIELDS)
"""The other files that protobuf does not ship."""


def file_of(name: str) -> FileDescriptorProto | None:
    """Return a file that every registry knows; None for any other."""
    from google.protobuf import descriptor_pb2

    if name == META:
        return meta_file()
    if name in _FIELDS:
        package, message, fields = _FIELDS[name]
        file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")
        made = file.message_type.add(name=message)
        for number, (field, kind) in enumerate(fields, 1):
            made.field.add(name=field, number=number, type=kind, label=_OPTIONAL)
        return file
    if not name.startswith("google/"):
        return None
    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    try:
        found = import_module(module).DESCRIPTOR
    except ModuleNotFoundError:
        return None
    return descriptor_pb2.FileDescriptorProto.FromString(found.serialized_pb)


def descriptor_of(text: str) -> FileDescriptorProto | None:
    """Return the file that a text has in base64, or None if it is the text of a .proto file."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        data = base64.b64decode(text, validate=True)
        found = descriptor_pb2.FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return None
    return found if found.message_type or found.enum_type or found.dependency else None


def pool_of(file: FileDescriptorProto, referenced: Mapping[str, FileDescriptorProto]) -> Any:
    """Return a pool of its own with a file and all its imports. `referenced` are those that every
    registry does not know, by the names in the imports. Raise DeserializationFailed for a missing
    import."""
    need("google.protobuf", "protobuf")
    from google.protobuf.descriptor_pool import DescriptorPool

    pool, added = DescriptorPool(), set[str]()
    try:
        _add(pool, file.dependency, referenced, added)
        if _ANY in added:
            _add(pool, _IN_ANY, referenced, added)
        pool.AddSerializedFile(file.SerializeToString())
    except TypeError as error:
        raise DeserializationFailed(f"a protobuf schema is broken: {error}") from None
    return pool


def _add(
    pool: DescriptorPool,
    names: Iterable[str],
    referenced: Mapping[str, FileDescriptorProto],
    added: set[str],
) -> None:
    for name in names:
        if name in added:
            continue
        added.add(name)
        file = referenced.get(name) or file_of(name)
        if file is None:
            raise DeserializationFailed(
                "a protobuf schema imports a file that is not installed, nor one of its references",
                file=name,
            )
        _add(pool, file.dependency, referenced, added)
        pool.AddSerializedFile(file.SerializeToString())
