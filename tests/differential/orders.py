"""In which order we answer rows that Kafka answers in that of its hash maps.

Each line is one list of some cases and the order that ours has there; another order of ours, as
another list, is a difference that nobody has explained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from moldau.broker.settings import GROUP_SETTINGS, TOPIC_SETTINGS
from tests.differential.comparison import ORDER, Difference

Rule: TypeAlias = Callable[[Difference], bool]

_LONG: Final = "n" * 250
_PAIRS: Final = (
    *("several partitions", "no bytes", "two batches", "cut by a byte", "only a beginning"),
    *("a long tail", "magic 0", "magic 1", "count too high", "last offset delta too high"),
    *("negative count", "unknown codec", "a time too far ahead", "time -1"),
    "transactional, no transactional id",
)
"""Produces to partitions 0 and 1."""


def are(*names: str) -> Rule:
    """These and no others, in this order: as they were asked for, or as they came to be."""

    def rule(difference: Difference) -> bool:
        return _names(difference.ours) == list(names)

    return rule


def by_name(difference: Difference) -> bool:
    """Numbers by size."""
    names = _names(difference.ours)
    are_numbers = all(name.isdigit() for name in names)
    return names == sorted(names, key=lambda name: (int(name) if are_numbers else 0, name))


def of_all(difference: Difference) -> bool:
    """Those that are refused may stand before or behind the others."""
    return isinstance(difference.kafka, list) and sorted(_names(difference.ours)) == sorted(
        _names(difference.kafka)
    )


def by_id(difference: Difference) -> bool:
    """Topics by their ids, which chance makes: it may be any order of the same topics."""
    rows = difference.ours
    return isinstance(rows, list) and all("topic_id=" in row for row in rows)


def by_table(difference: Difference) -> bool:
    """The settings of a topic or a group stand as in our table."""
    names = _names(difference.ours)
    return any(
        names == [row.name for row in table if row.name in names]
        for table in (TOPIC_SETTINGS, GROUP_SETTINGS)
    )


def _names(ours: object) -> list[str]:
    """What names each row first: `name=t,topic_id=no id` is t."""
    rows = ours if isinstance(ours, list) else []
    return [str(row).partition(",")[0].partition("=")[2] for row in rows]


def _of(path: str, rule: Rule, *cases: str) -> tuple[tuple[str, ...], str, Rule]:
    return cases, f"{path}.{ORDER}", rule


_PRODUCED: Final = "responses.partition_responses"
_OFFSETS: Final = "topics.partitions"
_CONFIGS: Final = "configs"
_ASSIGNED: Final = "assignment.topic_partitions"

ORDERS: Final = (
    _of(_PRODUCED, are("0", "1"), *(f"produce/{case}" for case in _PAIRS)),
    _of(_PRODUCED, are("9", "1"), "produce/wrong ones beside a right one"),
    _of(
        _PRODUCED, are("0", "1"), "recorded_java_tools/* Produce", "recorded_kafka_python/* Produce"
    ),
    _of("responses", are("strict", "t"), "produce/a time too long ago"),
    _of("responses", are("small", "t"), "produce/too large"),
    _of(
        "responses",
        are("id of 07 bytes", "id of empty", "id of t"),
        "fetch/an unknown id beside others",
    ),
    _of(_OFFSETS, are("0", "1"), "list_offsets/a partition twice"),
    _of(_OFFSETS, are("1", "0"), "recorded_java_tools/* ListOffsets"),
    _of(_OFFSETS, are("0", "1"), "recorded_kafka_python/* ListOffsets"),
    _of(_OFFSETS, are("1", "9", "0"), "delete_records/several"),
    _of(
        "topics",
        are("t", "nope", "b ad", "", "__x", "__transaction_state", _LONG),
        "administration/* MetadataRequest",
    ),
    _of("results", are("made", "t", "nope"), "administration/* CreatePartitionsRequest"),
    _of(
        "responses",
        are("nope", "", "id of 07 bytes", "no id"),
        "administration/* DeleteTopicsRequest",
    ),
    _of("responses", are("made", "nope"), "administration/* DeleteTopicsRequest"),
    _of("responses", are("nope", ""), "topics/delete what is not there, *"),
    _of("results.partitions", are("0", "1"), "replica_moves/to where it is"),
    _of("topics", of_all, "rights/*"),
    _of("results", are("alice", "bob", "j\u00f6rg="), "scram/describe all"),
    _of(
        "results.topics.partitions",
        by_name,
        *("log_dirs/all", "log_dirs/all, empty", "replica_moves/described"),
        *("replica_moves/described with it", "recorded_java_tools/* DescribeLogDirs"),
    ),
    _of(
        "finalized_features",
        by_name,
        *("administration/* ApiVersionsRequest", "recorded_* ApiVersions"),
    ),
    _of(
        "supported_features",
        by_name,
        *("administration/* ApiVersionsRequest", "recorded_* ApiVersions"),
    ),
    _of(
        f"results[resource_type=2,resource_name=*].{_CONFIGS}",
        by_table,
        *("administration/* DescribeConfigsRequest", "recorded_* DescribeConfigs"),
    ),
    _of(
        f"results[resource_type=32,resource_name=g].{_CONFIGS}",
        by_table,
        "administration/* DescribeConfigsRequest",
    ),
    _of(
        f"results[resource_type=4,resource_name=].{_CONFIGS}",
        are("log.retention.ms", "min.insync.replicas", "a.plugins"),
        "administration/* DescribeConfigsRequest",
    ),
    _of(
        f"results[resource_type=4,resource_name=*1].{_CONFIGS}",
        are("log.retention.ms", "log.segment.bytes", "a.plugins", "node.id", "ssl.key.password"),
        "administration/* DescribeConfigsRequest",
    ),
    _of("topics", by_name, "recorded_* Metadata"),
    _of("results[log_dir=<data>].topics", by_name, "recorded_java_tools/* DescribeLogDirs"),
    _of("groups", are("nobody", ""), "share_groups/describe nothing known"),
    _of("responses.partitions", are("9", "0"), "share_groups/a released one"),
    _of(
        "groups.members", by_name, "streams_groups/while it moves", "streams_groups/after the move"
    ),
    _of("groups", by_name, "group_members/list *", "group_offsets/list what is left"),
    _of(
        "groups",
        are("g", "", "negative", "r"),
        *("group_offsets/list", "group_offsets/list [Ee]mpty*", "group_offsets/list of type *"),
    ),
    _of(
        "groups",
        are("g", "h", "", "g#2"),
        "group_offsets/describe consumers, operations *",
    ),
    _of(
        "groups.members",
        by_name,
        *("group_consumers/describe while revoking", "group_consumers/describe two"),
        "group_members/describe two",
        *("group_patterns/describe *", "group_statics/describe both"),
        *("group_statics/describe while a is away", "group_statics/describe with c"),
    ),
    _of(f"*{_ASSIGNED}", by_id, "group_patterns/*"),
    _of("groups.topics", by_name, "group_patterns/offsets of red stay"),
    _of("topics", by_name, "group_offsets/fetch all*"),
    _of("topics.partitions", are("0", "2", "1"), "group_offsets/fetch all*"),
    _of("groups.topics", by_name, "group_offsets/fetch all*"),
    _of("groups.topics.partitions", are("0", "2", "1"), "group_offsets/fetch all*"),
    *(
        _of("results", are(f"gone{count}", "h", ""), f"group_offsets/delete gone{count}")
        for count in range(3)
    ),
)
"""Of which cases, where, which order is ours."""
