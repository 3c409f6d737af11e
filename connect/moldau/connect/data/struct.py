"""A struct: values for the fields of a schema, in the order of the fields.

`Struct(schema, {...})` rejects unknown fields. `Struct.of_row(schema, row)` keeps the given list
without a copy: the fast way for converters and for connectors that read rows. Neither checks
values. `validate()` checks all of them, and every assignment to a field checks one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moldau.connect.data.schema import Schema, Type
from moldau.connect.data.validation import check_fields, validate
from moldau.connect.errors import DataError


class Struct:
    """Like a dict with a fixed set of keys. A field that is None reads as the default of its
    schema; `row` has the stored values."""

    __slots__ = ("row", "schema")

    schema: Schema
    row: list[Any]

    def __init__(self, schema: Schema, values: Mapping[str, Any] | None = None) -> None:
        if schema.type is not Type.STRUCT:
            raise DataError(f"a struct needs a struct schema, not {schema.described()}")
        self.schema = schema
        self.row = [None] * len(schema.fields)
        for name, value in (values or {}).items():
            self.row[self._position(name)] = value

    @classmethod
    def of_row(cls, schema: Schema, row: list[Any]) -> Struct:
        """Return a struct around `row`, which has one value for each field, in order."""
        struct = cls.__new__(cls)
        struct.schema = schema
        struct.row = row
        return struct

    def validate(self) -> Struct:
        """Raise DataError if a value does not fit its field. Return the struct itself."""
        check_fields(self, "the struct")
        return self

    def __getitem__(self, name: str) -> Any:
        position = self._position(name)
        value = self.row[position]
        return self.schema.fields[position].schema.default if value is None else value

    def __setitem__(self, name: str, value: Any) -> None:
        position = self._position(name)
        validate(self.schema.fields[position].schema, value, f"field {name!r}")
        self.row[position] = value

    def stored(self, name: str) -> Any:
        """Return the stored value of a field, without the default of its schema."""
        return self.row[self._position(name)]

    def get(self, name: str, default: Any = None) -> Any:
        """Return `struct[name]`, or `default` if there is no such field."""
        return self[name] if name in self.schema.positions else default

    def keys(self) -> tuple[str, ...]:
        return tuple(self.schema.positions)

    def values(self) -> list[Any]:
        return [self[name] for name in self.schema.positions]

    def items(self) -> list[tuple[str, Any]]:
        return [(name, self[name]) for name in self.schema.positions]

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts and lists, also for nested structs."""
        return {name: _plain(value) for name, value in self.items()}

    def copy(self) -> Struct:
        """Return another struct with the same values; nested lists and structs are shared."""
        return Struct.of_row(self.schema, self.row.copy())

    def __contains__(self, name: object) -> bool:
        return name in self.schema.positions

    def __iter__(self) -> Iterator[str]:
        return iter(self.schema.positions)

    def __len__(self) -> int:
        return len(self.row)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return self.row == other.row and self.schema == other.schema

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{field.name}={value!r}"
            for field, value in zip(self.schema.fields, self.row, strict=True)
            if value is not None
        )
        return f"Struct{{{shown}}}"

    def _position(self, name: str) -> int:
        try:
            return self.schema.positions[name]
        except KeyError:
            raise DataError(
                f"{self.schema.described()} has no field {name!r}",
                fields=list(self.schema.positions),
            ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return value.to_dict()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return value
