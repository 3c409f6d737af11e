"""A codec turns values of one type into bytes and back. None stays outside: it is Kafka's null."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True)
class Codec:
    """The encoding of one type. Invariant: decode(encode(value)) == value.

    `is_hashable` says that equal values have equal bytes and a hash, so that a cache may use the
    value itself as its key. `is_immutable` says that a value may be kept without a copy. `kind` is
    the type of the values; None if it is not known.
    """

    name: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    is_hashable: bool = False
    is_immutable: bool = False
    kind: Any = None
