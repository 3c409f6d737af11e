"""The place where reading begins, as users write it: `beginning`, `end`, an offset, or a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.cli.command import UsageError
from moldau.cli.numbers import is_int64

if TYPE_CHECKING:
    from collections.abc import Collection

    from moldau.client import Consumer, TopicPartition

_CUT_S: Final = 2.0


class Place(NamedTuple):
    """An offset, a timestamp in ms, or the end. With none of them it is the beginning."""

    offset: int | None = None
    timestamp_ms: int | None = None
    is_end: bool = False


BEGINNING = Place()


def parse_place(text: str) -> Place:
    """Return the place of `--from`. Raise UsageError if it is none."""
    if text in ("beginning", "earliest"):
        return BEGINNING
    if text in ("end", "latest"):
        return Place(is_end=True)
    if is_int64(text):
        return Place(offset=int(text))
    return Place(timestamp_ms=parse_time_ms(text, "beginning, end, an offset, "))


def parse_time_ms(text: str, or_else: str = "") -> int:
    """Parse `2026-11-20T12:00:00Z` (UTC unless it has another zone) or `@` and milliseconds since
    1970. `or_else` names the other words that the caller accepts, for the error. Times before 1970
    are rejected: the protocol uses negative numbers for the ends of a log."""
    from datetime import UTC, datetime

    if text.startswith("@") and is_int64(text[1:]):
        return int(text[1:])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no {'place' if or_else else 'time'}: {or_else}a time like "
            "2026-11-20T12:00:00Z, or @ and milliseconds"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    milliseconds = round(moment.timestamp() * 1000)
    if milliseconds < 0:
        raise UsageError(f"{text!r} is before 1970, where the times of records begin")
    return milliseconds


async def cut_ends(
    client: Consumer, ends: dict[TopicPartition, int], notes: list[str]
) -> list[TopicPartition]:
    """Lower `ends` to the present log ends: a log that was truncated, or a topic that was deleted
    and created again, may never again be as long. Remove partitions that no longer exist from
    `ends`, and return them. Partitions without a leader are checked later."""
    from moldau.cli.shell import within_or_later
    from moldau.client.consumer.offsets import LATEST

    found = await within_or_later(_CUT_S, client.offsets(dict.fromkeys(ends, LATEST)))
    for where, now in (found or {}).items():
        ends[where] = min(ends[where], now.offset)
    gone = [] if found is not None else await _gone(client, ends)
    for where in gone:
        del ends[where]
        notes.append(f"{where} is gone: its topic was deleted")
    return gone


async def _gone(client: Consumer, known: Collection[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions that do not exist; a topic must be missing for `_CUT_S` seconds."""
    from moldau.errors.codes import ErrorCode, KafkaError
    from moldau.link.backoff import may_work_later

    gone = []
    for topic in dict.fromkeys(each.topic for each in known):
        try:
            there = await client.partitions(topic, timeout_s=_CUT_S)
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                there = []
            elif may_work_later(error):
                continue
            else:
                raise
        gone += [each for each in known if each.topic == topic and each not in there]
    return gone
