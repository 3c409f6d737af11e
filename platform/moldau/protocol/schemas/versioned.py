"""Messages with only an int16 version in front.

These are values of the coordinators' logs, subscriptions and assignments inside the group protocol,
and producer snapshot files. `decode_versioned` is strict. `decode_as_known` is how consumers read
each other's data: a newer version is read as our newest one, and its appended fields are ignored.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias, TypeVar

from moldau.errors import MalformedMessage
from moldau.protocol.declare import Message

Readable: TypeAlias = bytes | bytearray | memoryview
M = TypeVar("M", bound=Message)

_INT16: Final = struct.Struct(">h")


def encode_versioned(message: Message, version: int) -> bytes:
    """Return the version and the encoded message."""
    return _INT16.pack(version) + message.encode(version)


def decode_versioned(cls: type[M], data: Readable) -> M:
    """Return the message in these bytes. Raise MalformedMessage for an unknown version."""
    version = _version_of(cls, data)
    known = cls.spec.versions
    if version not in known:
        raise MalformedMessage(
            "unknown version", message=cls.__name__, version=version, known=str(known)
        )
    message, end = cls.decode_from(data, _INT16.size, version)
    if end != len(data):
        raise MalformedMessage(
            "bytes after the message", message=cls.__name__, version=version, at=end, size=len(data)
        )
    return message


def decode_as_known(cls: type[M], data: Readable) -> M:
    """Return the message in these bytes, up to the fields of the newest version that we know."""
    version = _version_of(cls, data)
    known = cls.spec.versions
    if version < known.first:
        raise MalformedMessage(
            "unknown version", message=cls.__name__, version=version, known=str(known)
        )
    message, _ = cls.decode_from(data, _INT16.size, min(version, known.last))
    return message


def _version_of(cls: type[Message], data: Readable) -> int:
    if len(data) < _INT16.size:
        raise MalformedMessage(
            "no version before the message", message=cls.__name__, size=len(data)
        )
    version: int = _INT16.unpack_from(data)[0]
    return version
