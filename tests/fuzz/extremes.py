"""Requests that are whole, with values at the edges of what their fields can hold.

Each field is drawn anew: its least and its greatest value, -1, 0, null where it may be, nothing, a
long string, an unknown id, or the name of what exists, so that many requests get far. Arrays are
null, empty, of one row, of several, or of the same row twice. The same seed gives the same
requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from moldau.protocol.spec import ArrayOf, FieldSpec, StructSpec
from moldau.records import encode_batch

INTEGERS: Final = {
    "int8": (8, True),
    "int16": (16, True),
    "uint16": (16, False),
    "int32": (32, True),
    "uint32": (32, False),
    "int64": (64, True),
}
_WAITS: Final = ("max_wait", "timeout", "wait_ms")
_USUAL: Final = 0.7
"""How often a field has a plausible value. A request has several fields, and the first that is
refused hides the others."""
_LONG: Final = 32_767
_FLOATS: Final = (0.0, -1.0, 0.5, 1e308, float("inf"), float("nan"))


@dataclass(frozen=True)
class Names:
    """What exists, by the part of a field's name that asks for it; first the best match."""

    strings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    uuids: Sequence[bytes] = ()
    integers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    payloads: Sequence[bytes] = (b"",)


def batches(now_ms: int) -> tuple[bytes, ...]:
    """Return batches that a broker takes, and some that it refuses."""
    usual = bytes(encode_batch([(now_ms, b"key", b"value", ())]))
    several = bytes(encode_batch([(now_ms, None, bytes(1000), (("h", b"1"),))] * 5))
    old = bytes(encode_batch([(0, b"key", b"value", ())]))
    return usual, several, old, usual + usual, usual[:-1], b""


class Extremes:
    """Makes requests of a class in a version."""

    def __init__(self, random: Random, names: Names, records: Sequence[bytes]) -> None:
        self._random = random
        self._names = names
        self._records = records

    def message(self, spec: StructSpec, version: int) -> Any:
        """Return a message, or a part of one, with all fields of the version."""
        return spec.cls(
            **{
                each.name: self._value(each, version)
                for each in spec.fields
                if each.is_present(version)
            }
        )

    def _value(self, field: FieldSpec, version: int) -> Any:
        random = self._random
        may_be_null = field.nullable and (
            field.nullable_since is None or version >= field.nullable_since
        )
        if may_be_null and random.random() < 0.15:
            return None
        if not isinstance(field.type, ArrayOf):
            return self._element(field.name, field.type, version)
        count = random.choice((0, 1, 1, 1, 1, 2, 3))
        rows = [self._element(field.name, field.type.element, version) for _ in range(count)]
        if rows and random.random() < 0.15:
            rows += [rows[0]] * random.choice((1, 1, 20))
        return rows

    def _element(self, name: str, kind: Any, version: int) -> Any:
        if isinstance(kind, StructSpec):
            return self.message(kind, version)
        random = self._random
        if kind.name in INTEGERS:
            return self._integer(name, *INTEGERS[kind.name])
        if kind.name == "bool":
            return random.random() < 0.5
        if kind.name == "string":
            return self._string(name)
        if kind.name == "uuid":
            return self._uuid()
        if kind.name == "float64":
            return random.choice(_FLOATS)
        if kind.name == "records":
            return random.choice(self._records)
        return self._bytes()

    def _integer(self, name: str, bits: int, is_signed: bool) -> int:
        random = self._random
        least = -(1 << bits - 1) if is_signed else 0
        most = (1 << bits - 1) - 1 if is_signed else (1 << bits) - 1
        known = _matching(self._names.integers, name)
        is_wait = any(each in name for each in _WAITS)
        if known and random.random() < _USUAL:
            number = int(random.choice(known))
        elif is_wait and random.random() < 0.97:
            number = random.choice((0, 1, 5, -1, least))
        elif random.random() < _USUAL:
            number = random.choice((0, 0, 1, 1, 2, 3, -1))
        else:
            number = random.choice((least, least + 1, -2, -1, most, most - 1, 100, 1 << bits // 2))
        return min(max(number, least), most)

    def _string(self, name: str) -> str:
        random = self._random
        known = _matching(self._names.strings, name)
        if known and random.random() < _USUAL:
            return str(random.choice(known))
        return random.choice(
            ("", "x", ".", "..", "*", "na\u00efve", "a b", "\0", "-1", "1e99", "x" * 249, "y" * 250)
            + (("z" * _LONG,) if random.random() < 0.1 else ())
        )

    def _uuid(self) -> bytes:
        random = self._random
        if self._names.uuids and random.random() < _USUAL:
            return random.choice(self._names.uuids)
        return random.choice((bytes(16), bytes(15) + b"\1", b"\xff" * 16, random.randbytes(16)))

    def _bytes(self) -> bytes:
        random = self._random
        if random.random() < _USUAL:
            return random.choice(self._names.payloads)
        return random.choice((b"", b"\0", b"\xff" * 4, bytes(1000), random.randbytes(30)))


def _matching(known: Mapping[str, Sequence[Any]], name: str) -> Sequence[Any]:
    for part, values in known.items():
        if part in name:
            return values
    return ()
