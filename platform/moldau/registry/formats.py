"""The types of schemas that the registry knows: parsed, printed and compared.

`moldau.values` has what they are; protoc compiles those of Protobuf, .proto texts or descriptors in
base64. What was given as text is stored as that text, with its comments; a descriptor is stored as
the text that it means, as in Confluent's registry. Two Protobuf schemas are the same if their
descriptors print alike.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final

from moldau.deferred import deferred_pattern
from moldau.plugins.extras import need
from moldau.runtime.protoc import ProtocFailed, compile_proto
from moldau.values.compatibility import (
    Difference,
    InvalidSchema,
    ParsedSchema,
    Resolve,
    Work,
    collect,
)
from moldau.values.protobuf.compatibility import differences
from moldau.values.protobuf.files import DESCRIBED, META, META_TEXT, descriptor_of, file_of
from moldau.values.protobuf.printed import printed, text_of
from moldau.values.schema import AVRO, JSON, PROTOBUF, Schema

_MAIN: Final = "moldau-main.proto"
_SERIALIZED: Final = "serialized"
_SYNTAX: Final = deferred_pattern(r"\b(syntax|edition)\s*=")


class ProtobufSchema:
    """A parsed Protobuf schema: its file, and the files that it imports."""

    def __init__(self, text: str | None, file: Any, imports: list[Any]) -> None:
        self._text = text
        self.file = file
        self.imports = imports

    @cached_property
    def canonical(self) -> str:
        return self.identity if self._text is None else self._text

    @cached_property
    def identity(self) -> str:
        return printed(self.file, self.imports)

    @cached_property
    def normalized(self) -> str:
        return printed(self.file, self.imports, is_sorted=True)

    def differences(self, writer: ProtobufSchema, work: Work) -> list[Difference]:
        return differences(self.file, writer.file, work)

    def text(self, format: str) -> str | None:
        """Return the descriptor in base64 for `serialized`."""
        if format != _SERIALIZED:
            return None
        return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode()


def parse_protobuf(schema: Schema, resolve: Resolve) -> ProtobufSchema:
    """Parse a schema by protoc. Raise InvalidSchema."""
    need("google.protobuf", "registry-protobuf")
    need("grpc_tools", "registry-protobuf")
    files = {
        name: _with_syntax(text_of(each.text)) for name, each in collect(schema, resolve).items()
    }
    known = {META: META_TEXT, **{name: printed(file_of(name)) for name in DESCRIBED}}
    files = {**known, **files}
    text, given = text_of(schema.text), descriptor_of(schema.text)
    try:
        *imports, file = _compiled(text, files)
        if given is not None and (whole := printed(given, imports)) != text:
            *imports, file = _compiled(whole, files)  # with the options that references define
    except ProtocFailed as error:
        raise InvalidSchema(str(error).replace(_MAIN, "schema")) from None
    except (UnicodeError, OSError) as error:
        raise InvalidSchema(f"it cannot be compiled: {error}") from None
    file.name = "default"
    return ProtobufSchema(text if given is None else None, file, imports)


def _with_syntax(text: str) -> str:
    """Return the text with its syntax, about which protoc would else warn on standard error."""
    return text if _SYNTAX.search(text) else f'syntax = "proto2"; {text}'


def _compiled(text: str, files: Mapping[str, str]) -> list[Any]:
    """Return the descriptors of the files that a text imports, and last its own."""
    from google.protobuf import descriptor_pb2

    made = compile_proto(_MAIN, {**files, _MAIN: _with_syntax(text)})
    return list(descriptor_pb2.FileDescriptorSet.FromString(made).file)


def _avro(schema: Schema, resolve: Resolve) -> Any:
    from moldau.values.avro.printed import parse

    return parse(schema, resolve)


def _json(schema: Schema, resolve: Resolve) -> Any:
    from moldau.values.json.schemas import parse

    return parse(schema, resolve)


_FORMATS: Final[dict[str, Callable[[Schema, Resolve], Any]]] = {
    JSON: _json,
    PROTOBUF: parse_protobuf,
    AVRO: _avro,
}
TYPES: Final = tuple(_FORMATS)


def parse(schema: Schema, resolve: Resolve) -> ParsedSchema:
    """Parse a schema of any type. Raise InvalidSchema."""
    found = _FORMATS.get(schema.type)
    if found is None:
        raise InvalidSchema(f"there is no such type; known are {', '.join(TYPES)}")
    parsed: ParsedSchema = found(schema, resolve)
    return parsed
