"""Every message in every version: three bytes choose which, the rest is decoded.

What decodes is encoded again and must come back the same: a decoder that accepts something which
its own encoder would never write, or cannot write, is a finding too. The two bytes for the message
are a checksum of its name, so that the corpus stays valid when messages are added.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cache
from itertools import islice
from random import Random
from typing import Any

from moldau.errors import MalformedMessage
from moldau.protocol.declare import Message
from moldau.protocol.messages import API, request_class, response_class
from moldau.protocol.schemas import schema_class, schema_names
from moldau.protocol.spec import ArrayOf, FieldSpec, StructSpec
from tests.fuzz.corpus import Input
from tests.fuzz.mutation import mutants
from tests.fuzz.target import MEBIBYTE, Finding, Target

BUDGET = MEBIBYTE
BROKEN_SEEDS = 200

VALUES = {
    "bool": True,
    "int8": 1,
    "int16": 2,
    "uint16": 0xFFFE,
    "int32": 3,
    "uint32": 0xFFFFFFFD,
    "int64": 1 << 40,
    "float64": 0.5,
    "uuid": bytes(range(16)),
    "string": "na\u00efve",
    "bytes": b"\x00\xff",
    "bytes_view": b"\x01\xfe",
    "records": b"\x02\xfd",
}


@cache
def classes() -> dict[int, type[Message]]:
    """Every message that has a version, by the checksum of its name."""
    found: list[type[Message]] = [schema_class(name) for name in schema_names()]
    for key in API:
        found += (request_class(key), response_class(key))
    named = {selector(cls): cls for cls in found if cls.spec.versions}
    assert len(named) == sum(1 for cls in found if cls.spec.versions), "two names, one checksum"
    return named


def selector(cls: type[Message]) -> int:
    return zlib.crc32(cls.spec.name.encode()) & 0xFFFF


def messages(data: bytes) -> None:
    """Decode; then encode, decode and encode again, in both forms."""
    cls, version = _chosen(data[:3])
    message = cls.decode(data[3:], version, budget=BUDGET)
    encoded = message.encode(version)
    again = cls.decode(encoded, version)
    if again.encode(version) != encoded:
        raise Finding(f"{cls.spec.name} {version}: {message!r} became {again!r}")
    if b"".join(bytes(part) for part in message.encode_parts(version)) != encoded:
        raise Finding(f"{cls.spec.name} {version}: its parts are not its bytes")


def _chosen(head: bytes) -> tuple[type[Message], int]:
    number = int.from_bytes(head[:2], "big")
    known = classes()
    cls = known.get(number) or known[sorted(known)[number % len(known)]]
    first, last = cls.spec.versions
    return cls, first + (head[2] if len(head) > 2 else 0) % (last - first + 1)


def seeds() -> Iterator[Input]:
    """Each message full, in every version, and a sample of broken ones."""
    valid = list(_valid())
    yield from valid
    random = Random("broken messages")
    broken = islice(mutants([data for _, data in valid], random), BROKEN_SEEDS)
    for number, data in enumerate(broken):
        yield f"broken-{number:03}", data[:256]


def _valid() -> Iterator[Input]:
    for number, cls in sorted(classes().items()):
        for version in cls.spec.versions.all():
            head = number.to_bytes(2, "big") + bytes([version - cls.spec.versions.first])
            yield f"{cls.spec.name}-{version}", head + full(cls, version).encode(version)


def full(cls: type[Any], version: int) -> Any:
    """The message with every field of that version set and one element in every array."""
    return cls(
        **{
            field.name: _value(field, version)
            for field in cls.spec.fields
            if field.is_present(version)
        }
    )


def _value(field: FieldSpec, version: int) -> object:
    if isinstance(field.type, ArrayOf):
        return [_element(field.type.element, version)]
    return _element(field.type, version)


def _element(kind: Any, version: int) -> object:
    return full(kind.cls, version) if isinstance(kind, StructSpec) else VALUES[kind.name]


MESSAGES = Target("messages", messages, (MalformedMessage,), seeds, memory_bytes_max=8 * MEBIBYTE)
