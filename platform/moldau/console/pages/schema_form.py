"""A form made of a schema: a field for each of a record's, and the JSON that its texts mean. Pure.

Fields of records in a record stand below it, by their path. What a form cannot show as one field (a
list, a map, a union of several, a record that has itself in it) is a field for JSON.

Dates, times, decimals and UUIDs of Avro are typed as the texts that `moldau.values.avro.texts`
reads in JSON.

Invariants: a number is passed on as it was typed, with every digit; a field that may be left out
and is empty is left out, or null where Avro needs it to be written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from moldau.console.exact_json import Number, Object, parsed, rendered
from moldau.console.pages.rendering import BadForm
from moldau.deferred import dataclass, deferred_pattern
from moldau.values.schema import AVRO, JSON, PROTOBUF

DEEP: Final = 5
"""Records within records that a form shows; deeper ones are JSON."""
FIELDS_MAX: Final = 200
"""Fields of a form, without the records that they stand in."""
_NUMBER: Final = deferred_pattern(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
_AVRO: Final = {
    "string": "text",
    "int": "number",
    "long": "number",
    "float": "number",
    "double": "number",
    "boolean": "choice",
}


class _Logical(NamedTuple):
    """How values of a logical type are typed."""

    name: str
    pattern: re.Pattern[str]
    example: str


_DAY, _TIME, _ZONE = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(:\d\d([.]\d+)?)?", r"(Z|[-+]\d\d:?\d\d)"
_DATE: Final = _Logical("date", deferred_pattern(_DAY), "2026-11-30")
_CLOCK: Final = _Logical("time of day", deferred_pattern(_TIME), "10:15:00")
_INSTANT: Final = _Logical(
    "time with a zone", deferred_pattern(f"{_DAY}[T ]{_TIME}{_ZONE}"), "2026-11-30T10:15:00Z"
)
_LOCAL: Final = _Logical(
    "time without a zone", deferred_pattern(f"{_DAY}[T ]{_TIME}"), "2026-11-30T10:15:00"
)
_DECIMAL: Final = _Logical("decimal", _NUMBER, "12.50")
_UUID: Final = _Logical(
    "UUID", deferred_pattern("[0-9a-fA-F-]{32,36}"), "0f6a2c1e-7b58-4b7e-9d1c-52a0c0e9d3aa"
)
_LOGICAL: Final = {
    ("int", "date"): _DATE,
    ("int", "time-millis"): _CLOCK,
    ("long", "time-micros"): _CLOCK,
    ("long", "timestamp-millis"): _INSTANT,
    ("long", "timestamp-micros"): _INSTANT,
    ("long", "local-timestamp-millis"): _LOCAL,
    ("long", "local-timestamp-micros"): _LOCAL,
    ("bytes", "decimal"): _DECIMAL,
    ("fixed", "decimal"): _DECIMAL,
    ("string", "uuid"): _UUID,
}
_JSON: Final = {"string": "text", "integer": "number", "number": "number", "boolean": "choice"}
_BOOLEANS: Final = ("true", "false")
_MESSAGE, _ENUM, _BOOL, _BYTES, _STRING, _REPEATED = 11, 14, 8, 12, 9, 3
"""Numbers of descriptor.proto."""


class Kind(Enum):
    """What is typed into a field."""

    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    LOGICAL = "logical"
    """A text that stands for another value, such as a date."""
    JSON = "json"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field of a record."""

    name: str
    path: str
    kind: Kind
    type: str
    """Its type in the schema's words."""
    doc: str = ""
    default: str = ""
    """The default as it is typed."""
    choices: tuple[str, ...] = ()
    is_text: bool = False
    """Whether a choice is a text in JSON."""
    is_optional: bool = False
    """Whether it may stay empty."""
    needs_null: bool = False
    """Whether one that stays empty is written as null."""
    schema: Any = None
    """The Avro schema of a logical type."""
    fields: tuple[SchemaField, ...] = field(default=())
    """Those of a record."""

    @property
    def example(self) -> str:
        """How a value of a logical type is written."""
        return "" if self.schema is None else _logical_of(self.schema).example

    def leaves(self) -> Iterable[SchemaField]:
        """Yield what is typed into, in order."""
        if self.kind is not Kind.RECORD:
            yield self
        for each in self.fields:
            yield from each.leaves()


class _TooLarge(Exception):
    """A schema has more fields than a form shows."""


class _Room:
    """Counts the fields as they are made: those of a record that has itself in it multiply."""

    def __init__(self) -> None:
        # Each record but an empty one has a field, and it is in fewer than DEEP others.
        self._left = FIELDS_MAX * (DEEP + 1)

    def take(self) -> None:
        """Note a field that is about to be made. Raise _TooLarge."""
        self._left -= 1
        if self._left < 0:
            raise _TooLarge


def form_of_schema(kind: str, parsed: Any) -> SchemaField | None:
    """Return the record of a schema: of Avro and JSON Schema the parsed JSON, of Protobuf the
    descriptor of the file. None if it is no record, or too large for a form."""
    try:
        made = _made(kind, parsed)
    except _TooLarge:
        return None
    if made is None or made.kind is not Kind.RECORD or not made.fields:
        return None
    return made if sum(1 for _ in made.leaves()) <= FIELDS_MAX else None


def _made(kind: str, parsed: Any) -> SchemaField | None:
    if kind == AVRO:
        return _Avro().field("", "", parsed)
    if kind == JSON and isinstance(parsed, dict):
        return _JsonSchema(parsed).field("", "", parsed, is_optional=False)
    return _Protobuf(parsed).first() if kind == PROTOBUF else None


def json_of(record: SchemaField, typed: Mapping[str, str]) -> str:
    """Return the JSON of what was typed, by the paths of the fields. Raise BadForm."""
    return _json_of(record, typed) or "{}"


def _json_of(record: SchemaField, typed: Mapping[str, str]) -> str | None:
    """Return the JSON of a record; None if all of it is empty, and it may be."""
    if record.is_optional and not any(typed.get(each.path, "") for each in record.leaves()):
        return None
    parts = []
    for each in record.fields:
        text = _json_of(each, typed) if each.kind is Kind.RECORD else _leaf(each, typed)
        if text is None and each.needs_null:
            text = "null"
        if text is not None:
            parts.append(f"{json.dumps(each.name)}: {text}")
    return "{" + ", ".join(parts) + "}"


def _leaf(each: SchemaField, typed: Mapping[str, str]) -> str | None:
    text = typed.get(each.path, "").replace("\r\n", "\n")
    if not text and (each.is_optional or each.kind is not Kind.TEXT):
        if each.is_optional:
            return None
        raise BadForm(f"{each.path}: give a value ({each.type})")
    if each.choices and text not in each.choices:
        raise BadForm(f"{each.path}: {', '.join(each.choices)}")
    if each.kind is Kind.TEXT or (each.kind is Kind.CHOICE and each.is_text):
        return json.dumps(text, ensure_ascii=False)
    if each.kind is Kind.LOGICAL:
        return json.dumps(_checked(each, text.strip()))
    if each.kind is Kind.NUMBER and not _NUMBER.fullmatch(text.strip()):
        raise BadForm(f"{each.path}: {text} is no number")
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadForm(f"{each.path}: it is no JSON: {error}") from None
    return text.strip()


def _logical_of(schema: Mapping[str, Any]) -> _Logical:
    return _LOGICAL[schema["type"], schema["logicalType"]]


def _checked(each: SchemaField, text: str) -> str:
    """Return the text of a value of a logical type. Raise BadForm if it stands for none."""
    from moldau.values.avro.fit import Values
    from moldau.values.avro.plain import Misfit
    from moldau.values.avro.texts import JsonValues

    logical = _logical_of(each.schema)
    value = JsonValues({}).whole_reader(each.schema)(text)
    if not logical.pattern.fullmatch(text) or (isinstance(value, str) and logical is not _UUID):
        raise BadForm(f"{each.path}: {text} is no {logical.name}; an example: {logical.example}")
    try:
        Values({}).fit(each.schema)(value)
    except Misfit as misfit:
        raise BadForm(f"{each.path}: {text}: {misfit.expected}") from None
    return text


def typed_of(record: SchemaField, text: str) -> dict[str, str]:
    """Return what is typed into the fields for a value in JSON; the defaults without one."""
    value = _value_of(text)
    return {each.path: _typed(each, value) for each in record.leaves()}


def is_copied(record: SchemaField, typed: Mapping[str, str], text: str) -> bool:
    """Whether what is typed into the fields is the value in JSON: all of it, with its types."""
    if any("\n" in each or "\r" in each for each in typed.values()):
        return False  # a field has one line
    try:
        return _is_same(parsed(json_of(record, typed)), _value_of(text))
    except (BadForm, RecursionError):
        return False


def _is_same(made: Any, value: Any) -> bool:
    """Whether the JSON of a form is a value. The JSON of Protobuf has some numbers as texts."""
    if isinstance(made, Number):
        return isinstance(value, str) and str(made) == str(value)
    if type(made) is not type(value):
        return False
    if isinstance(made, Object):
        found = dict(value)
        is_like = len(made) == len(value) and dict(made).keys() == found.keys()
        return is_like and all(_is_same(each, found[name]) for name, each in made)
    if isinstance(made, list):
        return len(made) == len(value) and all(map(_is_same, made, value))
    return bool(made == value)


def _value_of(text: str) -> Any:
    """Return a value in JSON; None without one."""
    try:
        return parsed(text)
    except (ValueError, RecursionError):
        return None


def _typed(leaf: SchemaField, value: Any) -> str:
    if not isinstance(value, Object):
        return leaf.default
    for name in leaf.path.split("."):
        value = dict(value).get(name) if isinstance(value, Object) else None
    if value is None:
        return ""
    if isinstance(value, str) and leaf.kind is not Kind.JSON:
        return str(value)
    try:
        return rendered(value)
    except RecursionError:
        return ""


def _text(value: Any) -> str:
    """Return a default as it is typed."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class _Avro:
    """Makes fields of an Avro schema."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._depth = 0
        self._room = _Room()

    def field(self, name: str, path: str, schema: Any) -> SchemaField:
        if isinstance(schema, list):
            return self._union(name, path, schema)
        if isinstance(schema, str):
            known = self._named.get(schema)
            if known is None:
                kind = Kind(_AVRO[schema]) if schema in _AVRO else Kind.JSON
                choices = _BOOLEANS if schema == "boolean" else ()
                return SchemaField(name, path, kind, schema, choices=choices)
            schema = known
        kind = schema.get("type")
        if kind == "enum":
            self._name(schema)
            symbols = tuple(schema["symbols"])
            return SchemaField(
                name,
                path,
                Kind.CHOICE,
                "enum",
                schema.get("doc", ""),
                choices=symbols,
                is_text=True,
            )
        if kind == "record":
            self._name(schema)
            return self._record(name, path, schema)
        if kind == "fixed":
            self._name(schema)
        if not isinstance(kind, str):
            return self.field(name, path, kind)
        logical = schema.get("logicalType")
        if (kind, logical) in _LOGICAL and (logical != "decimal" or schema.get("precision")):
            return SchemaField(name, path, Kind.LOGICAL, f"{kind}, {logical}", schema=schema)
        if kind in _AVRO:
            return self.field(name, path, kind)
        return SchemaField(name, path, Kind.JSON, kind)

    def _name(self, schema: Any) -> None:
        name, space = schema["name"], schema.get("namespace")
        self._named[name] = schema
        if space:
            self._named[f"{space}.{name}"] = schema

    def _record(self, name: str, path: str, schema: Any) -> SchemaField:
        if self._depth >= DEEP:
            return SchemaField(name, path, Kind.JSON, schema["name"])
        self._depth += 1
        found = []
        for each in schema["fields"]:
            self._room.take()
            inner = self.field(each["name"], _below(path, each["name"]), each["type"])
            inner = replace(inner, doc=each.get("doc", inner.doc))
            if "default" in each and inner.kind is Kind.LOGICAL:
                # The default is a number or bytes; one that is left out is filled in by it.
                inner = replace(inner, is_optional=True)
            elif "default" in each and inner.kind is not Kind.RECORD:
                inner = replace(inner, default=_text(each["default"]))
            found.append(inner)
        self._depth -= 1
        doc = schema.get("doc", "")
        return SchemaField(name, path, Kind.RECORD, schema["name"], doc, fields=tuple(found))

    def _union(self, name: str, path: str, schema: list[Any]) -> SchemaField:
        others = [each for each in schema if each != "null"]
        may_be_null = len(others) < len(schema)
        if len(others) == 1:
            inner = self.field(name, path, others[0])
        else:
            words = " or ".join(each if isinstance(each, str) else each["type"] for each in others)
            inner = SchemaField(name, path, Kind.JSON, words)
        return replace(inner, is_optional=may_be_null, needs_null=may_be_null)


class _JsonSchema:
    """Makes fields of a JSON Schema."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self._whole = whole
        self._depth = 0
        self._room = _Room()

    def field(self, name: str, path: str, schema: Any, *, is_optional: bool) -> SchemaField:
        self._room.take()
        schema = self._resolved(schema)
        doc = str(schema.get("description") or schema.get("title") or "")
        facts: dict[str, Any] = {
            "doc": doc,
            "is_optional": is_optional,
            "default": _text(schema.get("default")),
        }
        values = schema.get("enum")
        if isinstance(values, list) and values and all(isinstance(each, str) for each in values):
            return SchemaField(
                name, path, Kind.CHOICE, "enum", choices=tuple(values), is_text=True, **facts
            )
        kinds = schema.get("type")
        named = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
        kind = named[0] if len(named) == 1 else None
        if kind == "object" and isinstance(schema.get("properties"), dict) and self._depth < DEEP:
            self._depth += 1
            needed = schema.get("required") or ()
            found = tuple(
                self.field(each, _below(path, each), inner, is_optional=each not in needed)
                for each, inner in schema["properties"].items()
            )
            self._depth -= 1
            return SchemaField(
                name, path, Kind.RECORD, "object", doc, is_optional=is_optional, fields=found
            )
        if isinstance(kind, str) and kind in _JSON:
            choices = _BOOLEANS if kind == "boolean" else ()
            return SchemaField(name, path, Kind(_JSON[kind]), kind, choices=choices, **facts)
        return SchemaField(name, path, Kind.JSON, str(kind or "any"), **facts)

    def _resolved(self, schema: Any) -> dict[str, Any]:
        """Return a schema, or what it refers to in the same text."""
        for _ in range(DEEP):
            target = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(target, str) or not target.startswith("#/"):
                break
            schema = self._whole
            for part in target[2:].split("/"):
                schema = schema.get(part, {}) if isinstance(schema, dict) else {}
        return schema if isinstance(schema, dict) else {}


class _Protobuf:
    """Makes fields of the first message of a Protobuf file. Every field may stay empty."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._depth = 0
        self._room = _Room()
        self._types: dict[str, Any] = {}
        self._note(f".{file.package}" if file.package else "", file.message_type, file.enum_type)

    def _note(self, scope: str, messages: Any, enums: Any) -> None:
        for each in enums:
            self._types[f"{scope}.{each.name}"] = each
        for each in messages:
            self._types[f"{scope}.{each.name}"] = each
            self._note(f"{scope}.{each.name}", each.nested_type, each.enum_type)

    def first(self) -> SchemaField | None:
        """Return the first message."""
        messages = self._file.message_type
        return self._message("", "", messages[0]) if messages else None

    def _message(self, name: str, path: str, message: Any) -> SchemaField:
        self._depth += 1
        found = tuple(self._field(_below(path, each.name), each) for each in message.field)
        self._depth -= 1
        return SchemaField(
            name, path, Kind.RECORD, message.name, is_optional=bool(path), fields=found
        )

    def _field(self, path: str, each: Any) -> SchemaField:
        self._room.take()
        known = self._types.get(each.type_name)
        is_plain = each.label != _REPEATED
        if is_plain and each.type == _MESSAGE and known is not None and self._depth < DEEP:
            return self._message(each.name, path, known)
        if is_plain and each.type == _ENUM and known is not None:
            names = tuple(value.name for value in known.value)
            return SchemaField(
                each.name,
                path,
                Kind.CHOICE,
                known.name,
                choices=names,
                is_text=True,
                is_optional=True,
            )
        kind, choices = Kind.NUMBER, tuple[str, ...]()
        if not is_plain or each.type in (_MESSAGE, _ENUM, 10):
            kind = Kind.JSON
        elif each.type == _BOOL:
            kind, choices = Kind.CHOICE, _BOOLEANS
        elif each.type in (_STRING, _BYTES):
            kind = Kind.TEXT
        words = each.type_name.lstrip(".") or ("base64" if each.type == _BYTES else kind.value)
        return SchemaField(
            each.name,
            path,
            kind,
            words if is_plain else f"list of {words}",
            choices=choices,
            is_optional=True,
        )
