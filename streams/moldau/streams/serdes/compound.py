"""Codecs made from others: lists, updates of tables, keys of waiting records. Big endian."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.types import stored_codec
from moldau.streams.serdes.windowed import LONG, SessionWindowed, TimeWindowed

_LENGTH = _INT = Struct(">i")
HASH_BYTES = 16
"""The length of the hash of a left row in a foreign-key join."""


def list_kind(kind: Any) -> Any:
    """Return the type of lists of a type, for stores: JSON if JSON can hold the elements."""
    is_json = not isinstance(kind, Codec | TimeWindowed | SessionWindowed)
    return list[kind] if is_json and not hasattr(kind, "model_validate_json") else list_codec(kind)


def list_codec(kind: Any) -> Codec:
    """Return the codec of lists of values, each with its length in front."""
    inner = kind if isinstance(kind, Codec) else stored_codec(kind)

    def encode(values: Sequence[Any]) -> bytes:
        return joined([inner.encode(value) for value in values])

    def decode(data: bytes) -> list[Any]:
        return [inner.decode(part) for part in parted(data) if part is not None]

    return Codec(f"list of {inner.name}", encode, decode)


def update_codec(inner: Codec) -> Codec:
    """Return the codec of (new value, old value) of a table's row; each may be None."""

    def encode(update: tuple[Any, Any]) -> bytes:
        return joined([None if value is None else inner.encode(value) for value in update])

    def decode(data: bytes) -> tuple[Any, Any]:
        new, old = (None if part is None else inner.decode(part) for part in parted(data))
        return new, old

    return Codec(f"update of {inner.name}", encode, decode, is_immutable=inner.is_immutable)


def timed_codec(inner: Codec) -> Codec:
    """Return the codec of (value or None, time, headers) of a record that is held back."""

    def encode(held: tuple[Any, int, Sequence[tuple[str, bytes | None]]]) -> bytes:
        value, time, headers = held
        parts = [None if value is None else inner.encode(value), LONG.pack(time)]
        for name, content in headers:
            parts += [name.encode(), content]
        return joined(parts)

    def decode(data: bytes) -> tuple[Any, int, tuple[tuple[str, bytes | None], ...]]:
        value, time, *rest = parted(data)
        assert time is not None
        headers = tuple(
            ((name or b"").decode(), content)
            for name, content in zip(rest[::2], rest[1::2], strict=True)
        )
        return (None if value is None else inner.decode(value)), LONG.unpack(time)[0], headers

    return Codec(f"held {inner.name}", encode, decode)


def suppressed_codec(inner: Codec) -> Codec:
    """Return the codec of a held update: (value or None, value before or None, time, headers)."""
    timed = timed_codec(inner)

    def encode(held: tuple[Any, Any, int, Any]) -> bytes:
        value, before, time, headers = held
        return joined(
            [None if before is None else inner.encode(before), timed.encode((value, time, headers))]
        )

    def decode(data: bytes) -> tuple[Any, Any, int, Any]:
        before, rest = parted(data)
        value, time, headers = timed.decode(rest or b"")
        return value, None if before is None else inner.decode(before), time, headers

    return Codec(f"suppressed {inner.name}", encode, decode)


def counted_codec(inner: Codec) -> Codec:
    """Return the codec of (count, ((start, aggregate), ...)): a key's records, its open windows."""

    def encode(state: tuple[int, tuple[tuple[int, Any], ...]]) -> bytes:
        parts: list[bytes | None] = []
        for start, value in state[1]:
            parts += [LONG.pack(start), None if value is None else inner.encode(value)]
        return LONG.pack(state[0]) + joined(parts)

    def decode(data: bytes) -> tuple[int, tuple[tuple[int, Any], ...]]:
        parts = parted(data[8:])
        windows = []
        for start, value in zip(parts[::2], parts[1::2], strict=True):
            assert start is not None
            kept = None if value is None else inner.decode(value)
            windows.append((LONG.unpack(start)[0], kept))
        return LONG.unpack_from(data)[0], tuple(windows)

    return Codec(f"counted {inner.name}", encode, decode)


def tagged_codec(inner: Sequence[Codec]) -> Codec:
    """Return the codec of (index, value or None): the codec of that index encodes the value."""

    def encode(tagged: tuple[int, Any]) -> bytes:
        index, value = tagged
        return bytes([index]) + joined([None if value is None else inner[index].encode(value)])

    def decode(data: bytes) -> tuple[int, Any]:
        (value,) = parted(data[1:])
        return data[0], None if value is None else inner[data[0]].decode(value)

    return Codec(f"one of {len(inner)}", encode, decode)


def subscription_codec() -> Codec:
    """Return the codec of (left key, hash, instruction, partition) of a foreign-key join. The
    partition is that of the left row; None in what a former version wrote."""

    def encode(reference: tuple[bytes, bytes, int, int | None]) -> bytes:
        left, version, instruction, partition = reference
        parts = [left, version] if partition is None else [left, version, _INT.pack(partition)]
        return bytes([instruction]) + joined(parts)

    def decode(data: bytes) -> tuple[bytes, bytes, int, int | None]:
        left, version, *rest = parted(data[1:])
        partition = _INT.unpack(rest[0])[0] if rest and rest[0] is not None else None
        return left or b"", version or b"", data[0], partition

    return Codec("subscription", encode, decode, is_immutable=True)


def reference_codec() -> Codec:
    """Return the codec of (hash, partition) of a kept reference. The partition is that of the left
    row; None in what a former version wrote."""

    def encode(reference: tuple[bytes, int | None]) -> bytes:
        version, partition = reference
        return version if partition is None else version + _INT.pack(partition)

    def decode(data: bytes) -> tuple[bytes, int | None]:
        if len(data) == HASH_BYTES:
            return data, None
        return data[:HASH_BYTES], _INT.unpack_from(data, HASH_BYTES)[0]

    return Codec("reference", encode, decode, is_immutable=True)


def reference_key_codec() -> Codec:
    """Return the codec of (right key, left key) as bytes: one range for each right row."""

    def encode(pair: tuple[bytes, bytes]) -> bytes:
        return joined(pair)

    def decode(data: bytes) -> tuple[bytes, bytes]:
        right, left = parted(data)
        return right or b"", left or b""

    return Codec("reference key", encode, decode, is_hashable=True, is_immutable=True)


def answer_codec(inner: Codec) -> Codec:
    """Return the codec of (hash, right value or None, partition) of a foreign-key join. The
    partition is where the answer is sent, and not in the bytes."""

    def encode(answer: tuple[bytes, Any, int | None]) -> bytes:
        version, value, _ = answer
        return joined([version, None if value is None else inner.encode(value)])

    def decode(data: bytes) -> tuple[bytes, Any, int | None]:
        version, value = parted(data)
        return version or b"", None if value is None else inner.decode(value), None

    return Codec(f"answer of {inner.name}", encode, decode)


def held_codec(inner: Codec) -> Codec:
    """Return the codec of a list of (value, headers) of records that are held back."""
    timed = timed_codec(inner)

    def encode(held: Sequence[tuple[Any, Any]]) -> bytes:
        return joined([timed.encode((value, 0, headers)) for value, headers in held])

    def decode(data: bytes) -> list[tuple[Any, Any]]:
        rows = [timed.decode(part) for part in parted(data) if part is not None]
        return [(value, headers) for value, _, headers in rows]

    return Codec(f"held {inner.name}", encode, decode)


def waiting_key_codec(inner: Codec) -> Codec:
    """Return the codec of (time, side, key): the order of the bytes is the order of time."""

    def encode(waiting: tuple[int, int, Any]) -> bytes:
        return LONG.pack(waiting[0]) + bytes([waiting[1]]) + inner.encode(waiting[2])

    def decode(data: bytes) -> tuple[int, int, Any]:
        return LONG.unpack_from(data)[0], data[8], inner.decode(data[9:])

    return Codec(f"waiting {inner.name}", encode, decode, inner.is_hashable, inner.is_immutable)


def joined(parts: Sequence[bytes | None]) -> bytes:
    """Join byte strings, each with its length in front; a length of -1 is None."""
    return b"".join(
        _LENGTH.pack(-1) if part is None else _LENGTH.pack(len(part)) + part for part in parts
    )


def parted(data: bytes) -> list[bytes | None]:
    """Return the byte strings that `joined` put together. Raise ValueError if one is cut off."""
    found: list[bytes | None] = []
    at = 0
    while at < len(data):
        if at + 4 > len(data):
            raise ValueError(f"a length is cut off at byte {at}")
        (length,) = _LENGTH.unpack_from(data, at)
        at += 4
        if length < -1 or at + max(length, 0) > len(data):
            raise ValueError(f"length {length} at byte {at - 4} leads out of {len(data)} bytes")
        found.append(None if length < 0 else data[at : at + length])
        at += max(length, 0)
    return found
