"""Bytes, times and numbers as people read them. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

from moldau.deferred import deferred_pattern

_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")
SHOWN_BYTES: Final = 20_000
WHOLE: Final = 1 << 40
"""No text has more bytes."""
_FULL: Final = 1024
_FINE_S: Final = 10
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_H: Final = 24
_BEGINS: Final = ("[", "{")
_ENDS: Final = ("]", "}")
_ZERO: Final = "\u2400"
"""In place of a zero byte, which no browser shows."""
_CUT_OFF: Final = "unexpected end of data"
_INTEGER_BYTES: Final = (4, 8)
_PART: Final = deferred_pattern(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


def text_of(data: bytes | None, most: int = SHOWN_BYTES) -> str:
    """Return a key or value as text: UTF-8 where it is, else hexadecimal. With bytes that only an
    integer of 4 or 8 has comes the integer. Numbers in a text stay as they were written, also those
    that a browser would round. What has more bytes than `most` is cut."""
    if data is None:
        return ""
    data = bytes(data)
    shown = data[:most]
    text = _text(shown, is_cut=len(data) > most)
    if text is None or ("\0" in text and len(data) in _INTEGER_BYTES):
        text = shown.hex(" ")
        if len(data) in _INTEGER_BYTES:  # as Kafka's LongSerializer writes it
            integer = int.from_bytes(data, "big", signed=True)
            text += f" (the {8 * len(data)}-bit integer {integer})"
    text = text.replace("\0", _ZERO)
    return text if len(data) <= most else f"{text} ... ({size(len(data))} in all)"


def _text(data: bytes, *, is_cut: bool) -> str | None:
    """Return the text of UTF-8, None if it is something else. The cut may be within a character."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        is_whole = not (is_cut and error.end == len(data) and error.reason == _CUT_OFF)
        return None if is_whole else data[: error.start].decode("utf-8")


def cut(text: str, most: int = SHOWN_BYTES) -> str:
    """Return as much of a text as a page shows: `most` characters."""
    return text if len(text) <= most else f"{text[:most]} ... ({len(text):,} characters in all)"


def is_json(text: str) -> bool:
    """Whether the text is an object or a list in JSON."""
    if not text.startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def indented(text: str) -> str:
    """Return JSON with line breaks, and any other text as it is. Every digit stays."""
    if not is_json(text):
        return text
    lines, depth, before = [""], 0, ""
    for part in _PART.findall(text):
        is_end, was_begin = part in _ENDS, before in _BEGINS
        depth -= is_end
        if before == "," or is_end != was_begin:
            lines.append("  " * depth)
        lines[-1] += f"{part} " if part == ":" else part
        depth += part in _BEGINS
        before = part
    return "\n".join(lines)


def size(count: int) -> str:
    """Return bytes with a unit."""
    value = float(count)
    for unit in _UNITS:
        if value < _FULL or unit == _UNITS[-1]:
            break
        value /= _FULL
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def number(value: int | None) -> str:
    """Return a whole number with separators; a dash if it is not known."""
    return "-" if value is None or value < 0 else f"{value:,}"


def rate(value: float | None) -> str:
    """Return how much there is a second; a dash if it is not known."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if 0 < value < _FINE_S else f"{value:,.0f}"


def moment(milliseconds: int) -> str:
    """Return a time in UTC; empty without one."""
    if milliseconds < 0:
        return ""
    try:
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(milliseconds)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def ago(seconds: float) -> str:
    """Return how long ago something was."""
    return "now" if seconds < 1 else f"{duration(seconds)} ago"


def duration(seconds: float) -> str:
    """Return a length of time with one unit, or two from an hour on."""
    whole = int(seconds)
    if whole < _MINUTE_S:
        return f"{seconds:.1f} s" if whole < _FINE_S else f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min"
    hours, rest = divmod(whole, _HOUR_S)
    if hours < _DAY_H:
        return f"{hours} h {rest // _MINUTE_S} min"
    return f"{hours // _DAY_H} d {hours % _DAY_H} h"
