"""Fits values to an Avro schema: a value that does not fit is rejected, and never changed.

fastavro writes what it can: it cuts the fraction off for an `int`, makes infinity of a number too
large for a `float`, leaves out keys that the schema does not have, and takes null for missing keys.
So each value is first checked against the schema, by functions that are made from it once. They
return the value to write, which is the same object unless something in it must be written in
another way: an object as its fields, a default filled in, the branch of a union named.

Invariants: a function that returns has checked everything inside its value; fastavro has no choice
left when it writes the result; the caller's value is never modified.

Why not fastavro's own validation: it takes more than four times as long and accepts most of the
above, as tests/values/avro/test_libraries.py shows.
"""

from __future__ import annotations

from collections.abc import Callable, KeysView, Mapping, Sequence, ValuesView
from typing import Any, Final

from moldau.errors import without_frames
from moldau.values.avro.logical import Prepare, prepare_of
from moldau.values.avro.plain import (
    PLAIN,
    SURE,
    Fit,
    Misfit,
    enum,
    fixed,
    string,
    told,
)
from moldau.values.fields import fields_of, has_fields

_MISSING: Final = object()
_LISTS: Final = Sequence | set | frozenset | KeysView | ValuesView


def _logical(prepare: Prepare, is_written: bool, fit: Fit) -> Fit:
    def prepared(value: Any) -> Any:
        try:
            plain = prepare(value)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise Misfit(str(error), value) from None
        fitted = fit(plain)
        return fitted if is_written else value

    return prepared


# Arrays, maps, unions


def _sequence(value: Any) -> list[Any]:
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        value = value.tolist()
    is_list = isinstance(value, _LISTS) or hasattr(value, "typecode")
    if is_list and not isinstance(value, str | bytes | bytearray | memoryview):
        return list(value)
    raise Misfit("a list was expected", value)


def _array(fit: Fit) -> Fit:
    sure = SURE.get(fit)

    def array(value: Any) -> Any:
        items = value if type(value) is list else _sequence(value)
        changed = None
        for index, each in enumerate(items):
            if type(each) is sure:
                continue
            try:
                fitted = fit(each)
            except Misfit as misfit:
                raise misfit.within(f"[{index}]") from None
            if fitted is not each:
                if changed is None:
                    changed = list(items)
                changed[index] = fitted
        return items if changed is None else changed

    return array


def _map(fit: Fit) -> Fit:
    def mapping(value: Any) -> Any:
        entries = value if type(value) is dict else fields_of(value)
        if entries is None:
            raise Misfit("a dict was expected", value)
        changed = None
        for key, each in entries.items():
            try:
                if string(key) is not key:
                    raise Misfit("text for a key was expected", key)
                fitted = fit(each)
            except Misfit as misfit:
                raise misfit.within(f"[{told(key)}]") from None
            if fitted is not each:
                if changed is None:
                    changed = dict(entries)
                changed[key] = fitted
        return entries if changed is None else changed

    return mapping


def _optional(fit: Fit, name: str) -> Fit:
    """Return the function for a union of null and one other branch, which has that name."""

    def optional(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is tuple:
            named = _name_in(value)
            if named == "null":
                return PLAIN["null"](value[1])
            if named == name:
                return fit(value[1])
        return fit(value)

    return optional


def _naming(fit: Fit, name: str | None) -> Fit:
    """Return the function for such a union if fastavro needs the name of the branch."""

    def naming(value: Any) -> Any:
        fitted = fit(value)
        return None if fitted is None else (name, fitted)

    return fit if name is None else naming


def _named_beside_null(name: str) -> str | None:
    """Return the name of the one branch beside null, or None for a plain type. Without a name,
    fastavro would search everything inside, again on each level, and for its own keywords."""
    return None if name in PLAIN else name


def _name_in(value: Any) -> str | None:
    """Return the branch that a tuple may name, or None: all other tuples are sequences."""
    is_named = type(value) is tuple and len(value) == 2 and isinstance(value[0], str)
    return value[0] if is_named else None


class _Union:
    """Finds the branch of a value and names it, because fastavro would choose another one.

    A branch may be named: by a tuple of its name and the value, or by the class of an object.
    Otherwise it is the first that accepts the value, in the schema's order, with three exceptions:
    a dict goes to the record with exactly its keys, a plain type comes before a logical one, and
    `double` and `float` come last, so that whole numbers stay whole. An object is rejected if two
    records have the name of its class.
    """

    def __init__(self, branches: list[_Branch]) -> None:
        self._branches = sorted(branches, key=lambda branch: branch.rank)
        self._named: dict[str | None, _Branch] = {branch.name: branch for branch in branches}
        self._classes: dict[str, list[_Branch]] = {}
        for branch in branches:
            if branch.fields is not None:
                self._classes.setdefault(branch.name.rpartition(".")[2], []).append(branch)
        self._takes_null = "null" in self._named

    def __call__(self, value: Any) -> Any:
        if value is None and self._takes_null:
            return None
        if type(value) is tuple:
            named = self._named.get(_name_in(value))
            if named is not None:
                return named.name, named.fit(value[1])
        alike = self._classes.get(type(value).__name__)
        if alike is not None and has_fields(value):
            return self._of_class(alike, value)
        if isinstance(value, dict):
            for each in self._branches:
                if each.fields is not None and each.fields.keys() == value.keys():
                    return self._first((each, *self._branches), value)
        return self._first(self._branches, value)

    def _of_class(self, alike: list[_Branch], value: Any) -> tuple[str, Any]:
        if len(alike) > 1:
            names = ", ".join(branch.name for branch in alike)
            raise Misfit(
                f"a tuple that names the branch was expected, as {names} are all named so",
                value,
            )
        return alike[0].name, alike[0].fit(value)

    def _first(self, branches: Sequence[_Branch], value: Any) -> tuple[str, Any]:
        misfits = []
        for branch in branches:
            try:
                return branch.name, branch.fit(value)
            except Misfit as misfit:
                misfits.append(without_frames(misfit))
        # An error inside a record says more than the error that no branch fits.
        deepest = max(misfits, key=lambda misfit: len(misfit.path))
        if deepest.path:
            raise deepest
        names = ", ".join(branch.name for branch in self._named.values())
        raise Misfit(f"one of {names} was expected", value)


class _Branch:
    __slots__ = ("fields", "fit", "name", "rank")

    def __init__(self, name: str, rank: int, fit: Fit, fields: Mapping[str, Any] | None) -> None:
        self.name, self.rank, self.fit, self.fields = name, rank, fit, fields


# Records


class _Field:
    """A field of a record. `optional` fits a whole union with null; then `fit` fits its other
    branch, which `branch` names if it needs a name."""

    __slots__ = ("branch", "default", "fit", "is_optional", "optional", "sure")

    def __init__(
        self,
        fit: Fit,
        optional: Fit | None,
        branch: str | None,
        default: Callable[[], Any] | None,
    ) -> None:
        self.fit, self.optional, self.branch = fit, optional, branch
        self.is_optional = optional is not None
        self.default, self.sure = default, SURE.get(fit)


_Row = tuple[str, type | None, bool, Fit, Any]


def _row(item: tuple[str, _Field]) -> _Row:
    name, field = item
    return name, field.sure, field.is_optional, field.fit, field


def _record(name: str, fields: Mapping[str, _Field]) -> Fit:
    """Return the function for a record. `fields` is filled before the first value, but later than
    now: a record may contain itself. `rows` is made completely and then set, because the first
    values may come from several threads at once."""
    rows: tuple[_Row, ...] | None = None

    def record(value: Any) -> Any:
        nonlocal rows
        if rows is None:
            rows = tuple(map(_row, fields.items()))
        given = value if type(value) is dict else _given(name, fields, value)
        left, changed = len(given), None
        for key, sure, is_optional, fit, field in rows:
            each = given.get(key, _MISSING)
            if type(each) is sure or (each is None and is_optional):
                left -= 1
                continue
            try:
                if each is _MISSING:
                    fitted = _default(field, given)
                else:
                    left -= 1
                    is_whole = is_optional and type(each) is tuple
                    fitted = field.optional(each) if is_whole else fit(each)
                    if field.branch is not None and fitted is not None:
                        fitted = (field.branch, fitted)
            except Misfit as misfit:
                raise misfit.within(f".{key}") from None
            if fitted is not each:
                if changed is None:
                    changed = dict(given)
                changed[key] = fitted
        if left:
            _refuse_others(name, fields, given, left)
        return given if changed is None else changed

    return record


def _given(name: str, fields: Mapping[str, _Field], value: Any) -> dict[str, Any]:
    """Return the fields of a value that is no plain dict. A tuple may name the record."""
    if _name_in(value) == name:
        value = value[1]
    given = fields_of(value, fields)
    if given is None:
        raise Misfit(f"a record {name} was expected", value)
    return given


def _default(field: _Field, given: Any) -> Any:
    if field.default is None:
        raise Misfit("a value was expected, as the field has no default", given)
    return field.default()


def _refuse_others(
    name: str, fields: Mapping[str, Any], given: Mapping[Any, Any], left: int
) -> None:
    """Raise Misfit for an unknown key. fastavro lets a dict name its record with `-type`: accept
    it."""
    if given.get("-type") == name and left == 1:
        return
    for key, each in given.items():
        if key not in fields:
            raise Misfit(f"no such field is in {name}", each).within(f".{key}")


# From a schema


class Values:
    """Makes the functions of a parsed schema. `named` are the schemas that it refers to by name."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._records: dict[str, tuple[Fit, dict[str, _Field]]] = {}

    def fit(self, schema: Any) -> Fit:
        """Return the function that fits values to the schema."""
        if isinstance(schema, str):
            return PLAIN[schema] if schema in PLAIN else self.fit(self._named[schema])
        if isinstance(schema, list):
            return self._union(schema)
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema)[0]
        if kind == "array":
            return _array(self.fit(schema["items"]))
        if kind == "map":
            return _map(self.fit(schema["values"]))
        if kind == "enum":
            return enum(schema["symbols"])
        fit = fixed(schema["size"]) if kind == "fixed" else self.fit(kind)
        if "logicalType" not in schema:
            return fit
        logical = prepare_of(schema)
        return fit if logical is None else _logical(*logical, fit)

    def name_of(self, schema: Any) -> str:
        """Return the name of a schema as a branch of a union."""
        return self._branch(schema).name

    def _record(self, schema: Mapping[str, Any]) -> tuple[Fit, dict[str, _Field]]:
        name = schema["name"]
        known = self._records.get(name)
        if known is not None:
            return known
        fields: dict[str, _Field] = {}
        made = self._records[name] = _record(name, fields), fields
        for each in schema["fields"]:
            fields[each["name"]] = self._field(each)
        return made

    def _field(self, field: Mapping[str, Any]) -> _Field:
        schema, default = field["type"], None
        inner = _without_null(schema)
        if "default" in field:
            default = self._default(schema, field["default"])
        if inner is None:
            return _Field(self.fit(schema), None, None, default)
        branch = self._branch(inner)
        optional = _optional(branch.fit, branch.name)
        return _Field(branch.fit, optional, _named_beside_null(branch.name), default)

    def _union(self, schema: list[Any]) -> Fit:
        inner = _without_null(schema)
        if inner is not None:
            branch = self._branch(inner)
            optional = _optional(branch.fit, branch.name)
            return _naming(optional, _named_beside_null(branch.name))
        return _Union([self._branch(each) for each in schema])

    def _branch(self, schema: Any) -> _Branch:
        whole = schema
        while isinstance(whole, str) and whole not in PLAIN:
            whole = self._named[whole]
        base = whole if isinstance(whole, str) else whole["type"]
        if base in ("record", "error"):
            return _Branch(whole["name"], 0, *self._record(whole))
        is_logical = isinstance(whole, dict) and "logicalType" in whole
        rank = {"double": 2, "float": 3}.get(base, int(is_logical))
        name = whole["name"] if base in ("enum", "fixed") else base
        return _Branch(name, rank, self.fit(whole), None)

    def _default(self, schema: Any, default: Any) -> Callable[[], Any]:
        """Return a function that makes the default on first use: then all its schemas are known."""
        made = _MISSING

        def fill() -> Any:
            nonlocal made
            if made is _MISSING:
                made = self.defaulted(schema, default)
            return made

        return fill

    def defaulted(self, schema: Any, default: Any) -> Any:
        """Return the value of a default in JSON, in which bytes are text."""
        if isinstance(schema, str) and schema not in PLAIN:
            return self.defaulted(self._named[schema], default)
        if isinstance(schema, list):
            return self._defaulted_union(schema, default)
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind in ("bytes", "fixed") and isinstance(default, str):
            default = default.encode("latin-1")
        elif kind in ("float", "double") and type(default) in (str, int):
            default = _converted(float, default)  # the nearest one to a whole number
        elif kind == "string" and isinstance(default, str) and _is_uuid(schema):
            default = _uuid_digits(default)  # accepts all notations of a UUID
        elif kind == "array" and isinstance(default, list):
            default = [self.defaulted(schema["items"], each) for each in default]
        elif kind == "map" and isinstance(default, dict):
            values = schema["values"]
            default = {key: self.defaulted(values, each) for key, each in default.items()}
        elif kind in ("record", "error") and isinstance(default, dict):
            types = {each["name"]: each["type"] for each in schema["fields"]}
            default = {
                key: self.defaulted(types[key], each) if key in types else each
                for key, each in default.items()
            }
        return self.fit(schema)(default)

    def _defaulted_union(self, schema: list[Any], default: Any) -> Any:
        """Return the default in the first branch that fits; in old schemas it is the first one."""
        for each in schema:
            try:
                value = self.defaulted(each, default)
            except (Misfit, ValueError):
                continue
            name: str | None = self._branch(each).name
            if name is not None and _without_null(schema) is not None:
                name = _named_beside_null(name)
            return value if value is None or name is None else (name, value)
        raise Misfit("a default that the union has was expected", default)


def _converted(kind: Callable[[Any], Any], default: Any) -> Any:
    try:
        return kind(default)
    except (ValueError, OverflowError) as error:
        raise Misfit(str(error), default) from None


def _uuid_digits(text: str) -> str:
    return text.removeprefix("urn:").removeprefix("uuid:").strip("{}").replace("-", "")


def _is_uuid(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("logicalType") == "uuid"


def _without_null(schema: Any) -> Any:
    """Return the other branch of a union of null and one branch, or None for any other schema."""
    if not isinstance(schema, list) or len(schema) != 2 or "null" not in schema:
        return None
    other = schema[1] if schema[0] == "null" else schema[0]
    return None if other == "null" else other
