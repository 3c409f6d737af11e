"""Messages as lines of a file: JSON as `moldau consume --json` writes it, or CSV. Pure.

What a schema decoded, JSON has as JSON, and CSV as its text; all else is the text that the page
shows.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, Final

from moldau.console.pages.texts import moment
from moldau.console.search.message import Message
from moldau.deferred import dataclass

_COLUMNS: Final = ("partition", "offset", "timestamp", "time", "key", "value", "headers")


PIECE: Final = 32
"""Messages that are written at once, at most."""
PIECE_BYTES: Final = 1 << 14


def pieces(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield the messages in pieces that are quickly written; a large one ends its piece."""
    piece, size = list[Message](), 0
    for each in messages:
        piece.append(each)
        size += each.size_bytes
        if len(piece) >= PIECE or size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def json_lines(topic: str, messages: Iterable[Message]) -> str:
    """Return a line for each message."""
    return "".join(f"{json.dumps(_document(topic, each))}\n" for each in messages)


def csv_lines(topic: str, messages: Iterable[Message]) -> str:
    """Return a line for each message; its headers are an object in JSON."""
    return _rows(
        (
            each.partition,
            each.offset,
            each.timestamp_ms,
            moment(each.timestamp_ms),
            each.key,
            each.value,
            json.dumps(each.headers) if each.headers else "",
        )
        for each in messages
    )


def _rows(rows: Iterable[Sequence[Any]]) -> str:
    written = StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue()


def _document(topic: str, message: Message) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms,
        "key": _content(message.key, message.key_schema) if message.has_key else None,
        "value": None if message.is_null else _content(message.value, message.value_schema),
        "headers": [{"name": name, "value": text} for name, text in message.headers],
    }


def _content(text: str, schema: str) -> Any:
    """Return a key or a value: JSON if a schema has decoded it."""
    if schema:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    return text


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file."""

    media_type: str
    first: str
    """The line above all others."""
    lines: Callable[[str, Iterable[Message]], str]
    told: Callable[[str, str], str]
    """A line that is no message: `error` is why the file ends before its time, `note` what was left
    out."""


FORMATS: Final[Mapping[str, Format]] = {
    "json": Format(
        "application/x-ndjson", "", json_lines, lambda what, why: f"{json.dumps({what: why})}\n"
    ),
    "csv": Format("text/csv", _rows([_COLUMNS]), csv_lines, lambda what, why: _rows([(what, why)])),
}
