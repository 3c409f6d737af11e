"""Settings from files of every format, from the environment, and what the table makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from moldau.config import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    EnvironmentProvider,
    Kind,
    Setting,
    SettingTable,
    between,
    load_assignments,
    load_environment,
    load_text,
    overrides,
    resolve_references,
)
from moldau.config.properties import format_properties, parse_properties
from moldau.errors import ConfigError
from tests.fuzz.corpus import Input
from tests.fuzz.target import Finding, Target

FORMATS = ("json", "toml", "yaml", "properties", "environment", "assignments", "references")
KINDS: tuple[Kind[Any], ...] = (BOOLEAN, CLASS, DOUBLE, INT, LIST, LONG, PASSWORD, SHORT, STRING)
TABLE = SettingTable(
    [
        *(Setting(f"a.{kind.name.lower()}", kind, None, "One of each kind.") for kind in KINDS),
        Setting("b.bounded", INT, 5, "With a check.", check=between(1, 9)),
    ],
    open_prefixes=("x.",),
)
PROVIDERS = {"env": EnvironmentProvider({"DB_PORT": "5432", "DB_HOST": "db"}, "DB_.*")}
VALUES = ("true", "java.lang.String", "1.5e3", "-7", "a, b", "9223372036854775807", "x\u00e9\u2028")


def properties(data: bytes) -> None:
    """What is read is read again from its own form."""
    text = _text(data)
    entries = parse_properties(text)
    values = {entry.key: entry.value for entry in entries}
    again = format_properties(values)
    if {entry.key: entry.value for entry in parse_properties(again)} != values:
        raise Finding(f"properties: {values!r} became {again!r}")


def settings(data: bytes) -> None:
    """The first byte chooses the format; what a file gives goes through the table."""
    kind = FORMATS[data[0] % len(FORMATS)] if data else FORMATS[0]
    text = _text(data[1:])
    if kind == "environment":
        pairs = (line.partition("=") for line in text.split("\n"))
        layer = load_environment({f"MOLDAU_{name}": value for name, _, value in pairs})
    elif kind == "assignments":
        layer = load_assignments(text.split("\n"), "--set")
    elif kind == "references":
        layer = resolve_references(overrides({"x.a": text}), PROVIDERS)
    else:
        layer = load_text(text, f"fuzz.{kind}")
    resolved = TABLE.resolve(layer)
    for row in TABLE:
        resolved.describe(row)


def _text(data: bytes) -> str:
    """UTF-8 where it is that, so that every sequence of bytes is some text."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def property_seeds() -> Iterator[Input]:
    lines = (
        "key=value",
        "key : value",
        "! comment\nkey   value\r\n# comment\\\nb=c\rd",
        "long = a, \\\n   b, \\\r\n\tc",
        "caf\\u00e9 = \\t \\\\ \\q \\u0041",
        "pair=\\ud83d\\ude00",
        "half=\\ud83d",
        "bad=\\u12G4",
        "end=\\",
        "end=\\u",
        "a=1\na=2",
        "\\ \\:\\==\\ x",
        "k\u00e9y=\u4e16",
        "=\n:\n  \n\\\n",
    )
    for number, line in enumerate(lines):
        yield f"properties-{number:02}", line.encode()


def setting_seeds() -> Iterator[Input]:
    flat = {row.name: value for row, value in zip(TABLE, VALUES * 2, strict=False)}
    nested: dict[str, Any] = {"a": {"int": 5, "list": ["b", "c"], "boolean": True, "double": 1.5}}
    texts = {
        "json": (
            json.dumps(flat),
            json.dumps(nested),
            '{"a":{"int":1},"a.int":2}',
            '{"x.y":1e999,"b.bounded":-0}',
            '{"a":' * 40 + "1" + "}" * 40,
            '{"a.list":[1,null,[2]]}',
            '{"x.a":NaN}',
            '{"a.password":"\\ud800","x.\\udc00":["\\ud83d\\ude00"]}',
            '{"a.int":1,"x.a":2,"a.int":3}',
            '{"a.password":{"hunter2":1}}',
            "[" * 300,
        ),
        "toml": (
            "\n".join(f"'{name}' = {json.dumps(value)}" for name, value in flat.items()),
            "[a]\nint = 0x1F\nlist = ['b', 'c']\n[b]\nbounded = 12",
            "x.a = 1979-05-27T07:32:00Z\nx.b = inf\nx.c = 07:32:00",
            "x.a = 1\nx.a.b = 2",
            "a = " + "[" * 200,
            "x.n = " + "9" * 400,
            "x." * 2500 + "b = 1",
            '"\\"".' * 2500 + "b = 1",
        ),
        "yaml": (
            "\n".join(f"{name}: {json.dumps(value)}" for name, value in flat.items()),
            "a:\n  int: 5\n  list: [b, c]\n  boolean: on\nb: {bounded: 0o7}",
            "x: &a [1, 2]\na: {list: *a}",
            "x: &a {b: *a}",
            "x: !!python/object/apply:os.system ['true']",
            "a: &a [b,b,b,b]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nx: [*c,*c,*c,*c]",
            "<<: {a: 1}\n? [x, y]\n: 2",
            "x: 12:30:45\ny: 0b1_0\nz: 2001-12-14\n--- \nsecond: 1",
            "x: 'open",
            'x.a: "\\UFFFFFFFF"',
            'x.a: "\\U00110000"',
            'x.a: "\\uD800"',
            f"%YAML 1.{'1' * 5000}\n---\nx.a: 1",
            "a.password: *hunter2",
            "a.password: {hunter2}",
            f"x.a: &a [{'b,' * 300}]\n" + "".join(f"x.b{n}: *a\n" for n in range(400)),
            f"x.a: &a\n  ? {'b' * 9000}\n  : 1\n" + "".join(f"x.{n}: *a\n" for n in range(300)),
            "{" * 200,
        ),
        "environment": ("A_INT=5\nB_BOUNDED=7\nX__Y___Z=1\nA_LIST=a,b", "A_BOOLEAN=maybe\n=\n_=1"),
        "references": (
            "${env:DB_PORT}",
            "at ${env:DB_HOST}:${env:DB_PORT}/x",
            "${env:a:b:c}",
            "${file:/x:y}",
            "${" * 300,
            "${env:" * 300 + "}",
            "${}${:}${::}",
        ),
        "assignments": ("a.int=5\nb.bounded=99\nx.y=1", "a.password=hunter2\nno equals"),
    }
    for kind, given in texts.items():
        for number, text in enumerate(given):
            label = f"{kind}-{number:02}"
            yield label, bytes([FORMATS.index(kind)]) + text.encode()


PROPERTIES = Target("properties", properties, (ConfigError,), property_seeds)
SETTINGS = Target("settings", settings, (ConfigError,), setting_seeds)
