"""Formats records as lines: the value, key and value, everything, a template, or a JSON document.

Lines are for people: bytes that are not UTF-8 are escaped, and look like text with the same
characters. JSON is for programs, which can tell them apart: text is a string, other bytes are an
object, null is null. What a schema decoded is JSON in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from moldau.client import ConsumerRecord, PartitionRecords

Lines = Callable[["PartitionRecords"], Iterable[str]]

NAMES: Final = ("value", "key-value", "full")
"""The formats; any other one is a template (`consume_template`)."""
_NULL: Final = "null"


def lines_of(name: str, separator: str, *, json: bool) -> Lines:
    """Return the function that formats records, by the name of the format."""
    if json:
        return _json_lines
    if name not in NAMES:
        return _template_lines(name)
    if name == "full":
        return _full_lines
    if name == "key-value":
        return lambda part: (
            f"{text(each.key)}{separator}{text(each.value)}\n" for each in part.records
        )
    return lambda part: (f"{text(each.value)}\n" for each in part.records)


def _template_lines(template: str) -> Lines:
    from moldau.cli.commands.consume_template import pieces_of

    pieces = pieces_of(template, text)
    return lambda part: (
        "".join([piece(part, record) for piece in pieces]) for record in part.records
    )


def text(data: Any) -> str:
    """Return bytes as readable text, escaped if they are not UTF-8, and what a schema decoded as
    JSON in one line."""
    if data is None:
        return _NULL
    if isinstance(data, bytes):
        return data.decode("utf-8", "backslashreplace")
    line: str = data.text
    return line


def _full_lines(part: PartitionRecords) -> Iterable[str]:
    for each in part.records:
        headers = ",".join(f"{name}={text(value)}" for name, value in each.headers)
        yield (
            f"{part.topic}-{part.partition}@{each.offset} {each.timestamp} "
            f"[{headers}] {text(each.key)}: {text(each.value)}\n"
        )


def _json_lines(part: PartitionRecords) -> Iterable[str]:
    from json import dumps

    for each in part.records:
        yield dumps(_document(part, each)) + "\n"


def _document(part: PartitionRecords, record: ConsumerRecord) -> dict[str, Any]:
    return {
        "topic": part.topic,
        "partition": part.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _json_value(record.key),
        "value": _json_value(record.value),
        "headers": [{"name": name, "value": _json_value(value)} for name, value in record.headers],
    }


def _json_value(data: Any) -> Any:
    """Return the text of bytes, or `{"base64": ...}` if they are not text; what a schema decoded as
    JSON."""
    if not isinstance(data, bytes):
        return None if data is None else data.json
    try:
        return data.decode()
    except UnicodeDecodeError:
        from moldau.values.avro.texts import bytes_to_json

        return bytes_to_json(data)
