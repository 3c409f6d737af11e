"""Finds the batches of a Produce request in plain Python, without the codec. A part of `_pure`.

What is known here of the layout: each row of a partition is its index, the batch behind a compact
length, and tags; behind the rows of a topic are its tags, and then another topic or the tags of the
request. Every row that is not exactly so is left to the codec of the protocol.

Why it is in the kernel: each request of a producer pays for it, and many have small batches of
several partitions. Compiled it is a fortieth of what such a request costs the broker, and in plain
Python it would be a third.
"""

from __future__ import annotations

import struct
from typing import Final

from moldau.records.header import ATTRIBUTES_AT, HEADER_BYTES, TRANSACTIONAL

_unpack_index: Final = struct.Struct(">i").unpack_from
_ROW_BYTES_MIN: Final = 1 + HEADER_BYTES + 3
"""A length, a header, and three tags."""


def produced_batches(
    body: memoryview, position: int, count: int
) -> tuple[list[tuple[int, memoryview]], int] | None:
    """Return (partition, batch) for each of the `count` rows of a topic of a Produce request, which
    begin at `position`, and the position behind the tags of the topic.

    Return None if they need the codec or a closer look: a length of four bytes or more, tags, a
    batch that is shorter than its header or belongs to a transaction, or nothing behind the topic.

    Nothing behind the topic is looked at. The caller knows how many topics there are, and whether
    the request ends with its own tags.
    """
    rows = []
    for _ in range(count):
        if len(body) - position < 4 + _ROW_BYTES_MIN:
            return None
        (index,) = _unpack_index(body, position)
        size, start = _short_varint(body, position + 4)
        end = start + size - 1
        if size <= HEADER_BYTES or end >= len(body) or body[end]:
            return None
        if body[start + ATTRIBUTES_AT + 1] & TRANSACTIONAL:
            return None
        rows.append((index, body[start:end]))
        position = end + 1
    if len(body) - position < 2 or body[position]:
        return None
    return rows, position + 1


def _short_varint(body: memoryview, position: int) -> tuple[int, int]:
    """Return an unsigned varint of at most three bytes, or 0, and the position behind it."""
    size = 0
    for shift in (0, 7, 14):
        byte = body[position]
        position += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, position
    return 0, position
