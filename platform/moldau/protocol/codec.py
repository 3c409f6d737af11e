"""The generated functions of one message: a reader and two writers for each version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from moldau.errors import MalformedMessage, MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.codegen.reader import reader_source
from moldau.protocol.codegen.source import Source
from moldau.protocol.codegen.writer import writer_source
from moldau.protocol.failures import (
    READ_FAILURES,
    WRITE_FAILURES,
    FieldPosition,
    malformed,
    shorten_reasons,
    unencodable,
)
from moldau.protocol.spec import ArrayOf, MessageSpec, StructSpec
from moldau.protocol.types import BYTES_VIEW, RECORDS
from moldau.protocol.wire import flat_view

Reader: TypeAlias = Callable[[Any, int, int], tuple[Any, int]]


class Codec:
    """Encodes and decodes one message in all its versions. Functions are generated on first use."""

    __slots__ = ("_has_views", "_places", "_readers", "_writers", "_writers_apart", "spec")

    def __init__(self, spec: MessageSpec) -> None:
        self.spec = spec
        self._has_views = _has_views(spec)
        self._readers: dict[int, Reader] = {}
        self._writers: dict[int, Callable[[Any], bytes]] = {}
        self._writers_apart: dict[int, Callable[[Any], list[Any]]] = {}
        # The fields that each line of a function works on; kept after a failure, which may come
        # often.
        self._places: dict[tuple[str, int], list[FieldPosition]] = {}

    def decode(self, data: Any, version: int, budget: int) -> Any:
        """Return the message that fills all of `data`."""
        read = self._readers.get(version) or self._reader(version)
        if type(data) is not bytes or self._has_views:
            data = flat_view(data)
        try:
            message, position = read(data, 0, budget)
        except READ_FAILURES as error:
            raise self._malformed(error, version) from None
        if position != len(data):
            raise self._left_over(version, position, len(data))
        return message

    def decode_from(self, data: Any, position: int, version: int, budget: int) -> tuple[Any, int]:
        """Return the message at `position`, and its end."""
        assert position >= 0
        read = self._readers.get(version) or self._reader(version)
        if type(data) is not bytes or self._has_views:
            data = flat_view(data)
        try:
            return read(data, position, budget)
        except READ_FAILURES as error:
            raise self._malformed(error, version) from None

    def decode_start(self, data: Any, version: int, budget: int) -> Any:
        """Return the message at the start of `data`; ignore later bytes. A memoryview must be
        flat."""
        read = self._readers.get(version) or self._reader(version)
        try:
            return read(data if type(data) is memoryview else flat_view(data), 0, budget)[0]
        except READ_FAILURES as error:
            raise self._malformed(error, version) from None

    def encode(self, message: Any, version: int) -> bytes:
        """Return all bytes of the message, joined."""
        write = self._writers.get(version) or self._writer(version)
        try:
            return write(message)
        except WRITE_FAILURES as error:
            if shorten_reasons(self.spec, message):
                return self.encode(message, version)
            raise self._unencodable(error, version, apart=False) from None

    def encode_parts(self, message: Any, version: int) -> list[Any]:
        """Return the bytes of the message in pieces; views are pieces of their own."""
        if not self._has_views:
            write_all = self._writers.get(version) or self._writer(version)
            try:
                return [write_all(message)]
            except WRITE_FAILURES as error:
                if shorten_reasons(self.spec, message):
                    return self.encode_parts(message, version)
                raise self._unencodable(error, version, apart=False) from None
        write = self._writers_apart.get(version) or self._writer_apart(version)
        try:
            return write(message)
        except WRITE_FAILURES as error:
            if shorten_reasons(self.spec, message):
                return self.encode_parts(message, version)
            raise self._unencodable(error, version, apart=True) from None

    def reader_source(self, version: int) -> Source:
        """Return the generated text of that version's reader."""
        self._check(version)
        return reader_source(self.spec, version)

    def writer_source(self, version: int, *, apart: bool) -> Source:
        """Return the generated text of that version's writer."""
        self._check(version)
        return writer_source(self.spec, version, apart=apart)

    def _reader(self, version: int) -> Reader:
        reader: Reader = self._compiled("read", self.reader_source(version), version)
        return self._readers.setdefault(version, reader)

    def _writer(self, version: int) -> Callable[[Any], bytes]:
        writer = self._compiled("write", self.writer_source(version, apart=False), version)
        return self._writers.setdefault(version, writer)

    def _writer_apart(self, version: int) -> Callable[[Any], list[Any]]:
        writer = self._compiled("write", self.writer_source(version, apart=True), version)
        return self._writers_apart.setdefault(version, writer)

    def _compiled(self, function: str, source: Source, version: int) -> Any:
        return source.compile(function, f"<{function} {self.spec.name} {version}>")

    def _check(self, version: int) -> None:
        if version not in self.spec.versions:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                message=self.spec.name,
                version=version,
                versions=str(self.spec.versions),
            )

    def _malformed(self, error: Exception, version: int) -> MalformedMessage:
        places = self._places.get(("read", version))
        if places is None:
            places = self._places["read", version] = self.reader_source(version).places
        return malformed(error, self.spec.name, version, places)

    def _unencodable(self, error: Exception, version: int, *, apart: bool) -> MoldauError:
        key = ("parts" if apart else "write", version)
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = self.writer_source(version, apart=apart).places
        return unencodable(error, self.spec.name, version, places)

    def _left_over(self, version: int, position: int, size: int) -> MalformedMessage:
        return MalformedMessage(
            "bytes are left over behind the message",
            message=self.spec.name,
            version=version,
            field="",
            position=position,
            left=size - position,
        )


def _has_views(spec: StructSpec) -> bool:
    for field in spec.fields:
        kind = field.type.element if isinstance(field.type, ArrayOf) else field.type
        if kind is RECORDS or kind is BYTES_VIEW:
            return True
        if isinstance(kind, StructSpec) and _has_views(kind):
            return True
    return False
