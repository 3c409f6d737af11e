"""Up to where a partition of the source is copied, of which topic, and where it continues. No IO.

A topic that was deleted and created anew has its old name and another id. So the id is stored
beside the offset, in a field that Java's MirrorMaker does not read. Offsets that Java's has stored
have no id: then the topic is another one if its log ends before the offset. The end is the high
watermark and not the last stable offset, as a mirror of uncommitted records copies up to there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from moldau.client import TopicPartition
from moldau.deferred import dataclass
from moldau.ids import ZERO_UUID, Uuid, format_uuid, parse_uuid

_OFFSET: Final = "offset"
_TOPIC_ID: Final = "topic_id"


def offset_after(offset: int, topic_id: Uuid = ZERO_UUID) -> dict[str, Any]:
    """Return the source offset after the record with this offset. The id may be unknown."""
    if topic_id == ZERO_UUID:
        return {_OFFSET: offset}
    return {_OFFSET: offset, _TOPIC_ID: format_uuid(topic_id)}


def offset_fault(offset: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a source offset that a user wants to store; None if nothing is."""
    last, topic_id = offset.get(_OFFSET), offset.get(_TOPIC_ID)
    if type(last) is not int or last < 0:
        return "offset must be a whole number from 0 on"
    if topic_id is not None and _id_in(topic_id) == ZERO_UUID:
        return "topic_id must be the id of a topic, or left out"
    return None


def _id_in(text: object) -> Uuid:
    if not isinstance(text, str):
        return ZERO_UUID
    try:
        return parse_uuid(text)
    except ValueError:
        return ZERO_UUID


@dataclass(frozen=True, slots=True)
class CopyEnd:
    """The first offset of a partition that is not copied, and the id of its topic, if known."""

    offset: int
    topic_id: Uuid = ZERO_UUID

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> CopyEnd | None:
        """Return what a stored source offset says; None if nothing was copied."""
        if stored is None or stored.get(_OFFSET) is None:
            return None
        return cls(int(stored[_OFFSET]) + 1, _id_in(stored.get(_TOPIC_ID)))

    def is_in(self, topic_id: Uuid, high_watermark: int) -> bool:
        """Whether the topic with this id and end is the one that was copied."""
        if ZERO_UUID in (self.topic_id, topic_id):
            return self.offset <= high_watermark
        return self.topic_id == topic_id


class Continuation(NamedTuple):
    """Where a partition is read on, and what the log has to say of that."""

    offset: int
    warning: str | None = None


def continuation(
    where: TopicPartition, copied: CopyEnd, topic_id: Uuid, begin: int, high_watermark: int
) -> Continuation:
    """Return where to continue in a partition that begins and ends at these offsets."""
    at = copied.offset
    if not copied.is_in(topic_id, high_watermark):
        return Continuation(
            begin,
            f"{where} was copied up to {at}, then deleted and created anew: it is copied from its "
            f"beginning at {begin}",
        )
    if at < begin:
        return Continuation(
            begin, f"records {at} to {begin - 1} of {where} were deleted before they were copied"
        )
    if at > high_watermark:
        return Continuation(
            high_watermark,
            f"{where} was copied up to {at} and ends at {high_watermark} now: its log was "
            "truncated, and is copied on from that end; records written since may be missing",
        )
    return Continuation(at)
