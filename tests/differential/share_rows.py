"""The differences to Apache Kafka that shall be in share groups: a part of `explained`."""

from __future__ import annotations

from typing import Final

from tests.broker.settings.cases import INTERNAL_TO_KAFKA, is_own
from tests.differential.comparison import ABSENT, OUTCOME, Difference, OnPurpose
from tests.differential.talk import SILENCE

_GROUPS: Final = "Groups"


def _is_without_offsets(difference: Difference) -> bool:
    (group,) = difference.ours["groups"]
    rows = [each for topic in group["topics"] for each in topic["partitions"]]
    return [each["start_offset"] for each in rows] == [-1, -1]


def _is_own_setting(difference: Difference) -> bool:
    return isinstance(difference.ours, dict) and is_own(difference.ours["name"])


def _is_hidden_setting(difference: Difference) -> bool:
    return isinstance(difference.ours, dict) and difference.ours["name"] in INTERNAL_TO_KAFKA


SHARE_ROWS: Final[tuple[OnPurpose, ...]] = (
    OnPurpose(
        "CurrentLeader in a row of ShareFetch or ShareAcknowledge is -1 where the row names no "
        "leader.",
        "Kafka's is 0, which is the id of a broker too: a client goes on asking it.",
        _GROUPS,
        cases=("share_groups/*", "share_letters/*"),
        paths=(
            "responses.partitions.current_leader.leader_id",
            "responses.partitions.current_leader.leader_epoch",
        ),
        kafka=0,
        ours=-1,
    ),
    OnPurpose(
        "One ShareFetch answers all partitions that have records, within its limits.",
        "Kafka answers one partition at a time.",
        _GROUPS,
    ),
    OnPurpose(
        "A group has settings of ours, which begin with `share.retry.`, `share.dlq.` and "
        "`share.deliver.`.",
        "Kafka has no such thing ([queues.md](queues.md#what-kafka-does-not-have)).",
        _GROUPS,
        cases=("administration/*",),
        paths=("results.configs",),
        kafka=ABSENT,
        ours=_is_own_setting,
    ),
    OnPurpose(
        "A streams group shows its settings of warm-ups: `streams.acceptable.recovery.lag`, "
        "`streams.num.warmup.replicas` and `streams.task.offset.interval.ms`.",
        "Kafka 4.4 hides them, as it has no warm-ups yet.",
        _GROUPS,
        cases=("administration/*",),
        paths=("results.configs",),
        kafka=ABSENT,
        ours=_is_hidden_setting,
    ),
    OnPurpose(
        "The start offset of a share partition is stored with the acknowledgement that moves it.",
        "Kafka stores it with the next one, so that its lag is right and its start old.",
        _GROUPS,
        cases=("share_groups/lag", "share_groups/lag of all"),
        paths=("groups.topics.partitions.start_offset",),
        kafka=3,
        ours=4,
    ),
    OnPurpose(
        "Offsets of a partition that does not exist: the answer has -1 for it.",
        "Kafka fails inside and never answers.",
        _GROUPS,
        cases=("share_groups/lag of what is not there",),
        paths=(OUTCOME,),
        kafka=SILENCE,
        ours=_is_without_offsets,
    ),
)
