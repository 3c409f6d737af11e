"""Says the values of an Avro schema in JSON, so that reading the JSON gives the same values again.

Dates, times, decimals and UUIDs are text: `2026-11-29`, `10:30:00`, `2026-11-29 10:30:00+00:00`,
`1.50`. Bytes are their text, or `{"base64": "..."}` if they are none.

A value of a union is written as it is where reading that finds its branch, else after the branch's
name, as in Avro's own JSON: `{"int": "2026-11-29"}` in a union of `string` and a date. A reader
takes that name everywhere, and without it the branch that the JSON fits as it is, so text goes to
`string`, before a date. A whole value that is null is `{"null": null}`, because `null` alone means
a record without a value.

Invariant: `reader(schema)(writer(schema)(value))` is the value, in the same branches. JSON that is
no value of the schema passes, and the serializer names what does not fit.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, Final, NamedTuple

from moldau.config.times import iso_datetime
from moldau.values.avro.fit import Values
from moldau.values.avro.plain import Misfit

Convert = Callable[[Any], Any]

NULL: Final = {"null": None}
"""The JSON of a whole value that is null."""


def _of_text(read: Callable[[str], Any]) -> Convert:
    return lambda value: read(value) if isinstance(value, str) else value


_LOGICAL: Final[dict[str, Convert]] = {
    "date": _of_text(date.fromisoformat),
    "time-millis": _of_text(time.fromisoformat),
    "time-micros": _of_text(time.fromisoformat),
    "timestamp-millis": _of_text(iso_datetime),
    "timestamp-micros": _of_text(iso_datetime),
    "local-timestamp-millis": _of_text(iso_datetime),
    "local-timestamp-micros": _of_text(iso_datetime),
    "decimal": _of_text(Decimal),
}


_OF_JSON: Final = str | int | float


def bytes_to_json(data: bytes) -> Any:
    """Return bytes as their text, or as base64 if they are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _bytes_of_json(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return b64decode(value["base64"], validate=True)
    return value


def _leaf_to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return bytes_to_json(value)
    return value if isinstance(value, _OF_JSON) else str(value)


def _as_it_is(value: Any) -> Any:
    return value


class JsonValues:
    """Makes the functions of a parsed schema. `named` are the schemas that it refers to by name.

    In the values that are written, what is in a union of several branches beside null is a tuple of
    the branch's name and the value, as `NestedReader` reads it with `names_branches`."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._fits = Values(named)
        self._read: dict[str, Convert] = {}
        self._write: dict[str, Convert] = {}

    def whole_reader(self, schema: Any) -> Convert:
        """Return the function that reads whole values of the schema from JSON."""
        if isinstance(schema, list):
            return self._union(schema).read
        if _kind_of(schema) == "null":
            return lambda value: None if value == NULL else value
        return self._made(schema, self._read)

    def whole_writer(self, schema: Any) -> Convert:
        """Return the function that writes whole values of the schema to JSON."""
        if not isinstance(schema, list):
            write = self._made(schema, self._write)
            return lambda value: NULL if value is None else write(value)
        union = self._union(schema)
        other = union.only_name

        def whole(value: Any) -> Any:
            if value is None:
                return NULL
            return union.write(value if other is None else (other, value))

        return whole

    def _made(self, schema: Any, known: dict[str, Convert]) -> Convert:
        """Return the function of a schema: of reading if `known` are those, else of writing."""
        if isinstance(schema, list):
            return self._of_union(schema, known)
        if isinstance(schema, str) and schema in self._named:
            return self._made(self._named[schema], known)
        kind = _kind_of(schema)
        if kind in ("record", "error"):
            return self._record(schema, known)
        if kind == "array":
            return _items(self._made(schema["items"], known))
        if kind == "map":
            return _entries(self._made(schema["values"], known))
        if not isinstance(kind, str):
            return self._made(kind, known)
        logical = None if isinstance(schema, str) else schema.get("logicalType")
        if known is self._write:
            is_plain = logical is None and kind not in ("bytes", "fixed")
            return _as_it_is if is_plain else _leaf_to_json
        if logical in _LOGICAL:
            return _lenient(_LOGICAL[logical])
        return _lenient(_bytes_of_json) if kind in ("bytes", "fixed") else _as_it_is

    def _record(self, schema: Mapping[str, Any], known: dict[str, Convert]) -> Convert:
        name = schema["name"]
        if name not in known:
            changed: list[tuple[str, Convert]] = []

            def convert(value: Any) -> Any:
                if not isinstance(value, dict):
                    return value
                made = dict(value)
                for key, change in changed:
                    if key in made:
                        made[key] = change(made[key])
                return made

            known[name] = convert
            fields = [(each["name"], self._made(each["type"], known)) for each in schema["fields"]]
            changed += [each for each in fields if each[1] is not _as_it_is]
            if not changed:
                known[name] = _as_it_is
        return known[name]

    def _of_union(self, schema: list[Any], known: dict[str, Convert]) -> Convert:
        union = self._union(schema)
        if union.only_name is None:
            return union.read if known is self._read else union.write
        if known is self._read:
            return union.read_optional
        (inner,) = (each for each in schema if each != "null")
        write = self._made(inner, known)
        return write if write is _as_it_is else lambda it: None if it is None else write(it)

    def _union(self, schema: list[Any]) -> _JsonUnion:
        names = [self._fits.name_of(each) for each in schema]
        branches = {
            name: _JsonBranch(
                self._fits.fit(each), self._made(each, self._read), self._made(each, self._write)
            )
            for name, each in zip(names, schema, strict=True)
        }
        return _JsonUnion(branches, self._fits.fit(schema))


class _JsonBranch(NamedTuple):
    fit: Convert
    read: Convert
    write: Convert

    def fits(self, value: Any) -> bool:
        return _fits(self.fit, value)


class _JsonUnion:
    """A union. `only_name` is the name of its only branch beside null."""

    def __init__(self, branches: Mapping[str, _JsonBranch], fit: Convert) -> None:
        self._branches, self._fit = branches, fit
        others = [name for name in branches if name != "null"]
        self.only_name = others[0] if len(others) == 1 else None

    def read(self, value: Any) -> Any:
        """Return the value with the name of its branch; JSON that fits none as it is."""
        name, found = self._tagged(value) or self._untagged(value) or (None, value)
        return found if name is None else (name, found)

    def read_optional(self, value: Any) -> Any:
        """Return the value of the only branch, whose name is taken where nothing else fits."""
        _, found = self._untagged(value) or self._tagged(value) or (None, value)
        return found

    def write(self, value: Any) -> Any:
        """Return the JSON of a value with its branch's name: untagged if it is read so."""
        if value is None:
            return None
        name, inner = value
        found = self._branches[name].write(inner)
        chosen = self._tagged(found) or self._untagged(found)
        return found if chosen is not None and chosen[0] == name else {name: found}

    def _tagged(self, value: Any) -> tuple[str, Any] | None:
        if isinstance(value, dict) and len(value) == 1:
            ((name, inner),) = value.items()
            branch = self._branches.get(name)
            if branch is not None and branch.fits(found := branch.read(inner)):
                return name, found
        return None

    def _untagged(self, value: Any) -> tuple[str, Any] | None:
        if self.only_name is None and _fits(self._fit, value):
            fitted = self._fit(value)
            name = "null" if fitted is None else fitted[0]
            return name, self._branches[name].read(value)
        for name, branch in self._branches.items():
            if branch.fits(found := branch.read(value)):
                return name, found
        return None


def _kind_of(schema: Any) -> Any:
    return schema if isinstance(schema, str) else schema["type"]


def _items(convert: Convert) -> Convert:
    if convert is _as_it_is:
        return convert
    return lambda value: list(map(convert, value)) if isinstance(value, list) else value


def _entries(convert: Convert) -> Convert:
    if convert is _as_it_is:
        return convert
    return lambda value: (
        {key: convert(each) for key, each in value.items()} if isinstance(value, dict) else value
    )


def _lenient(read: Convert) -> Convert:
    def lenient(value: Any) -> Any:
        try:
            return read(value)
        except (ValueError, ArithmeticError, TypeError):
            return value

    return lenient


def _fits(fit: Convert, value: Any) -> bool:
    try:
        fit(value)
    except (Misfit, ValueError, TypeError, ArithmeticError):
        return False
    return True


def without_names(value: Any) -> Any:
    """Return a value without the names of branches, as applications get it."""
    if isinstance(value, tuple):
        return without_names(value[1])
    if isinstance(value, dict):
        return {key: without_names(each) for key, each in value.items()}
    return [without_names(each) for each in value] if isinstance(value, list) else value
