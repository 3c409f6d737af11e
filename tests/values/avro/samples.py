"""Schemas of records, and what a reader gets of values of them."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro

from moldau.values.avro.fit import Values


def logical(base: str, logical: str, **more: object) -> dict[str, Any]:
    return {"type": base, "logicalType": logical, **more}


def record(**types: object) -> dict[str, Any]:
    fields = [{"name": name, "type": each} for name, each in types.items()]
    return {"type": "record", "name": "R", "fields": fields}


def through(schema: Any, value: Any, **reading: Any) -> Any:
    """What a reader gets of what was written."""
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)), named_schemas=named)
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, parsed, Values(named).fit(parsed)(value))
    buffer.seek(0)
    return fastavro.schemaless_reader(buffer, parsed, None, **reading)


def named(name: str, **types: object) -> dict[str, Any]:
    return {**record(**types), "name": name}
