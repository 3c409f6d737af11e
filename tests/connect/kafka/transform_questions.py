"""What is asked about transforms and predicates."""

from __future__ import annotations

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
    OPTIONAL_STRING,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Struct,
)
from tests.connect.kafka.records import (
    HALF_HOME,
    HEADERS,
    PERSON,
    PLAIN,
    SPARSE,
    WHEN,
    WITH_MAP,
    both,
    person,
    record,
)

PACKAGE = "org.apache.kafka.connect.transforms."
Question = dict[str, Any]

STRUCTS = (person(), SPARSE, HALF_HOME)
RECORDS = (
    *(both(PERSON, struct, headers=HEADERS) for struct in STRUCTS),
    both(None, PLAIN, headers=HEADERS),
    both(None, None),
    both(PERSON, None),
    both(None, "a text"),
    both(STRING, "a text"),
    both(None, 17, is_sink=False, partition=None, timestamp=None),
)
CONFIGS: dict[str, tuple[dict[str, str], ...]] = {
    "DropHeaders": ({"headers": "trace"}, {"headers": "a,count"}, {"headers": ""}, {}),
    "InsertHeader": (
        {"header": "h", "value.literal": "12"},
        {"header": "trace", "value.literal": "[1,2]"},
        {"header": "h", "value.literal": "2026-02-03T04:05:06.789Z"},
        {"header": "h", "value.literal": "null"},
        {"header": "h"},
    ),
    "Filter": ({},),
    "RegexRouter": (
        {"regex": "(or)(ders)", "replacement": "$2-$1"},
        {"regex": "ord", "replacement": "x"},
        {"regex": ".*", "replacement": "all"},
        {"regex": "(?<first>o).*", "replacement": "${first}\\$"},
        {"regex": "(", "replacement": "x"},
        {"regex": "x"},
    ),
    "TimestampRouter": (
        {},
        {"topic.format": "a-${timestamp}-${topic}-${topic}", "timestamp.format": "yyyy.MM.dd'T'HH"},
        {"timestamp.format": "yyyy-'W'ww EEE MMM"},
    ),
    "ValueToKey": (
        {"fields": "id"},
        {"fields": "name,age"},
        {"fields": "age", "replace.null.with.default": "false"},
        {"fields": "missing"},
        {"fields": "id,id"},
        {"fields": "home.flag"},
        {"fields": "home.flag,id", "field.syntax.version": "V2"},
        {"fields": "home.inner.number", "field.syntax.version": "v2"},
        {
            "fields": "home.inner.number,age",
            "field.syntax.version": "V2",
            "replace.null.with.default": "false",
        },
        {"fields": "`dotted.name`.`x.y`", "field.syntax.version": "V2"},
        {"fields": "`dotted.name`", "field.syntax.version": "V2"},
        {"fields": "id,`dotted", "field.syntax.version": "V2"},
        {"fields": "home.street.x", "field.syntax.version": "V2"},
        {"fields": "id.x,missing.y", "field.syntax.version": "V2"},
        {"fields": "home.flag,home.flag", "field.syntax.version": "V2"},
        {"fields": "id", "field.syntax.version": "V3"},
        {"fields": ""},
        {},
    ),
    "Cast$": (
        {"spec": "string"},
        {"spec": "int32"},
        {"spec": "age:int8,height:int32,name:string,member:int64,weight:boolean"},
        {"spec": "id:int8,medium:int8,small:float32,balance:int32,height:float64"},
        {"spec": "born:int32,wakes:int64,seen:string,photo:string,balance:string,id:string"},
        {"spec": "born:string,wakes:string,weight:string,height:string,member:string"},
        {"spec": "age:int64", "replace.null.with.default": "false"},
        {"spec": "text:int16,nothing:string,seen:float32"},
        {"spec": "name:int32"},
        {"spec": "tags:string"},
        {"spec": "photo:int32"},
        {"spec": "age:decimal"},
        {"spec": "age:int8:x"},
        {"spec": "int8,age:int8"},
        {"spec": ""},
        {},
    ),
    "ExtractField$": (
        {"field": "name"},
        {"field": "age"},
        {"field": "age", "replace.null.with.default": "false"},
        {"field": "home"},
        {"field": "home.flag"},
        {"field": "home.flag", "field.syntax.version": "V2"},
        {"field": "home.inner.number", "field.syntax.version": "v2"},
        {
            "field": "home.inner.number",
            "field.syntax.version": "V2",
            "replace.null.with.default": "false",
        },
        {"field": "`dotted.name`.`x.y`", "field.syntax.version": "V2"},
        {"field": "`dotted.name`", "field.syntax.version": "V2"},
        {"field": "`dotted", "field.syntax.version": "V2"},
        {"field": "home.street.x", "field.syntax.version": "V2"},
        {"field": "name.x", "field.syntax.version": "V2"},
        {"field": "missing"},
        {"field": "id", "field.syntax.version": "V3"},
        {},
    ),
    "Flatten$": ({}, {"delimiter": "_"}, {"delimiter": ""}),
    "HeaderFrom$": (
        {"fields": "name,age", "headers": "h1,h2", "operation": "move"},
        {"fields": "age", "headers": "h", "operation": "copy"},
        {
            "fields": "age",
            "headers": "h",
            "operation": "copy",
            "replace.null.with.default": "false",
        },
        {
            "fields": "id",
            "headers": "h",
            "operation": "move",
            "replace.null.with.default": "false",
        },
        {"fields": "missing", "headers": "h", "operation": "copy"},
        {"fields": "a,b", "headers": "h", "operation": "copy"},
        {"fields": "a", "headers": "h", "operation": "steal"},
        {"fields": "", "headers": "", "operation": "copy"},
    ),
    "HoistField$": ({"field": "whole"}, {}),
    "InsertField$": (
        {"topic.field": "t", "partition.field": "p!", "timestamp.field": "ts?"},
        {"offset.field": "o!", "static.field": "s", "static.value": "constant"},
        {"timestamp.field": "when!", "replace.null.with.default": "false"},
        {"static.field": "s"},
        {"topic.field": "name"},
        {},
    ),
    "MaskField$": (
        {"fields": "name,age,member,height,weight,small"},
        {"fields": "balance,born,wakes,seen,tags"},
        {"fields": "name,age,id,height", "replacement": "17"},
        {"fields": "name", "replacement": "***"},
        {"fields": "age", "replacement": "***"},
        {"fields": "age", "replacement": "1.9"},
        {"fields": "balance", "replacement": "3.25"},
        {"fields": "member", "replacement": "1"},
        {"fields": "photo"},
        {"fields": "home"},
        {"fields": "nothing,missing"},
        {"fields": "id", "replace.null.with.default": "false"},
        {"fields": "name", "replacement": ""},
        {"fields": ""},
    ),
    "ReplaceField$": (
        {"exclude": "photo,tags,home,missing"},
        {"include": "id,name"},
        {"include": "id,name,age", "exclude": "name"},
        {"renames": "id:key,age:years"},
        {"include": "age", "renames": "age:years", "replace.null.with.default": "false"},
        {"renames": "id"},
        {"renames": "id:a:b"},
        {"exclude": "id,id"},
        {},
    ),
    "SetSchemaMetadata$": (
        {"schema.name": "other"},
        {"schema.version": "9"},
        {"schema.name": "other", "schema.version": "0", "replace.null.with.default": "false"},
        {"schema.version": "x"},
        {},
    ),
    "TimestampConverter$": (
        {"field": "seen", "target.type": "unix"},
        {"field": "seen", "target.type": "unix", "unix.precision": "seconds"},
        {"field": "seen", "target.type": "string", "format": "yyyy-MM-dd HH:mm:ss.SSS"},
        {"field": "seen", "target.type": "Date"},
        {"field": "seen", "target.type": "Time"},
        {"field": "seen", "target.type": "Timestamp"},
        {"field": "born", "target.type": "Timestamp"},
        {"field": "born", "target.type": "string", "format": "d.M.yy"},
        {"field": "wakes", "target.type": "unix", "unix.precision": "microseconds"},
        {"field": "id", "target.type": "Timestamp", "unix.precision": "nanoseconds"},
        {"field": "day", "target.type": "Timestamp", "format": "yyyy-MM-dd"},
        {"field": "day", "target.type": "Timestamp", "format": "dd/MM"},
        {"field": "day", "target.type": "Timestamp"},
        {"field": "age", "target.type": "Timestamp"},
        {"field": "missing", "target.type": "Timestamp"},
        {"target.type": "Timestamp"},
        {"target.type": "string", "format": "yyyyMMdd"},
        {"field": "seen", "target.type": "string"},
        {"field": "seen", "target.type": "string", "format": "bad"},
        {"field": "seen", "target.type": "date"},
        {"field": "seen", "target.type": "unix", "unix.precision": "hours"},
        {},
    ),
}


def _transform(name: str, config: dict[str, str], of: Question) -> Question:
    return {"ask": "transform", "class": PACKAGE + name, "config": config, "record": of}


def _each_config() -> Iterator[Question]:
    for name, configs in CONFIGS.items():
        for config in configs:
            for of in RECORDS:
                if name.endswith("$"):
                    yield _transform(name + "Value", config, of)
                else:
                    yield _transform(name, config, of)
            if name.endswith("$"):
                yield _transform(name + "Key", config, RECORDS[0])
                yield _transform(name + "Key", config, RECORDS[3])


_WHOLE: tuple[tuple[Schema | None, Any], ...] = (
    (INT8, -128),
    (INT16, 300),
    (INT32, 2**31 - 1),
    (INT64, -(2**63)),
    (INT64, 2**53 + 1),
    (FLOAT32, 0.1),
    (FLOAT32, 1e10),
    (FLOAT64, 0.1),
    (FLOAT64, 1e300),
    (FLOAT64, -1.5),
    (FLOAT64, float("nan")),
    (FLOAT64, float("-inf")),
    (FLOAT64, 123456789.123),
    (BOOLEAN, True),
    (STRING, "12"),
    (STRING, "+7"),
    (STRING, " 12"),
    (STRING, "1.5"),
    (STRING, "1e3"),
    (STRING, "NaN"),
    (STRING, "TRUE"),
    (STRING, "300"),
    (STRING, ""),
    (BYTES, b"\x01\x02"),
    (Schema.decimal(2), Decimal("300.75")),
    (DATE, date(2026, 2, 3)),
    (TIME, time(1, 2, 3)),
    (TIMESTAMP, WHEN),
    (TIMESTAMP, datetime(2026, 2, 3, tzinfo=UTC)),
    (TIMESTAMP, datetime(1969, 12, 31, 23, 0, tzinfo=UTC)),
    (None, 300),
    (None, 1.75),
    (None, "x"),
    (None, {"a": 1}),
    (OPTIONAL_STRING, None),
    (INT32.replace(default=300, optional=True), None),
    (INT32.replace(default=300, name="n", version=2, doc="d"), 5),
)


def _casts() -> Iterator[Question]:
    targets = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
    for schema, value in _WHOLE:
        for target in targets:
            yield _transform("Cast$Value", {"spec": target}, both(schema, value))


def _whole_timestamps() -> Iterator[Question]:
    values: tuple[tuple[Schema | None, Any], ...] = (
        (TIMESTAMP, WHEN),
        (TIMESTAMP, datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
        (DATE, date(1960, 2, 29)),
        (TIME, time(23, 59)),
        (INT64, -1),
        (INT64, 1_770_091_506_789),
        (STRING, "03.02.2026 04:05"),
        (OPTIONAL_STRING, None),
        (None, 1_770_091_506_789),
        (None, "03.02.2026 04:05"),
        (None, None),
        (None, 1.5),
        (INT32, 5),
    )
    for schema, value in values:
        for target in ("string", "unix", "Date", "Time", "Timestamp"):
            for precision in ("seconds", "milliseconds", "microseconds", "nanoseconds"):
                config = {"target.type": target, "format": "dd.MM.yyyy HH:mm"}
                config["unix.precision"] = precision
                yield _transform("TimestampConverter$Value", config, both(schema, value))


def _defaults_of_structs() -> Iterator[Question]:
    part = Schema.struct({"a": INT32.replace(default=5, optional=True), "b": STRING})
    whole = part.replace(default=Struct(part, {"a": None, "b": "x"}), optional=True)
    outer = Schema.struct({"part": whole, "c": INT64})
    of = both(outer, Struct(outer, {"part": None, "c": 1}))
    for name, config in (
        ("Flatten$Value", {}),
        ("ReplaceField$Value", {"exclude": "c"}),
        ("SetSchemaMetadata$Value", {"schema.name": "n"}),
        ("ExtractField$Value", {"field": "part"}),
        ("HoistField$Value", {"field": "f"}),
    ):
        yield _transform(name, config, of)
    yield _transform("Cast$Value", {"spec": "a:string"}, both(whole, Struct(whole, {"b": "y"})))
    yield _transform("SetSchemaMetadata$Value", {"schema.version": "2"}, both(whole, None))
    yield _transform("Flatten$Value", {}, both(WITH_MAP, Struct(WITH_MAP, {"id": 1, "scores": {}})))


def _predicates() -> Iterator[Question]:
    package = PACKAGE + "predicates."
    configs: tuple[tuple[str, dict[str, str]], ...] = (
        ("HasHeaderKey", {"name": "trace"}),
        ("HasHeaderKey", {"name": "nope"}),
        ("HasHeaderKey", {"name": ""}),
        ("HasHeaderKey", {}),
        ("RecordIsTombstone", {}),
        ("TopicNameMatches", {"pattern": "ord.*"}),
        ("TopicNameMatches", {"pattern": "ord"}),
        ("TopicNameMatches", {"pattern": ""}),
        ("TopicNameMatches", {"pattern": "["}),
    )
    for name, config in configs:
        for of in (RECORDS[0], record(), record(topic="else")):
            yield {"ask": "predicate", "class": package + name, "config": config, "record": of}


def questions() -> list[Question]:
    """All of them, in a fixed order."""
    return [
        *_each_config(),
        *_casts(),
        *_whole_timestamps(),
        *_defaults_of_structs(),
        *_predicates(),
    ]
