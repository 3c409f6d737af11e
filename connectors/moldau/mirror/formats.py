"""The records of the internal topics, in the bytes of Java's MirrorMaker 2. No IO.

Java's MirrorClient and RemoteClusterUtils read checkpoints and heartbeats. Texts have a 16-bit
length before them, numbers are big-endian, and the values of checkpoints and heartbeats begin with
a 16-bit version, 0.
"""

from __future__ import annotations

import struct
from typing import Final

from moldau.client import TopicPartition
from moldau.deferred import dataclass
from moldau.errors import MoldauError

_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_PAIR: Final = struct.Struct(">qq")
_VERSION: Final = 0


class BadMirrorRecord(MoldauError):
    """A record of an internal topic that no mirror has written."""


class _Reader:
    """Reads one key or value from its start to its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def text(self) -> str:
        size = self.number(_SHORT)
        found = self._data[self._at : self._at + size]
        if size < 0 or len(found) < size:
            raise BadMirrorRecord("a text is cut off", size=size, left=len(found))
        self._at += size
        try:
            return found.decode()
        except UnicodeDecodeError:
            raise BadMirrorRecord("a text is no UTF-8") from None

    def number(self, layout: struct.Struct) -> int:
        try:
            (found,) = layout.unpack_from(self._data, self._at)
        except struct.error:
            raise BadMirrorRecord("a number is cut off", bytes=len(self._data)) from None
        self._at += layout.size
        return int(found)

    def version(self) -> None:
        version = self.number(_SHORT)
        if version != _VERSION:
            raise BadMirrorRecord("unknown version", version=version, known=_VERSION)


def _text(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """A record at the offset `upstream` of the source's partition is at `downstream` of its copy.
    The partition has the name of the source."""

    where: TopicPartition
    upstream: int
    downstream: int

    @property
    def key(self) -> bytes:
        return _text(self.where.topic) + _INT.pack(self.where.partition)

    @property
    def value(self) -> bytes:
        return _PAIR.pack(self.upstream, self.downstream)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> OffsetSync:
        """Raise BadMirrorRecord for other bytes."""
        of_key, of_value = _Reader(key), _Reader(value)
        where = TopicPartition(of_key.text(), of_key.number(_INT))
        return cls(where, of_value.number(_LONG), of_value.number(_LONG))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group that is at `upstream` on the source continues at `downstream` on the target. The
    partition has the name of the target."""

    group: str
    where: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""

    @property
    def key(self) -> bytes:
        return _text(self.group) + _text(self.where.topic) + _INT.pack(self.where.partition)

    @property
    def value(self) -> bytes:
        offsets = _PAIR.pack(self.upstream, self.downstream)
        return _SHORT.pack(_VERSION) + offsets + _text(self.metadata)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> Checkpoint:
        """Raise BadMirrorRecord for other bytes."""
        of_key, of_value = _Reader(key), _Reader(value)
        group, where = of_key.text(), TopicPartition(of_key.text(), of_key.number(_INT))
        of_value.version()
        upstream, downstream = of_value.number(_LONG), of_value.number(_LONG)
        return cls(group, where, upstream, downstream, of_value.text())


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The mirror from `source` to `target` worked at this time."""

    source: str
    target: str
    timestamp_ms: int

    @property
    def key(self) -> bytes:
        return _text(self.source) + _text(self.target)

    @property
    def value(self) -> bytes:
        return _SHORT.pack(_VERSION) + _LONG.pack(self.timestamp_ms)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> Heartbeat:
        """Raise BadMirrorRecord for other bytes."""
        of_key, of_value = _Reader(key), _Reader(value)
        source, target = of_key.text(), of_key.text()
        of_value.version()
        return cls(source, target, of_value.number(_LONG))
