"""Where to begin to read, as people write it: `beginning`, `end`, an offset, or a time."""

from __future__ import annotations

from typing import NamedTuple

from moldau.cli.command import UsageError


class Place(NamedTuple):
    """An offset, or a timestamp in ms, or one of the two ends; exactly one of them is given."""

    offset: int | None = None
    timestamp_ms: int | None = None
    is_end: bool = False


BEGINNING = Place()


def parse_place(text: str) -> Place:
    """What `--from` means."""
    if text in ("beginning", "earliest"):
        return BEGINNING
    if text in ("end", "latest"):
        return Place(is_end=True)
    if text.isascii() and text.isdecimal():
        return Place(offset=int(text))
    return Place(timestamp_ms=parse_time_ms(text))


def parse_time_ms(text: str) -> int:
    """`2026-11-20T12:00:00Z` (UTC unless it says otherwise) or `@` and milliseconds since 1970."""
    from datetime import UTC, datetime

    if text.startswith("@") and text[1:].isascii() and text[1:].isdecimal():
        return int(text[1:])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no place: beginning, end, an offset, a time like 2026-11-20T12:00:00Z, "
            "or @ and milliseconds"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
