"""The differences to Apache Kafka that shall be in share groups: a part of `explained`."""

from __future__ import annotations

from typing import Final

from tests.differential.comparison import ABSENT, Difference, OnPurpose

_GROUPS: Final = "Groups"


def _is_unknown_place(difference: Difference) -> bool:
    """A topic whose one partition is unknown by its id or by its number."""
    (partition,) = difference.ours["partitions"]
    return partition["error_code"] in (3, 100)


SHARE_ROWS: Final[tuple[OnPurpose, ...]] = (
    OnPurpose(
        "ShareFetch of a topic that does not exist: UNKNOWN_TOPIC_ID for its partitions.",
        "Kafka fails inside, and the member gets nothing of its other topics either.",
        _GROUPS,
        cases=("share_groups/fetch an unknown topic", "share_groups/fetch an unknown partition"),
        paths=("error_code",),
        kafka=-1,
        ours=0,
    ),
    OnPurpose(
        "ShareFetch of a topic that does not exist: UNKNOWN_TOPIC_ID for its partitions.",
        "Kafka fails inside, and the member gets nothing of its other topics either.",
        _GROUPS,
        cases=("share_groups/fetch an unknown topic", "share_groups/fetch an unknown partition"),
        paths=("acquisition_lock_timeout_ms",),
        kafka=0,
        ours=30_000,
    ),
    OnPurpose(
        "ShareFetch of a topic that does not exist: UNKNOWN_TOPIC_ID for its partitions.",
        "Kafka fails inside, and the member gets nothing of its other topics either.",
        _GROUPS,
        cases=("share_groups/fetch an unknown topic", "share_groups/fetch an unknown partition"),
        paths=("responses",),
        kafka=ABSENT,
        ours=_is_unknown_place,
    ),
)
