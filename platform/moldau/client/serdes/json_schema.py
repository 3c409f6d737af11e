"""JSON after the id of its JSON Schema, validated by jsonschema-rs.

A value is plain JSON, a dataclass, a pydantic model or a msgspec struct. The serializer's own
schema is given as text or `Schema`, or made from a type. Without either, values are written with
the latest version of the subject in the registry.

Invariant: a value that does not fit its schema is neither written nor returned, unless
`json.fail.invalid.schema` is false. jsonschema-rs is many times faster than the validators that are
written in Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final
from urllib.parse import quote, urljoin

from moldau.client.base.extras import need
from moldau.client.serdes.contract import DeserializationFailed, Place, SerializationFailed
from moldau.client.serdes.framed import Read, SchemaDeserializer, SchemaSerializer, Write
from moldau.client.serdes.registry.client import RegistryGiven, SchemaRegistry
from moldau.client.serdes.registry.naming import SchemaOptions
from moldau.client.serdes.registry.schemas import JSON, Schema
from moldau.client.serdes.typed_json import (
    is_struct,
    json_reader,
    read_json,
    write_json,
    write_looked_at,
)
from moldau.client.serdes.wire import SchemaKey, frame
from moldau.errors import ConfigError

Check = Callable[[Any], None]

_DEPTH_MAX: Final = 32
_BASE: Final = "json-schema:///"
_DRAFTS: Final = ("http://json-schema.org/draft", "https://json-schema.org/draft")
_DRAFT_7: Final = "http://json-schema.org/draft-07/schema#"
_OF_ADDRESSES: Final = ":/?#[]@!$&'()*+,;=%~"


class JsonSchemaSerializer(SchemaSerializer):
    """Writes values that fit a JSON Schema."""

    def __init__(
        self,
        registry: RegistryGiven,
        schema: str | Schema | None = None,
        *,
        type: type[Any] | None = None,
        options: SchemaOptions | None = None,
        owns_registry: bool = False,
    ) -> None:
        """Take the schema itself, or a type to make one from."""
        super().__init__(registry, options, owns_registry=owns_registry)
        if schema is None and type is not None:
            schema = json.dumps(schema_of_type(type))
        self._schema = Schema(schema, JSON) if isinstance(schema, str) else schema
        if self._schema is not None and not self._schema.references:
            _validator(self._schema, {})  # report its errors before it is registered
        self._name = None if self._schema is None else _title_of(self._schema)

    def kind_of(self, value: Any) -> Hashable:
        """Return one kind for all values, as they share one schema."""
        return None

    def subject_of(self, value: Any, place: Place) -> str:
        """Return the subject, which may be named by the schema's title."""
        return self.options.subject(place, self._name)

    def has_own(self, value: Any) -> bool:
        """Whether a schema or a type was given."""
        return self._schema is not None

    async def own_schema(self, value: Any) -> Schema | None:
        """Return the schema that was given or made, or None."""
        return self._schema

    async def writer(self, schema_id: int, schema: Schema, value: Any) -> Write:
        """Return a function that validates and writes values."""
        if schema.type != JSON:
            raise SerializationFailed(
                f"the subject has a schema of another kind: {schema.type}", schema=schema_id
            )
        prefix = frame(schema_id)
        if not self.options.validates:
            return lambda value: prefix + write_json(value)
        check = await checker(self.registry, schema, schema_id, SerializationFailed)

        def write(value: Any) -> bytes:
            data, is_plain = write_looked_at(value)
            check(value if is_plain else read_json(data))
            return prefix + data

        return write


class JsonSchemaDeserializer(SchemaDeserializer):
    """Reads values of JSON Schemas, as plain JSON or as instances of a type."""

    def __init__(
        self,
        registry: RegistryGiven,
        *,
        type: type[Any] | None = None,
        options: SchemaOptions | None = None,
        owns_registry: bool = False,
    ) -> None:
        super().__init__(registry, options, owns_registry=owns_registry)
        self._make = None if type is None else json_reader(type)

    async def reader(self, key: SchemaKey) -> Read:
        """Return a function that reads and validates values."""
        schema = await self.schema_of(key, JSON)
        check = None
        if self.options.validates:
            check = await checker(self.registry, schema, key, DeserializationFailed)
        make = self._make

        def read(data: bytes, at: int) -> Any:
            payload = data[at:]
            value = read_json(payload)
            if check is not None:
                check(value)
            # A type accepts more from JSON than from values: keys and times that are text.
            return value if make is None else make(payload)

        return read


def schema_of_type(type: Any) -> dict[str, Any]:
    """Return the JSON Schema of a dataclass, pydantic model or msgspec struct in written form."""
    if is_struct(type):
        import msgspec

        return {**msgspec.json.schema(type), "title": type.__name__}
    from pydantic import TypeAdapter

    return TypeAdapter(type).json_schema(mode="serialization")


def check_json_schema(schema: Schema, known: Mapping[str, Any]) -> None:
    """Raise ConfigError if a schema is invalid. `known` are its references, loaded, by name."""
    _validator(schema, known)


async def checker(
    registry: SchemaRegistry,
    schema: Schema,
    key: SchemaKey,
    failure: type[SerializationFailed | DeserializationFailed],
) -> Check:
    """Return a function that raises `failure`, with the position, for a value that does not fit."""
    rs = need("jsonschema_rs", "json-schema")
    known: dict[str, Any] = {}
    await _add_references(registry, schema, known, _DEPTH_MAX)

    validator = _validator(schema, known)

    def check(value: Any) -> None:
        try:
            validator.validate(value)
        except rs.ValidationError as error:
            place = "/".join(map(str, error.instance_path))
            raise failure(
                f"it does not fit its schema: {error.message}", schema=key, at=f"/{place}"
            ) from error

    return check


def _validator(schema: Schema, known: Mapping[str, Any]) -> Any:
    """Return a validator of the schema. Without a draft, it is of the latest one; if that fails or
    the draft is unknown, of draft 7, as which Confluent's registry has accepted it."""
    rs = need("jsonschema_rs", "json-schema")
    unusable = (rs.ValidationError, rs.ReferencingError, ValueError)
    top = _loaded(schema)
    try:
        try:
            return _validator_of(top, known)
        except unusable:
            if not isinstance(top, dict) or str(top.get("$schema")).startswith(_DRAFTS):
                raise
            return _validator_of({**top, "$schema": _DRAFT_7}, known)
    except unusable as error:
        raise ConfigError(
            f"the JSON Schema cannot be used: {error}", schema=schema.text[:80]
        ) from error


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


async def _add_references(
    registry: SchemaRegistry, schema: Schema, known: dict[str, Any], depth: int
) -> None:
    if schema.references and not depth:
        raise ConfigError("the schema's references are too deep or go in a circle")
    for each in schema.references:
        if each.name not in known:
            found = await registry.version(each.subject, each.version)
            known[each.name] = _loaded(found.schema)
            await _add_references(registry, found.schema, known, depth - 1)


def _loaded(schema: Schema) -> Any:
    try:
        return json.loads(schema.text)
    except ValueError as error:
        raise ConfigError(f"the schema is no JSON: {error}", schema=schema.text[:80]) from error


def _title_of(schema: Schema) -> str | None:
    loaded = _loaded(schema)
    title = loaded.get("title") if isinstance(loaded, dict) else None
    return title if isinstance(title, str) else None
