"""Which values an Avro schema takes: what does not fit is refused, and never changed.

fastavro writes what it can: it cuts a fraction off an `int`, makes infinity of what is too large
for a `float`, leaves out keys that the schema does not have and takes null for keys that are not
there. So each value is held against the schema first, by functions that are made of it once. They
give back the value to write, which is the same object unless something in it needs to be said in
another way: an object as its fields, a default filled in, the branch of a union named.

Invariants: a function that returns has looked at everything below its value; what it returns is
written by fastavro without a choice that could be another one; the caller's value is never touched.

What is in a value is looked at here and not by fastavro's own validation, which takes more than
four times as long and passes most of the above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from moldau.client.serdes.avro_logical import Prepare, prepare_of
from moldau.client.serdes.avro_plain import (
    PLAIN,
    SURE,
    Fit,
    Misfit,
    enum,
    fixed,
    string,
    told,
)
from moldau.client.serdes.fields import fields_of, has_fields

_MISSING: Final = object()


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
    is_list = isinstance(value, Sequence | set | frozenset) or hasattr(value, "typecode")
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


def _optional(fit: Fit) -> Fit:
    return lambda value: None if value is None else fit(value)


class _Union:
    """Finds the branch of a value, and names it, for fastavro would choose another one.

    A branch may be named: by a tuple of its name and the value, or by the class of an object. Else
    it is the first that takes the value, in the schema's order, except that a dict goes to the
    record of just its keys, a plain type comes before a logical one, and a number stays what it is:
    whole numbers go to `double` and `float` last.
    """

    def __init__(self, branches: list[_Branch]) -> None:
        self._branches = sorted(branches, key=lambda branch: branch.rank)
        self._named = {branch.name: branch for branch in branches}
        self._classes = {branch.name.rpartition(".")[2]: branch for branch in branches}
        self._takes_null = "null" in self._named

    def __call__(self, value: Any) -> Any:
        if value is None and self._takes_null:
            return None
        if type(value) is tuple and len(value) == 2 and value[0] in self._named:
            return value[0], self._named[value[0]].fit(value[1])
        branch = self._classes.get(type(value).__name__)
        if branch is not None and branch.fields is not None and has_fields(value):
            return branch.name, branch.fit(value)
        if isinstance(value, dict):
            for each in self._branches:
                if each.fields is not None and each.fields.keys() == value.keys():
                    return self._first((each, *self._branches), value)
        return self._first(self._branches, value)

    def _first(self, branches: Sequence[_Branch], value: Any) -> tuple[str, Any]:
        misfits = []
        for branch in branches:
            try:
                return branch.name, branch.fit(value)
            except Misfit as misfit:
                misfits.append(misfit)
        # Of a record, what is wrong in it says more than that it is none of the branches.
        deepest = max(misfits, key=lambda misfit: len(misfit.path))
        if deepest.path:
            raise deepest
        raise Misfit(f"one of {', '.join(self._named)} was expected", value)


class _Branch:
    __slots__ = ("fields", "fit", "name", "rank")

    def __init__(self, name: str, rank: int, fit: Fit, fields: Mapping[str, Any] | None) -> None:
        self.name, self.rank, self.fit, self.fields = name, rank, fit, fields


# Records


class _Field:
    """`branch` is the record of a union with null: it is named, as fastavro would look through all
    that is below before it takes it, again on each level."""

    __slots__ = ("branch", "default", "fit", "is_optional", "sure")

    def __init__(
        self,
        fit: Fit,
        is_optional: bool,
        branch: str | None,
        default: Callable[[], Any] | None,
    ) -> None:
        self.fit, self.is_optional, self.branch = fit, is_optional, branch
        self.default, self.sure = default, SURE.get(fit)


def _record(name: str, fields: Mapping[str, _Field]) -> Fit:
    """`fields` is filled later: a record may contain itself."""
    rows: list[tuple[str, type | None, bool, Fit, _Field]] = []

    def record(value: Any) -> Any:
        if not rows:
            rows.extend(
                (name, each.sure, each.is_optional, each.fit, each) for name, each in fields.items()
            )
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
                    fitted = fit(each)
                    if field.branch is not None:
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
    """The fields of what is no plain dict; a record may be named, as in a union."""
    if type(value) is tuple and len(value) == 2 and value[0] == name:
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
    """Passes `-type`, with which fastavro lets a dict say what record it is."""
    if given.get("-type") == name and left == 1:
        return
    for key, each in given.items():
        if key not in fields:
            raise Misfit(f"no such field is in {name}", each).within(f".{key}")


# From a schema


class Values:
    """Makes the functions of a parsed schema. `named` has the schemas that it names."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._records: dict[str, tuple[Fit, dict[str, _Field]]] = {}

    def fit(self, schema: Any) -> Fit:
        """What takes the values of the schema."""
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
        fit = self.fit(schema if inner is None else inner)
        if "default" in field:
            default = self._default(schema, field["default"])
        return _Field(fit, inner is not None, self._record_name(inner), default)

    def _record_name(self, schema: Any) -> str | None:
        while isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        is_record = isinstance(schema, dict) and schema["type"] in ("record", "error")
        return schema["name"] if is_record else None

    def _union(self, schema: list[Any]) -> Fit:
        inner = _without_null(schema)
        if inner is not None:
            return _optional(self.fit(inner))
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
        """Made when it is first needed: the schema below may not be known whole before."""
        made: list[Any] = []

        def fill() -> Any:
            if not made:
                made.append(self._defaulted(schema, default))
            return made[0]

        return fill

    def _defaulted(self, schema: Any, default: Any) -> Any:
        """The value that a default in JSON stands for: bytes are text there."""
        if isinstance(schema, str) and schema not in PLAIN:
            return self._defaulted(self._named[schema], default)
        if isinstance(schema, list):
            return self._defaulted_union(schema, default)
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind in ("bytes", "fixed") and isinstance(default, str):
            default = default.encode("latin-1")
        elif kind in ("float", "double") and isinstance(default, str):
            default = float(default)
        elif kind == "array" and isinstance(default, list):
            default = [self._defaulted(schema["items"], each) for each in default]
        elif kind == "map" and isinstance(default, dict):
            values = schema["values"]
            default = {key: self._defaulted(values, each) for key, each in default.items()}
        elif kind in ("record", "error") and isinstance(default, dict):
            types = {each["name"]: each["type"] for each in schema["fields"]}
            default = {
                key: self._defaulted(types[key], each) if key in types else each
                for key, each in default.items()
            }
        return self.fit(schema)(default)

    def _defaulted_union(self, schema: list[Any], default: Any) -> Any:
        """Of the first branch that can be meant, which is the first one at all in old schemas."""
        for each in schema:
            try:
                value = self._defaulted(each, default)
            except (Misfit, ValueError):
                continue
            is_named = value is not None and _without_null(schema) is None
            return (self._branch(each).name, value) if is_named else value
        raise Misfit("a default that the union has was expected", default)


def _without_null(schema: Any) -> Any:
    """The one other branch of a union with null; None for everything else."""
    if not isinstance(schema, list) or len(schema) != 2 or "null" not in schema:
        return None
    other = schema[1] if schema[0] == "null" else schema[0]
    return None if other == "null" else other
