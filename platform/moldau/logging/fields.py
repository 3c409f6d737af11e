"""The formats of a log line's fields: `key=value` for people, JSON for machines.

A line is one line: whatever a value contains, it cannot start a new line or forge a field (control
characters are escaped, a value with blanks or quotes is quoted). A field with the name of a secret
is hidden even if its value is a plain string; `moldau.config.Secret` hides itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quoted
from math import isfinite
from typing import TypeAlias, cast

from moldau.deferred import deferred_pattern
from moldau.logging.level import Level

HIDDEN = "***"

Fields: TypeAlias = Mapping[str, object]

# Formats one line, without its end: the time, the level, the logger, the event, the fields that are
# bound to the logger (already formatted), and the line's own fields.
Format: TypeAlias = "Callable[[str, Level, str, str, str, Fields], str]"

_PLAIN = deferred_pattern(r"[!#-<>-\[\]-~]+")
_SECRET_NAME = deferred_pattern(
    r"passw|secret|credential|(private|api|keystore).?key|hmac|jaas|authorization|(^|[._])token$",
    re.IGNORECASE,
)
_RESERVED = frozenset(("time", "level", "logger", "event"))
_LEVEL_WIDTH = 5
_INT_MAX = 10**4000  # Python converts no integers to text that are much longer


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether a field with this name must not be shown."""
    if _SECRET_NAME.search(name) is not None:
        return True
    _, sasl, rest = name.lower().partition("sasl")
    return bool(sasl) and ("bytes" in rest or "salt" in rest)


def one_line(text: str) -> str:
    """Return `text` with every character escaped that could end a line or control a terminal."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


def text_of(value: object) -> str:
    """Return `str(value)`, or the error that it raised: logging must not fail for a value."""
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__} without text: {type(error).__name__}>"


def write_value(value: object) -> str:
    """Return a value as it stands in `key=value` lines."""
    kind = type(value)
    if kind is int and -_INT_MAX < cast(int, value) < _INT_MAX:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if value is None:
        return "null"
    text = value if kind is str else text_of(value)
    assert isinstance(text, str)
    if _PLAIN.fullmatch(text) is not None:
        return text
    return one_line(json.dumps(text, ensure_ascii=False))


def text_pairs(fields: Fields) -> str:
    """Return ` key=value key=value`, with a blank before each."""
    return "".join(
        [
            f" {name}={HIDDEN if is_secret(name) else write_value(value)}"
            for name, value in fields.items()
        ]
    )


def text_line(time: str, level: Level, logger: str, event: str, bound: str, fields: Fields) -> str:
    """Return `2026-11-20T09:06:18.123Z INFO  moldau.broker.log rolled segment base_offset=5`."""
    own = text_pairs(fields) if fields else ""
    return f"{time} {level.name:{_LEVEL_WIDTH}} {logger} {one_line(event)}{bound}{own}"


def json_pairs(fields: Fields) -> str:
    """Return `,"key":value,"key":value`, with a comma before each."""
    return "".join([f",{_json_name(name)}:{_json_field(name, fields[name])}" for name in fields])


@lru_cache(maxsize=4096)
def _json_name(name: str) -> str:
    return _quoted(f"{name}_" if name in _RESERVED else name)


def _json_field(name: str, value: object) -> str:
    """Return numbers, booleans and null as JSON has them; everything else as its text."""
    if is_secret(name):
        return f'"{HIDDEN}"'
    kind = type(value)
    if kind is str:
        return _quoted(str(value))
    if kind is int and -_INT_MAX < cast(int, value) < _INT_MAX:
        return str(value)
    if kind is float and isfinite(cast(float, value)):
        return repr(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    return _quoted(text_of(value))


def json_line(time: str, level: Level, logger: str, event: str, bound: str, fields: Fields) -> str:
    """Return one JSON object; it is ASCII only, so that no terminal or collector can misread it."""
    own = json_pairs(fields) if fields else ""
    head = f'{{"time":"{time}","level":"{level.name}","logger":{_quoted(logger)}'
    return f'{head},"event":{_quoted(event)}{bound}{own}}}'
