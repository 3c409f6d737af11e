"""The types of schemas that the registry knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from moldau.client.serdes.registry.schemas import AVRO, JSON, PROTOBUF, Schema
from moldau.registry.formats.contract import InvalidSchema, Parsed, Resolve


def _avro(schema: Schema, resolve: Resolve) -> Any:
    from moldau.registry.formats.avro import parse

    return parse(schema, resolve)


def _json(schema: Schema, resolve: Resolve) -> Any:
    from moldau.registry.formats.json_schema import parse

    return parse(schema, resolve)


def _protobuf(schema: Schema, resolve: Resolve) -> Any:
    from moldau.registry.formats.protobuf import parse

    return parse(schema, resolve)


_FORMATS: Final[dict[str, Callable[[Schema, Resolve], Any]]] = {
    JSON: _json,
    PROTOBUF: _protobuf,
    AVRO: _avro,
}
TYPES: Final = tuple(_FORMATS)


def parse(schema: Schema, resolve: Resolve) -> Parsed:
    """Parse a schema of any type. Raise InvalidSchema."""
    found = _FORMATS.get(schema.type)
    if found is None:
        raise InvalidSchema(f"there is no such type; known are {', '.join(TYPES)}")
    parsed: Parsed = found(schema, resolve)
    return parsed
