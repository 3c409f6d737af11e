"""JSON Schemas: checked by jsonschema-rs, references resolved, compared by `compatibility`.

The canonical text is the JSON without blanks, in the order that it was given. Normalized, the keys
of objects are sorted, and so are lists in which order means nothing. jsonschema-rs is many times
faster than the validators that are written in Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, urljoin

from moldau.errors import ConfigError
from moldau.plugins.extras import need
from moldau.values.compatibility import (
    Difference,
    InvalidSchema,
    Resolve,
    Work,
    as_invalid,
    collect,
)
from moldau.values.failures import DeserializationFailed, SerializationFailed
from moldau.values.json.compatibility import differences
from moldau.values.schema import Schema
from moldau.values.wire import SchemaKey

Check = Callable[[Any], None]

_BASE: Final = "json-schema:///"
_DRAFTS: Final = ("http://json-schema.org/draft", "https://json-schema.org/draft")
_DRAFT_7: Final = "http://json-schema.org/draft-07/schema#"
_OF_ADDRESSES: Final = ":/?#[]@!$&'()*+,;=%~"
_UNORDERED: Final = ("required", "type", "enum")


class JsonSchema:
    """A parsed JSON Schema. `known` are the referenced ones by name."""

    def __init__(self, raw: Any, known: Mapping[str, Any]) -> None:
        self.raw = raw
        self.known = known

    @cached_property
    def canonical(self) -> str:
        return _dump(self.raw)

    @property
    def identity(self) -> str:
        return self.canonical

    @cached_property
    def normalized(self) -> str:
        return _dump(_sorted(self.raw, ""))

    def differences(self, writer: JsonSchema, work: Work) -> list[Difference]:
        return differences(self.raw, self.known, writer.raw, writer.known, work)

    def text(self, format: str) -> str | None:
        return None


def parse(schema: Schema, resolve: Resolve) -> JsonSchema:
    """Parse a schema. Raise InvalidSchema."""
    with as_invalid():
        raw = loaded(schema.text)
        if not isinstance(raw, (dict, bool)):
            raise InvalidSchema("a JSON Schema is an object, true or false")
        known = {name: loaded(each.text) for name, each in collect(schema, resolve).items()}
        validator(schema.text, known)
    return JsonSchema(raw, known)


def _sorted(raw: Any, name: str) -> Any:
    if isinstance(raw, dict):
        return {key: _sorted(raw[key], key) for key in sorted(raw)}
    if isinstance(raw, list):
        made = [_sorted(each, "") for each in raw]
        return sorted(made, key=_dump) if name in _UNORDERED else made
    return raw


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def loaded(text: str) -> Any:
    """Return the JSON of a schema. Raise ConfigError."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the schema is no JSON: {error}", schema=text[:80]) from error


def checker(
    schema: Schema,
    referenced: Mapping[str, Schema],
    key: SchemaKey,
    failure: type[SerializationFailed | DeserializationFailed],
) -> Check:
    """Return a function that raises `failure`, with the position, for a value that does not fit."""
    rs = need("jsonschema_rs", "json-schema")
    known = {name: loaded(each.text) for name, each in referenced.items()}
    validate = validator(schema.text, known).validate

    def check(value: Any) -> None:
        try:
            validate(value)
        except rs.ValidationError as error:
            place = "/".join(map(str, error.instance_path))
            raise failure(
                f"it does not fit its schema: {error.message}", schema=key, at=f"/{place}"
            ) from error

    return check


def validator(text: str, known: Mapping[str, Any]) -> Any:
    """Return a validator of a schema; `known` are those that it refers to, by name. Without a draft
    it is of the latest one; if that fails or the draft is unknown, of draft 7, as which Confluent's
    registry has accepted it."""
    rs = need("jsonschema_rs", "json-schema")
    unusable = (rs.ValidationError, rs.ReferencingError, ValueError)
    top = loaded(text)
    try:
        try:
            return _validator_of(top, known)
        except unusable:
            if not isinstance(top, dict) or str(top.get("$schema")).startswith(_DRAFTS):
                raise
            return _validator_of({**top, "$schema": _DRAFT_7}, known)
    except unusable as error:
        raise ConfigError(f"the JSON Schema cannot be used: {error}", schema=text[:80]) from error


def _validator_of(top: Any, known: Mapping[str, Any]) -> Any:
    """Return a validator that never fetches addresses: a schema does not choose what is fetched."""
    rs = need("jsonschema_rs", "json-schema")

    def retrieve(uri: str) -> Any:
        name = _name_meant(uri, known)
        if name is None:
            raise LookupError(f"the schema refers to {uri}, which is none of its references")
        return known[name]

    registry = rs.Registry(_at_hand(top, known), retriever=retrieve)
    return rs.validator_for(top, registry=registry, base_uri=_BASE, validate_formats=False)


def _at_hand(top: Any, known: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the known schemas by address, as seen from each schema with an address of its own:
    after such a schema, jsonschema-rs no longer calls the retriever."""
    bases = {"": None, **dict.fromkeys(filter(None, map(_id_of, (top, *known.values()))))}
    return [
        (urljoin(base, quote(name, safe=_OF_ADDRESSES)), body)
        for base in bases
        for name, body in known.items()
    ]


def _id_of(body: Any) -> str | None:
    own = body.get("$id") if isinstance(body, dict) else None
    return own if isinstance(own, str) else None


def _name_meant(uri: str, known: Mapping[str, Any]) -> str | None:
    """Return the known name that an address means: that name, the name of the schema with that
    `$id`, or the longest one that it ends with, as names are resolved against the schema that
    refers to them."""
    for name in (uri, uri.removeprefix(_BASE)):
        if name in known:
            return name
    for name, body in known.items():
        if _id_of(body) == uri:
            return name
    endings = [name for name in known if uri.endswith(f"/{name}")]
    return max(endings, key=len, default=None)
