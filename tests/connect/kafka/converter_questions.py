"""What is asked about converters of values and of headers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from moldau.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    OPTIONAL_INT32,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Struct,
)
from tests.connect.kafka.encoding import schema_json, value_json
from tests.connect.kafka.records import HALF_HOME, PERSON, PLAIN, SPARSE, WHEN, person

Question = dict[str, Any]
JSON = "org.apache.kafka.connect.json.JsonConverter"
SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
STRING_CLASS = "org.apache.kafka.connect.storage.StringConverter"
PACKAGE = "org.apache.kafka.connect.converters."

VALUES: tuple[tuple[Schema | None, Any], ...] = (
    (INT8, -5),
    (INT16, 300),
    (INT32, 7),
    (INT64, 2**60),
    (FLOAT32, 0.1),
    (FLOAT64, 1e21),
    (FLOAT64, 0.001),
    (FLOAT64, float("nan")),
    (BOOLEAN, True),
    (STRING, 'a "quoted" \u00e4\\'),
    (BYTES, b"\x00\xff"),
    (Schema.decimal(2), Decimal("12.50")),
    (Schema.decimal(0), Decimal("-1")),
    (DATE, date(2026, 2, 3)),
    (TIME, time(4, 5, 6, 789000)),
    (TIMESTAMP, WHEN),
    (TIMESTAMP, datetime(2026, 2, 3, tzinfo=UTC)),
    (Schema.array(INT32), [1, 2]),
    (Schema.map(STRING, INT32), {"a": 1}),
    (Schema.map(INT32, STRING), {1: "a"}),
    (OPTIONAL_INT32, None),
    (INT32.replace(default=5, optional=True), None),
    (INT32, None),
    (PERSON, person()),
    (PERSON, SPARSE),
    (PERSON, HALF_HOME),
    (None, PLAIN),
    (None, "text"),
    (None, 17),
    (None, 1.5),
    (None, True),
    (None, None),
    (None, ["a", 1, None, {"b": []}]),
    (None, b"\x01"),
)
_JSON_CONFIGS: tuple[dict[str, str], ...] = (
    {},
    {"schemas.enable": "false"},
    {"decimal.format": "numeric", "replace.null.with.default": "false"},
    {"schemas.enable": "false", "decimal.format": "NUMERIC"},
)
_TEXTS = (
    "", " ", "null", "true", "false", "TRUE", "trueish", "1", "-1", "127", "128", "-129", "32768",
    "2147483648", "9223372036854775807", "9223372036854775808", "99999999999999999999", "1.0",
    "1.5", "0.1", "-0.25", "3.14159265358979", "1e3", "1E400", "1e39", "1.5e-3", "+7", "0x10",
    "1_000", "1.", ".5", "NaN", "a text", "2026-02-03", "2026-02-30", "04:05:06.789Z",
    "2026-02-03T04:05:06.789Z", "04:05:06", "[]", "[1,2,3]", "[1, 300, 70000]", "[1,2.5]",
    '["a","b"]', '["a",1]', "[1,null]", "[null]", "[1,,2]", "[1,2", "[1 2]", "[a,b]", "{}",
    '{"a":1}', '{"a":1,"b":300}', '{"a":1,"b":"x"}', '{"a":null}', '{"a"}', '{"a":1', "{a:1}",
    '{1:"x"}', '{"a":[1,2],"b":[3]}', '[{"a":1},{"b":2}]', '["2026-02-03"]', 'say "hi"', '"quoted"',
    "a,b", "a:b", "a\\:b", "[true,false]", "12:30", "1,2", "[\"x\\\"y\"]", "\u00e4",
    "[2026-02-03T04:05:06.789Z]", "  7  ", "[ 1 , 2 ]", '{ "a" : 1 }', "[[1],[2]]", "- 1", "-",
)  # fmt: skip
_DECIMAL = '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2"}}'  # noqa: E501
_ENVELOPES = (
    '{"schema":{"type":"int32"},"payload":7}',
    '{"schema":{"type":"int32","optional":true},"payload":null}',
    '{"schema":{"type":"int32","default":5},"payload":null}',
    '{"schema":{"type":"int32","optional":true,"default":5},"payload":null}',
    '{"schema":null,"payload":{"a":[1,2.5,null,"x",true]}}',
    '{"payload":7,"schema":{"type":"int8"}}',
    '{"schema":{"type":"int32"}}',
    '{"schema":{"type":"int32"},"payload":7,"x":1}',
    '{"a":1}',
    "7",
    "",
    "null",
    '{"schema":{},"payload":7}',
    '{"schema":{"type":"int33"},"payload":7}',
    '{"schema":{"type":"array"},"payload":[]}',
    '{"schema":{"type":"array","items":{"type":"int8"}},"payload":[1,2]}',
    '{"schema":{"type":"map","keys":{"type":"string"},"values":{"type":"int8"}},"payload":{"a":1}}',
    '{"schema":{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"}},"payload":[[1,2]]}',
    '{"schema":{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"}},"payload":{"1":2}}',
    '{"schema":{"type":"struct","fields":[{"field":"a","type":"int64"}]},"payload":{"a":1,"b":2}}',
    '{"schema":{"type":"struct","fields":[{"field":"a","type":"int64"}]},"payload":{}}',
    '{"schema":{"type":"struct","fields":[{"field":"a","type":"float"}]},"payload":{"a":1}}',
    '{"schema":{"type":"string"},"payload":7}',
    '{"schema":{"type":"int32"},"payload":"7"}',
    '{"schema":{"type":"int8"},"payload":300}',
    '{"schema":{"type":"int32"},"payload":1.5}',
    '{"schema":{"type":"boolean"},"payload":1}',
    '{"schema":{"type":"bytes"},"payload":"AAH/"}',
    f'{{"schema":{_DECIMAL},"payload":"BOI="}}',
    f'{{"schema":{_DECIMAL},"payload":12.50}}',
    f'{{"schema":{_DECIMAL},"payload":12}}',
    f'{{"schema":{_DECIMAL},"payload":true}}',
    '{"schema":{"type":"int32","name":"org.apache.kafka.connect.data.Date"},"payload":20487}',
    '{"schema":{"type":"int32","name":"org.apache.kafka.connect.data.Time"},"payload":86399999}',
    '{"schema":{"type":"int32","name":"org.apache.kafka.connect.data.Time"},"payload":86400000}',
    '{"schema":{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp"},"payload":-1}',
    '{"schema":{"type":"int64","name":"n","version":2,"doc":"d","parameters":{"a":"b"}},"payload":1}',
    "{",
    "nul",
    '{"a":1}x',
    "007",
    "18446744073709551616",
    "[1e400]",
)


def _ask(kind: str, cls: str, config: dict[str, str], **more: Any) -> Question:
    return {"ask": kind, "class": cls, "config": config, **more}


def _written(kind: str, cls: str, config: dict[str, str]) -> Iterator[Question]:
    for schema, value in VALUES:
        described = {"schema": schema_json(schema), "value": value_json(value, schema)}
        yield _ask(kind, cls, config, **described)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _plain() -> Iterator[Question]:
    sizes = (None, b"", b"\x01", b"\x00\x02", b"\x00" * 4, b"\x40\x49\x0f\xdb" * 2, b"\xff" * 9)
    for name in ("Boolean", "Short", "Integer", "Long", "Float", "Double", "ByteArray"):
        cls = f"{PACKAGE}{name}Converter"
        yield from _written("write", cls, {})
        for data in sizes:
            yield _ask("read", cls, {}, bytes=None if data is None else _b64(data))
    for config in ({}, {"converter.encoding": "UTF-16"}, {"converter.encoding": "klingon"}):
        for asked in _written("write", STRING_CLASS, config):
            if "$bytes" not in str(asked["value"]):  # Java writes an address in memory
                yield asked
        yield _ask("read", STRING_CLASS, config, bytes=_b64("x\u00e4".encode("utf-16-be")))


def questions() -> list[Question]:
    """All of them, in a fixed order."""
    asked = [*_plain(), *_written("write header", SIMPLE, {})]
    for config in _JSON_CONFIGS:
        asked.extend(_written("write", JSON, config))
        for text in _ENVELOPES:
            asked.append(_ask("read", JSON, config, bytes=_b64(text.encode())))
        asked.append(_ask("read", JSON, config, bytes=None))
    schema = json.dumps({"type": "struct", "fields": [{"field": "a", "type": "int32"}]})
    for text in ('{"a":1}', "{}", "7"):
        asked.append(_ask("read", JSON, {"schema.content": schema}, bytes=_b64(text.encode())))
    for text in _TEXTS:
        asked.append(_ask("read header", SIMPLE, {}, bytes=_b64(text.encode())))
    asked.append(_ask("read header", SIMPLE, {}, bytes=None))
    struct = Schema.struct({"a": INT32, "b": STRING.optionally()})
    for value in (Struct(struct, {"a": 1}), Struct(struct, {"a": 1, "b": 'x"y\\'})):
        described = {"schema": schema_json(struct), "value": value_json(value, struct)}
        asked.append(_ask("write header", SIMPLE, {}, **described))
    return asked
