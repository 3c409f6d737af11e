"""The place where reading begins, as users write it: `beginning`, `end`, an offset, or a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.cli.command import UsageError
from moldau.cli.numbers import is_int64

if TYPE_CHECKING:
    from collections.abc import Collection

    from moldau.client import Consumer, TopicPartition

_CUT_S: Final = 2.0
# A topic that was made just now may not be known everywhere. A slow cluster is asked again.
_MISSING_S: Final = (0.2, 2.0)


class OffsetOrTime(NamedTuple):
    """An offset, a timestamp in ms, or the end. With none of them it is the beginning."""

    offset: int | None = None
    timestamp_ms: int | None = None
    is_end: bool = False


BEGINNING = OffsetOrTime()
END = OffsetOrTime(is_end=True)


class Stretch(NamedTuple):
    """What to read of each log: from `first`, or the `last` offsets, to before `until`."""

    first: OffsetOrTime = BEGINNING
    until: OffsetOrTime = END
    last: int | None = None


def parse_place(text: str) -> OffsetOrTime:
    """Return the place of `--from` or `--to`. Raise UsageError if it is none."""
    if text in ("beginning", "earliest"):
        return BEGINNING
    if text in ("end", "latest"):
        return END
    if is_int64(text):
        return OffsetOrTime(offset=int(text))
    return OffsetOrTime(timestamp_ms=parse_time_ms(text, "beginning, end, an offset, "))


def parse_time_ms(text: str, or_else: str = "") -> int:
    """Parse a time, see `moldau.config.times`. `or_else` names the other words that the caller
    accepts, for the error."""
    from moldau.config import times
    from moldau.runtime.real import RealClock

    try:
        return times.parse_time_ms(text, RealClock().wall_ms())
    except ValueError as error:
        message = str(error)
        if or_else:
            message = message.replace("is no time: ", f"is no place: {or_else}")
        raise UsageError(message) from None


async def partitions_there(client: Consumer, topics: Collection[str]) -> list[TopicPartition]:
    """Return all partitions of these topics. Raise KafkaError soon for an unknown topic; for
    anything else that may be there later, wait as long as the client waits for anything."""
    from moldau.errors.codes import ErrorCode, KafkaError, may_work_later

    for timeout_s in _MISSING_S:
        try:
            return await client.partitions(*topics, timeout_s=timeout_s)
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not may_work_later(error):
                raise
    return await client.partitions(*topics)


async def cut_ends(
    client: Consumer, ends: dict[TopicPartition, int], notes: list[str]
) -> list[TopicPartition]:
    """Lower `ends` to the present log ends: a log that was truncated, or a topic that was deleted
    and created again, may never again be as long. Remove partitions that no longer exist from
    `ends`, and return them. Partitions without a leader are checked later."""
    from moldau.cli.shell import within_or_later
    from moldau.client.base.offsets import LATEST

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
    from moldau.errors.codes import ErrorCode, KafkaError, may_work_later

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
