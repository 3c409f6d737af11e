"""A schema of each format, for a user and a number that floats cannot hold."""

from __future__ import annotations

import json

from moldau.values.schema import Schema

BIG = 9007199254740993
SCHEMAS = {
    "avro": Schema(
        json.dumps(
            {
                "type": "record",
                "name": "User",
                "fields": [{"name": "name", "type": "string"}, {"name": "n", "type": "long"}],
            }
        )
    ),
    "json-schema": Schema('{"type": "object"}', "JSON"),
    "protobuf": Schema(
        'syntax = "proto3"; message User { string name = 1; int64 n = 2; }', "PROTOBUF"
    ),
}
