"""A program: both kernels of the installed moldau write and read the same, and refuse the same.

It needs nothing but an installation, so that it runs on a Python and a machine without this
repository's tools. It prints the name of the compiled kernel's file.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from moldau.errors import CorruptRecord
from moldau.records import Codec, encode_batch, open_batch
from moldau.records import _pure as pure
from moldau.records import _speed as compiled

NOW = 1_700_000_000_000
BATCHES = 40
DAMAGED = 50


def rows(chance: random.Random) -> list[Any]:
    """Records of every shape: without keys, with headers, with times far apart."""

    def content() -> bytes | None:
        size = chance.choice((0, 1, 63, 64, 300, 20_000))
        return None if chance.random() < 0.2 else chance.randbytes(size)

    def headers() -> tuple[Any, ...]:
        return tuple((chance.choice(("a", "\u00fc", "\u20ac")), content()) for _ in range(3))

    return [
        (NOW + chance.randrange(-(10**12), 10**12), content(), content(), headers())
        if chance.random() < 0.5
        else (NOW, b"key", b"value", ())
        for _ in range(chance.randrange(1, 60))
    ]


def written(kernel: Any, given: list[Any]) -> tuple[int, bytes]:
    appender = kernel.Appender()
    return appender.extend(given), bytes(appender.take())


def answer(read: Callable[..., Any], section: bytes, header: Any) -> Any:
    """The records, or why there are none."""
    try:
        return [
            (each.offset, each.timestamp, each.key, each.value, each.headers)
            for each in read(section, header)
        ]
    except CorruptRecord as error:
        return error.reason


def main() -> None:
    chance = random.Random(7)
    for _ in range(BATCHES):
        given = rows(chance)
        assert written(compiled, given) == written(pure, given)
        batch = open_batch(bytes(encode_batch(given, codec=chance.choice(list(Codec)))))
        section = bytes(batch.section())
        found = answer(compiled.decode, section, batch.header)
        assert found == answer(pure.decode, section, batch.header)
        assert [each[1:] for each in found] == given
        for _ in range(DAMAGED):
            damaged = bytearray(section)
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            data = bytes(damaged)
            both = [answer(each.decode, data, batch.header) for each in (compiled, pure)]
            assert both[0] == both[1]
    for size in range(40):
        key = chance.randbytes(size)
        assert compiled.murmur2(key) == pure.murmur2(key)
        assert compiled.java_string_hash(key.decode("utf-16", "replace")) == (
            pure.java_string_hash(key.decode("utf-16", "replace"))
        )
    print(compiled.__file__)


if __name__ == "__main__":
    main()
