"""Reads the lines of `moldau consume --json` back into records, for `moldau produce --json`.

A line is an object with `value`, and optionally `key`, `headers`, `partition` and `timestamp`; the
`topic` and `offset` of the record that was read are ignored. Text is a string, other bytes are
`{"base64": "..."}`, and null is null.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from moldau.cli.command import UsageError

_KNOWN: Final = ("value", "key", "headers", "partition", "timestamp", "topic", "offset")
_NO_TIMESTAMP: Final = -1
"""What `moldau consume --json` writes for a record that has none."""


class JsonRecord(NamedTuple):
    """One record as a line has it; None means the default, or null for key and value."""

    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    timestamp_ms: int | None


def parse_record(line: bytes) -> JsonRecord:
    """Return the record of a line. Raise UsageError, which says what is wrong."""
    from json import loads

    try:
        found = loads(line)
    except ValueError as error:
        raise UsageError(f"is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError("is no JSON object")
    unknown = sorted(found.keys() - set(_KNOWN))
    if unknown:
        raise UsageError(f"has the key {unknown[0]!r}; known: {', '.join(_KNOWN)}")
    if "value" not in found:
        raise UsageError('has no "value"; null is a tombstone')
    timestamp = found.get("timestamp")
    return JsonRecord(
        _bytes_of(found["value"], "value"),
        _bytes_of(found.get("key"), "key"),
        tuple(_headers(found.get("headers") or ())),
        _number(found.get("partition"), "partition", 31),
        _number(None if timestamp == _NO_TIMESTAMP else timestamp, "timestamp", 63),
    )


def _bytes_of(given: Any, what: str) -> bytes | None:
    from base64 import b64decode

    if given is None:
        return None
    try:
        if isinstance(given, str):
            return given.encode()
        if isinstance(given, dict) and given.keys() == {"base64"}:
            return b64decode(given["base64"], validate=True)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what}: {error}") from None
    raise UsageError(f'{what} is text, null, or {{"base64": "..."}} for other bytes')


def _headers(given: Any) -> Iterable[tuple[str, bytes | None]]:
    for each in given if isinstance(given, list | tuple) else (None,):
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str) or each.keys() - {"name", "value"}:
            raise UsageError('headers is a list of {"name": "...", "value": ...}')
        yield name, _bytes_of(each.get("value"), f"the header {name}")


def _number(given: Any, what: str, bits: int) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 1 << bits:
        raise UsageError(f"{what} is a whole number from 0 to {(1 << bits) - 1}")
    return given
