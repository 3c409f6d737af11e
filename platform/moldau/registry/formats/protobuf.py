"""Protobuf schemas: .proto texts or descriptors in base64, compiled by protoc.

What was given as text is stored as that text, with its comments; a descriptor is stored as the text
that it means, as in Confluent's registry. Two schemas are the same if their descriptors print alike
(`protobuf_text`).
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import cached_property
from typing import Any, Final

from moldau.client.base.extras import need
from moldau.client.serdes.registry.schemas import Reference, Schema
from moldau.registry.formats.contract import Difference, InvalidSchema, Resolve, Work, collect
from moldau.registry.formats.protobuf_compatibility import differences
from moldau.registry.formats.protobuf_known import KNOWN
from moldau.registry.formats.protobuf_text import printed
from moldau.runtime.protoc import ProtocFailed, compile_proto

_MAIN: Final = "moldau-main.proto"
_SERIALIZED: Final = "serialized"
_SYNTAX: Final = re.compile(r"\b(syntax|edition)\s*=")


class ProtobufSchema:
    """A parsed Protobuf schema: its file, and the files that it imports."""

    def __init__(self, text: str | None, file: Any, imports: list[Any]) -> None:
        self._text = text
        self.file = file
        self.imports = imports

    @cached_property
    def canonical(self) -> str:
        return printed(self.file) if self._text is None else self._text

    @cached_property
    def identity(self) -> str:
        return printed(self.file)

    @cached_property
    def normalized(self) -> str:
        return printed(self.file, is_sorted=True)

    def differences(self, writer: ProtobufSchema, work: Work) -> list[Difference]:
        return differences(self.file, writer.file, work)

    def text(self, format: str) -> str | None:
        """Return the descriptor in base64 for `serialized`."""
        if format != _SERIALIZED:
            return None
        return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode()


def parse(schema: Schema, resolve: Resolve) -> ProtobufSchema:
    """Parse a schema. Raise InvalidSchema."""
    need("google.protobuf", "registry-protobuf")
    need("grpc_tools", "registry-protobuf")
    files: dict[str, str] = {}

    def add(reference: Reference, found: Schema) -> None:
        files.setdefault(reference.name, _with_syntax(_as_text(found.text)))

    collect(schema, resolve, add)
    descriptor = _descriptor(schema.text)
    text = schema.text if descriptor is None else printed(descriptor)
    try:
        compiled = compile_proto(_MAIN, {**KNOWN, **files, _MAIN: _with_syntax(text)})
    except ProtocFailed as error:
        raise InvalidSchema(str(error).replace(_MAIN, "schema")) from None
    except (UnicodeError, OSError) as error:
        raise InvalidSchema(f"it cannot be compiled: {error}") from None
    *imports, file = _files(compiled)
    file.name = "default"
    return ProtobufSchema(None if descriptor is not None else text, file, imports)


def _with_syntax(text: str) -> str:
    """Return the text with its syntax, about which protoc would else warn on standard error."""
    return text if _SYNTAX.search(text) else f'syntax = "proto2"; {text}'


def _as_text(text: str) -> str:
    descriptor = _descriptor(text)
    return text if descriptor is None else printed(descriptor)


def _descriptor(text: str) -> Any:
    """Return the descriptor that a text has in base64, or None if it is the text of a file."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        data = base64.b64decode(text, validate=True)
        found = descriptor_pb2.FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return None
    return found if found.message_type or found.enum_type or found.dependency else None


def _files(compiled: bytes) -> list[Any]:
    """Return the files of a descriptor set; the compiled one is the last."""
    from google.protobuf import descriptor_pb2

    return list(descriptor_pb2.FileDescriptorSet.FromString(compiled).file)
