"""The rare branches of generated code, and the tables of its common ones.

Generated readers and writers contain the short case of each form in line (lengths below 128, one
byte of varint) and call functions of this module for all others. All errors are `Refused`,
`struct.error` or `IndexError`; `failures` turns these into errors that say where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, TypeAlias

from moldau.protocol.failures import NotInVersion, Refused
from moldau.protocol.limits import MAX_STRING_BYTES, MAX_TAGS

Input: TypeAlias = "bytes | memoryview"
Unpack: TypeAlias = Callable[[Any, int], tuple[Any, ...]]
Pack: TypeAlias = Callable[..., bytes]

# TEXT[n] unpacks the n - 1 bytes of a short string: n is its compact length.
TEXT: list[Unpack] = [Struct("0s").unpack_from] + [
    Struct(f"{size}s").unpack_from for size in range(128)
]
# Creates an instance whose slots are still empty.
NEW = object.__new__

JOINED_BYTES_MAX = 4096
"""The largest bytes that are copied where they could be a piece of their own."""

SHORT: list[bytes] = [bytes((value,)) for value in range(128)]


def flat_view(data: Any) -> memoryview:
    """Return a view of single bytes over any buffer."""
    view = data if type(data) is memoryview else memoryview(data)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def varint(data: Input, p: int, first: int) -> tuple[int, int]:
    """Return the number whose first byte, `first`, was already read, and its end."""
    if first < 128:
        return first, p
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = data[p]
        p += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, p
    raise Refused("varint of more than 32 bits")


def long_string(data: Input, p: int, n: int) -> tuple[str, int]:
    """Read a compact string that is null, or has a length of more than one byte."""
    if n == 0:
        raise Refused("null where the field is never null")
    n, p = varint(data, p, n)
    return plain_string(data, p, n - 1)


def long_nullable_string(data: Input, p: int, n: int) -> tuple[str | None, int]:
    """Read a string as `long_string` does, or null, which may have a longer encoding."""
    n, p = varint(data, p, n)
    return (None, p) if n == 0 else plain_string(data, p, n - 1)


def plain_string(data: Input, p: int, n: int) -> tuple[str, int]:
    """Read a string of `n` bytes, where `n` is not checked yet."""
    if n < 0:
        reason = "null where the field is never null" if n == -1 else "negative length"
        raise Refused(reason, length=n)
    if n > MAX_STRING_BYTES:
        raise Refused("string too long", length=n, allowed=MAX_STRING_BYTES)
    if n > len(data) - p:
        raise Refused("length exceeds what is left", length=n, left=len(data) - p)
    return str(data[p : p + n], "utf-8"), p + n


def bad_length(n: int, left: int) -> Refused:
    """Return why bytes of length `n` were rejected."""
    if n == -1:
        return Refused("null where the field is never null")
    if n < -1:
        return Refused("negative length", length=n)
    return Refused("length exceeds what is left", length=n, left=left)


def bad_count(n: int, left: int) -> Refused:
    """Return why an array of `n` elements was rejected."""
    if n == -1:
        return Refused("null where the field is never null")
    if n < -1:
        return Refused("negative count", count=n)
    return Refused("count exceeds what is left", count=n, left=left)


def over_budget() -> Refused:
    """Return the error of a message with too many objects; it may be valid otherwise."""
    return Refused("the objects would take more memory than the budget")


def tag_count(data: Input, p: int, first: int) -> tuple[int, int]:
    """Return the number of tagged fields that follow, and the position behind it."""
    count, p = varint(data, p, first)
    if count > MAX_TAGS:
        raise Refused("too many tagged fields", count=count, allowed=MAX_TAGS)
    return count, p


def next_tag(data: Input, p: int, last: int) -> tuple[int, int, int]:
    """Return the next tag, and the start and end of its value."""
    tag, p = varint(data, p + 1, data[p])
    if tag <= last:
        reason = "duplicate tag" if tag == last else "tags out of order"
        raise Refused(reason, tag=tag, after=last)
    size, p = varint(data, p + 1, data[p])
    if size > len(data) - p:
        raise Refused("length exceeds what is left", tag=tag, length=size, left=len(data) - p)
    return tag, p, p + size


def skip_tags(data: Input, p: int, first: int) -> int:
    """Return the end of a struct's tag section that has no tag we know."""
    count, p = tag_count(data, p, first)
    tag = -1
    for _ in range(count):
        tag, _start, p = next_tag(data, p, tag)
    return p


class NumberArrays(dict[int, Unpack]):
    """Unpackers of `n` equal numbers, kept for short arrays."""

    __slots__ = ("format",)

    def __init__(self, format: str) -> None:
        super().__init__()
        self.format = format

    def __missing__(self, n: int) -> Unpack:
        unpack = Struct(f">{n}{self.format}").unpack_from
        if n <= 64:
            self[n] = unpack
        return unpack


class ArrayPackers(dict[int, Pack]):
    """Packers of `n` equal numbers, kept for short arrays."""

    __slots__ = ("format",)

    def __init__(self, format: str) -> None:
        super().__init__()
        self.format = format

    def __missing__(self, n: int) -> Pack:
        pack = Struct(f">{n}{self.format}").pack
        if n <= 64:
            self[n] = pack
        return pack


def read_uuids(data: Input, p: int, n: int) -> list[bytes]:
    """Read `n` ids in a row."""
    return [bytes(data[at : at + 16]) for at in range(p, p + 16 * n, 16)]


def varint_bytes(n: int) -> bytes:
    """Return the unsigned varint of `n`."""
    if n < 128:
        return SHORT[n]
    if n < 1 << 14:
        return bytes((n & 127 | 128, n >> 7))
    parts = bytearray()
    while n > 127:
        parts.append(n & 127 | 128)
        n >>= 7
    parts.append(n)
    return bytes(parts)


def long_text_length(n: int) -> bytes:
    """Return the compact length of a string that is not short."""
    if n > MAX_STRING_BYTES + 1:
        raise Refused("string too long", length=n - 1, allowed=MAX_STRING_BYTES)
    return varint_bytes(n)


def not_in_version(value: object) -> NotInVersion:
    """Return why a value was not dropped silently."""
    return NotInVersion("the version has no such field and the value must not be lost", value=value)


def bad_uuid(value: object) -> Refused:
    """Return why an id was not written."""
    return Refused("an id has 16 bytes", value=value)


def write_uuids(values: Sequence[bytes]) -> bytes:
    """Return all ids of an array, without its count."""
    for value in values:
        if len(value) != 16:
            raise bad_uuid(value)
    return b"".join(values)


def write_tag(tag: int, parts: list[Any]) -> bytes:
    """Return a tagged field: its number, its size, its value."""
    body = b"".join(parts)
    return varint_bytes(tag) + varint_bytes(len(body)) + body
