"""Inputs made from others by a few changes, the same for the same seed on every machine.

The changes are those that break decoders: lengths and counts that lie, input that ends early, parts
that come twice, bytes of another input in the middle.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from random import Random

CHANGES_MAX = 4
SIZE_MAX = 4096

# What a length, a count, an offset or a varint is when it lies.
LIES = tuple(
    struct.pack(layout, number)
    for layout, numbers in (
        (">b", (-128, -1, 0, 1, 127)),
        (">h", (-32768, -2, -1, 0, 255, 32767)),
        (">i", (-(2**31), -2, -1, 0, 65536, 2**31 - 1)),
        (">q", (-(2**63), -1, 2**63 - 1)),
    )
    for number in numbers
) + (
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
    b"\x80\x00",
    b"\xc3\x28",
    b"\xed\xa0\x80",
)

Change = Callable[[Random, bytes, Sequence[bytes]], bytes]


def mutants(inputs: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """An endless series: each is one of `inputs` with one to four changes."""
    while True:
        data = random.choice(inputs)
        for _ in range(random.randint(1, CHANGES_MAX)):
            data = random.choice(_CHANGES)(random, data, inputs)
        yield data[:SIZE_MAX]


def _span(random: Random, data: bytes) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(len(data), start + random.choice((1, 1, 2, 4, 8, 32)))


def _flip_a_bit(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]


def _lie(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    lie = random.choice(LIES)
    at = random.randint(0, len(data))
    kept = at if random.random() < 0.2 else at + len(lie)
    return data[:at] + lie + data[kept:]


def _truncate(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: random.randint(0, len(data))]


def _remove(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(random, data)
    return data[:start] + data[end:]


def _repeat(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(random, data)
    return data[:end] + data[start:end] * random.choice((1, 2, 70)) + data[end:]


def _insert(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.randbytes(random.randint(1, 8)) + data[at:]


def _splice(random: Random, data: bytes, inputs: Sequence[bytes]) -> bytes:
    other = random.choice(inputs)
    return data[: random.randint(0, len(data))] + other[random.randint(0, len(other)) :]


_CHANGES: tuple[Change, ...] = (
    _flip_a_bit,
    _flip_a_bit,
    _lie,
    _lie,
    _lie,
    _truncate,
    _remove,
    _repeat,
    _insert,
    _splice,
)
