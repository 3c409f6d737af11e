"""The differences to Apache Kafka that shall be, each with its reason: the one table of them.

The comparison passes over what a row covers and nothing else: which case, which field, and what we
answer there, as a value or as a rule (`differs_by...`). docs/compatibility.md shows all rows
(`python -m tests.differential document` writes it), and a row that covers nothing any more fails
its test. A row without cases tells of what no scenario can show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from re import fullmatch
from typing import Any, Final

from tests.differential import kept
from tests.differential.comparison import (
    ABSENT,
    ANY,
    OUTCOME,
    Difference,
    OnPurpose,
    differences,
)
from tests.differential.orders import ORDERS
from tests.differential.plain import WORDS
from tests.differential.requests import THEN
from tests.differential.share_rows import SHARE_ROWS
from tests.differential.talk import CLOSED, SILENCE

_ANYWHERE: Final = "every API"
_PRODUCE: Final = "Produce"
_READING: Final = "Fetch, ListOffsets"
_ADMIN: Final = "Topics, settings, cluster"
_GROUPS: Final = "Groups"
_FILES: Final = "Files"
_NOT_YET: Final = "Not built yet"
_TAIL: Final = "Bytes behind the batch, even fewer than a header has: INVALID_RECORD."
_TAIL_WHY: Final = (
    "Kafka drops a short tail in silence and calls a long one corrupt; neither tells a client "
    "that it has a bug."
)
_BELOW_START: Final = (
    "ListOffsets for the greatest time (-3) never gives an offset below the log's start."
)
_BELOW_START_WHY: Final = "Kafka does after DeleteRecords, and a fetch of it fails."
_MESSAGE: Final = "error_message"
_NO_WORDS: Final = (None, "")
_WITHOUT_WORDS: Final = (
    (
        None,
        ("administration", "oversize", "produce", "producers", "topics", "transactions"),
        ("*.error_message",),
    ),
    (None, ("rights",), ("responses*.error_message",)),
    (None, ("share_groups",), ("error_message", "*.error_message")),
    ("", ("administration",), ("*.error_message",)),
)
"""What Kafka has for a message where it gives none, in which scenarios, and in which fields."""
_ERROR: Final = "responses.partition_responses.error_code"
_BASE: Final = "responses.partition_responses.base_offset"
_WORDED: Final = "responses.partition_responses.error_message"
_START: Final = "responses.partition_responses.log_start_offset"
_EMPTY_EPOCHS: Final[tuple[tuple[str, str, list[str], Any], ...]] = (
    ("files_appended", "empty", ["0", "1", "0 0"], ABSENT),
    ("files_rolled", "by-index", ["0", "2", "0 0", "6 16"], ["0", "1", "0 0"]),
    ("files_rolled", "by-size", ["0", "2", "0 0", "6 6"], ["0", "1", "0 0"]),
    ("files_rolled", "by-time", ["0", "2", "0 0", "6 14"], ["0", "1", "0 0"]),
    (
        *("files_rolled", "over-restarts"),
        ["0", "4", "0 0", "2 2", "4 4", "6 6"],
        ["0", "3", "0 0", "2 2", "4 4"],
    ),
)
"""Partitions whose newest epoch begins at the end of the log: the file of Kafka, and ours."""


def _rows(
    what: str, why: str, area: str, cases: tuple[str, ...], *each: tuple[str, Any, Any]
) -> Iterator[OnPurpose]:
    """Of one purpose, several fields: where, Kafka's, ours."""
    for path, kafka, ours in each:
        yield OnPurpose(what, why, area, cases, (path,), kafka, ours)


@cache
def _refusals(scenario: str) -> frozenset[tuple[str, int, str]]:
    """Where a Kafka that refuses could say why: each case, its version, and the message's place."""
    refusing = kept.read(scenario)
    speaking = [replace(entry, outcome=_with_words(entry.outcome)) for entry in refusing]
    found = differences(scenario, refusing, speaking)
    return frozenset((each.label, each.version, each.where) for each in found)


def _with_words(value: Any) -> Any:
    """The same answer, with a message beside each error, as if there had been none."""
    if isinstance(value, list):
        return [_with_words(each) for each in value]
    if not isinstance(value, dict):
        return value
    told = {name: _with_words(each) for name, each in value.items()}
    if value.get("error_code") and value.get(_MESSAGE, WORDS) in _NO_WORDS:
        told[_MESSAGE] = WORDS
    return told


def _without_repetition(difference: Difference) -> bool:
    """A list with each item where it first stands."""
    return bool(difference.ours == ",".join(dict.fromkeys(difference.kafka.split(","))))


def _words_of_a_refusal(difference: Difference) -> bool:
    """A message beside no error is a fault, whatever Kafka has there."""
    case = (difference.label, difference.version, difference.where)
    return difference.ours == WORDS and case in _refusals(difference.scenario)


def _null_alone_is_refused(difference: Difference) -> bool:
    """Of the whole answer to a produce of null beside a batch."""
    if not isinstance(difference.ours, dict):
        return False
    said = [
        (each["error_code"], each["base_offset"] >= 0)
        for topic in difference.ours["responses"]
        for each in topic["partition_responses"]
    ]
    return said == [(87, False), (0, True)]


def _about_as_long(difference: Difference) -> bool:
    ours, kafka = difference.ours, difference.kafka
    return type(ours) is type(kafka) is int and abs(ours - kafka) <= kafka * 0.1


def _another_crc(difference: Difference) -> bool:
    return fullmatch(r"[0-9a-f]{8}", str(difference.ours)) is not None


def _earlier_base_time(difference: Difference) -> bool:
    if not isinstance(difference.ours, list) or not isinstance(difference.kafka, list):
        return False
    (base, newest), (their_base, their_newest) = difference.ours, difference.kafka
    return newest == their_newest and isinstance(base, int) and base < their_base


def _first_batch(difference: Difference) -> bool:
    ours = difference.ours
    return isinstance(ours, dict) and (ours["offsets"], ours.get("count")) == ("0-2", 3)


def _is_offset(difference: Difference) -> bool:
    return type(difference.ours) is int and difference.ours > 0


def _is_smaller(difference: Difference) -> bool:
    is_known = isinstance(difference.kafka, int)
    return is_known and _is_offset(difference) and difference.ours < difference.kafka


_GRAPH: Final = "The graph of a streams group's topology is asked for and kept, without a plugin."
_GRAPH_WHY: Final = "Kafka does so only with group.streams.topology.description.plugin.class."

ON_PURPOSE: Final[tuple[OnPurpose, ...]] = (
    OnPurpose(
        "A member of a streams group that waits for tasks of others is to send its next heartbeat "
        "after 0.1 s, later in a group of more than 20 members.",
        "Nothing runs the tasks meanwhile, and Kafka's 5 s would be the time they stand still.",
        _GROUPS,
        cases=("streams_groups/*",),
        paths=("heartbeat_interval_ms",),
        kafka=5_000,
        ours=100,
    ),
    OnPurpose(
        _GRAPH,
        _GRAPH_WHY,
        _GROUPS,
        cases=("streams_groups/*",),
        paths=("topology_description_required",),
        kafka=False,
        ours=True,
    ),
    OnPurpose(
        _GRAPH,
        _GRAPH_WHY,
        _GROUPS,
        cases=("streams_groups/the graph of a topology",),
        paths=("error_code",),
        kafka=35,
        ours=0,
    ),
    OnPurpose(
        _GRAPH,
        _GRAPH_WHY,
        _GROUPS,
        cases=("streams_groups/the graph of a topology",),
        paths=("error_message",),
        ours=None,
    ),
    *(
        OnPurpose(
            "An error has a message wherever its answer has a place for one, in our own words.",
            "Kafka often leaves it out; a log should say what was wrong, and where.",
            _ANYWHERE,
            cases=tuple(f"{scenario}/*" for scenario in named),
            paths=paths,
            kafka=kafka,
            ours=_words_of_a_refusal,
        )
        for kafka, named, paths in _WITHOUT_WORDS
    ),
    *SHARE_ROWS,
    *(
        OnPurpose(
            "Rows of an answer come in the order in which they were asked for or came to be, by "
            "name, or as our tables have them.",
            "Kafka's is that of its hash maps, refused partitions last; clients cannot rely on it.",
            _ANYWHERE,
            cases,
            paths=(path,),
            ours=rule,
        )
        for cases, path, rule in ORDERS
    ),
    OnPurpose(
        "Text that is not UTF-8 makes a request malformed: the connection is closed.",
        "Kafka puts replacement characters for it, so that two names become one.",
        _ANYWHERE,
        cases=("frames/bytes that are no text",),
        paths=(OUTCOME,),
        ours=CLOSED,
    ),
    OnPurpose(
        "Null instead of records: INVALID_RECORD for that partition.",
        "Kafka fails inside and never answers, so that the client waits for its timeout.",
        _PRODUCE,
        cases=("produce/null",),
        paths=(OUTCOME,),
        kafka=SILENCE,
        ours=_null_alone_is_refused,
    ),
    *_rows(
        "A batch of an unknown version, or too short to be one, refuses its own partition only.",
        "Kafka refuses all partitions of the request; the others have done nothing wrong.",
        _PRODUCE,
        ("produce/magic 7 beside another", "produce/size 5 beside another"),
        ("*[index=7].error_code", 2, 0),
        ("*[index=7].base_offset", -1, lambda each: each.ours in (0, 1)),
        ("*[index=7].log_start_offset", -1, 0),
        ("*[index=7].error_message", WORDS, None),
    ),
    *_rows(
        _TAIL,
        _TAIL_WHY,
        _PRODUCE,
        ("produce/a long tail", "produce/a short tail"),
        (_ERROR, lambda each: each.kafka in (0, 2), 87),
    ),
    *_rows(
        _TAIL,
        _TAIL_WHY,
        _PRODUCE,
        ("produce/a short tail",),
        (_BASE, 0, -1),
        (_START, 0, -1),
        (_WORDED, None, WORDS),
    ),
    *_rows(
        "Record times below -1: INVALID_TIMESTAMP.",
        "Kafka takes them. No time before 1970 but -1, which stands for none, has a meaning here.",
        _PRODUCE,
        ("produce/a time below -1",),
        (_ERROR, 0, 32),
        (_BASE, 0, -1),
        (_WORDED, None, WORDS),
    ),
    OnPurpose(
        "An unknown codec: INVALID_RECORD.",
        "Kafka answers UNKNOWN_SERVER_ERROR, which does not say that the client is at fault.",
        _PRODUCE,
        cases=("produce/unknown codec",),
        paths=("*.error_code",),
        kafka=-1,
        ours=87,
    ),
    *_rows(
        "A producer id with a negative epoch: INVALID_RECORD.",
        "Kafka takes the batch and remembers a producer that no client can be.",
        _PRODUCE,
        ("produce/producer: negative epoch",),
        (_ERROR, 0, 87),
        (_BASE, 0, -1),
        (_WORDED, None, WORDS),
    ),
    OnPurpose(
        "A partition that a request names twice: both batches are appended and answered.",
        "Kafka keeps the last one and drops the other without a word.",
        _PRODUCE,
        cases=("produce/a partition twice",),
        paths=("responses.partition_responses",),
        kafka=ABSENT,
        ours={
            "index": 5,
            "error_code": 0,
            "base_offset": 1,
            "log_append_time_ms": -1,
            "log_start_offset": 0,
            "record_errors": [],
            "error_message": None,
        },
    ),
    OnPurpose(
        "Acks other than -1, 0 and 1 refuse every partition with INVALID_REQUIRED_ACKS.",
        "Kafka looks at the batches first, so that the answer depends on what else is wrong.",
        _PRODUCE,
    ),
    OnPurpose(
        "`record_errors` lists at most 100 records.",
        "Kafka lists every bad record of a batch; a million of them help no user.",
        _PRODUCE,
    ),
    OnPurpose(
        "A batch that decompresses to more than 128 MiB: MESSAGE_TOO_LARGE, at which Java's "
        "producer sends smaller ones.",
        "Kafka takes what its memory holds, and a few kilobytes can ask for all of it.",
        _PRODUCE,
    ),
    OnPurpose(
        "A batch of more than 1,048,576 records and headers: INVALID_RECORD.",
        "A record takes 7 bytes of a batch, and far more of a reader's memory.",
        _PRODUCE,
    ),
    OnPurpose(
        "`compression.lz4.level` from 13 to 17 compresses as 12 does.",
        "12 is the highest level of liblz4; 17 is that of a library in Java.",
        _PRODUCE,
    ),
    OnPurpose(
        "The first InitProducerId waits until the controller has given a block of ids.",
        "Kafka answers COORDINATOR_LOAD_IN_PROGRESS, and the client has to come again.",
        _PRODUCE,
    ),
    *_rows(
        "Batches that the broker compresses (`compression.type` of a topic) have other bytes.",
        "Other libraries compress; what is in the batches is the same.",
        _PRODUCE,
        ("fetch/zstd", "files_recompressed/files"),
        ("*.bytes", ANY, _about_as_long),
        ("*.crc", ANY, _another_crc),
    ),
    *_rows(
        "Negative `max_bytes` and `partition_max_bytes` count as 0.",
        "Kafka answers UNKNOWN_SERVER_ERROR.",
        _READING,
        ("fetch/max_bytes -*", "fetch/partition_max_bytes -*"),
        ("*.partitions[partition_index=0].error_code", -1, 0),
        ("*.partitions[partition_index=0].high_watermark", -1, 9),
        ("*.partitions[partition_index=0].last_stable_offset", -1, 9),
        ("*.partitions[partition_index=0].log_start_offset", -1, 0),
        ("*.partitions[partition_index=0].records*", ABSENT, _first_batch),
    ),
    OnPurpose(
        "With a negative `max_bytes` the first partition that has anything gives a batch.",
        "Kafka, which answers UNKNOWN_SERVER_ERROR for that one, gives the batch of the next.",
        _READING,
        cases=("fetch/max_bytes -*",),
        paths=("*.partitions[partition_index=1].records*",),
        ours=ABSENT,
    ),
    *_rows(
        "An unknown isolation level is INVALID_REQUEST, for the whole request.",
        "Kafka answers UNKNOWN_SERVER_ERROR. Fetch before version 7 has no place for it but its "
        "partitions.",
        _READING,
        ("fetch/isolation 2", "fetch/isolation 7", "fetch/isolation -1"),
        ("error_code", -1, 42),
        ("responses", ANY, ABSENT),
        ("*.partitions[partition_index=1].error_code", -1, 42),
    ),
    OnPurpose(
        "An unknown isolation level is INVALID_REQUEST in ListOffsets too.",
        "Kafka answers UNKNOWN_SERVER_ERROR.",
        _READING,
        cases=("list_offsets/*isolation level 7",),
        paths=("*.error_code",),
        kafka=-1,
        ours=42,
    ),
    OnPurpose(
        _BELOW_START,
        _BELOW_START_WHY,
        _READING,
        cases=("list_offsets/max timestamp with nothing left",),
        paths=("*.timestamp", "*.offset", "*.leader_epoch"),
        ours=-1,
    ),
    *_rows(
        _BELOW_START,
        _BELOW_START_WHY,
        _READING,
        ("list_offsets_times/untimed after a cut at -3",),
        ("*.offset", 0, 1),
    ),
    *_rows(
        _BELOW_START,
        _BELOW_START_WHY,
        _READING,
        ("list_offsets_times/nothing left of untimed at -3",),
        ("*.offset", 0, -1),
        ("*.leader_epoch", 0, -1),
    ),
    *_rows(
        "After DeleteRecords ListOffsets finds the first record that is left and new enough, also "
        "where times are out of order.",
        "Kafka looks into the first segment that has such a time, and no further if it was "
        "deleted there.",
        _READING,
        ("list_offsets_times/*after the cut", "list_offsets_times/*after a restart"),
        ("*.timestamp", -1, lambda each: each.ours in (THEN + 90, THEN + 203)),
        ("*.offset", -1, lambda each: each.ours in (10, 15)),
        ("*.leader_epoch", -1, 0),
    ),
    OnPurpose(
        "Aborted transactions in a fetch answer are sorted by their first offset.",
        "Clients that walk the list (franz-go) rely on it.",
        _READING,
    ),
    OnPurpose(
        "A new cluster has kraft.version 1.",
        "It is what `kafka-storage format --standalone` makes; the peer here is formatted with "
        "`controller.quorum.voters`, which means 0.",
        _ADMIN,
        cases=("administration/*", "recorded_*"),
        paths=("finalized_features",),
        kafka=ABSENT,
        ours={"name": "kraft.version", "max_version_level": 1, "min_version_level": 1},
    ),
    OnPurpose(
        "DescribeQuorum tells the directory ids of voters.",
        "With kraft.version 1 voters have them; the peer here has kraft.version 0.",
        _ADMIN,
        cases=("quorum/*", "recorded_*"),
        paths=("*.current_voters.replica_directory_id",),
        kafka="no id",
        ours="id 1",
    ),
    *_rows(
        "The metadata log has no records that do nothing, so its offsets are smaller.",
        "Kafka writes one every 500 ms to see whether its quorum is alive; one voter need not ask.",
        _ADMIN,
        ("recorded_*",),
        ("finalized_features_epoch", ANY, _is_offset),
    ),
    *_rows(
        "The metadata log has no records that do nothing, so its offsets are smaller.",
        "Kafka writes one every 500 ms to see whether its quorum is alive; one voter need not ask.",
        _ADMIN,
        ("recorded_*",),
        ("topics.partitions.high_watermark", ANY, _is_smaller),
        ("topics.partitions.current_voters.log_end_offset", ANY, _is_smaller),
    ),
    OnPurpose(
        "The metadata log has no records that do nothing, so its offsets are smaller.",
        "Kafka writes one every 500 ms to see whether its quorum is alive; one voter need not ask.",
        _ADMIN,
        cases=("files_*/files",),
        paths=("metadata.NoOpRecord 0",),
        ours=ABSENT,
    ),
    OnPurpose(
        "A voter of the settings that starts with an empty disk votes with care until it has "
        "caught up ([operations.md](operations.md#a-controller-whose-disk-was-lost)).",
        "Kafka's votes at once, and acknowledged metadata can be lost when another voter is down.",
        _ADMIN,
    ),
    *_rows(
        "A new cluster has kraft.version 1.",
        "It is what `kafka-storage format --standalone` makes; the peer here is formatted with "
        "`controller.quorum.voters`, which means 0.",
        _ADMIN,
        ("files_*/files",),
        ("metadata.control KRAFT_VERSION", ABSENT, 1),
        ("metadata.control KRAFT_VOTERS", ABSENT, 1),
    ),
    OnPurpose(
        "Metadata from version 12 on with neither name nor id: INVALID_REQUEST.",
        "Kafka answers UNKNOWN_SERVER_ERROR.",
        _ADMIN,
    ),
    OnPurpose(
        "DescribeTopicPartitions with an empty name: INVALID_TOPIC_EXCEPTION for that topic.",
        "Kafka answers UNKNOWN_SERVER_ERROR for all topics.",
        _ADMIN,
    ),
    OnPurpose(
        "Metadata and DescribeCluster name the broker that was asked as controller.",
        "Kafka names a random one that is alive; either passes requests on.",
        _ADMIN,
    ),
    OnPurpose(
        "Loggers have the names of our modules; OFF is shown as FATAL and cannot be set.",
        "There are no Java classes here, and errors shall always be heard.",
        _ADMIN,
    ),
    OnPurpose(
        "An unknown operation in IncrementalAlterConfigs: INVALID_REQUEST.",
        "Kafka answers UNKNOWN_SERVER_ERROR.",
        _ADMIN,
    ),
    OnPurpose(
        "A class in a setting that changes at run time is refused, unless it is Kafka's default.",
        "Kafka takes those that it can load. No class of Java can be loaded here.",
        _ADMIN,
    ),
    *_rows(
        'Settings of broker "01" or "+1" are refused.',
        "A broker's number has one spelling, or its settings would have two places.",
        _ADMIN,
        ("settings_refused/broker '01'", "settings_refused/broker '+1'"),
        ("*.error_code", 0, 42),
        ("*.error_message", None, WORDS),
    ),
    *_rows(
        "`metrics` and `match` of client metrics can be appended to and subtracted from.",
        "They are lists. Kafka's controller takes them for none and refuses it.",
        _ADMIN,
        ("settings_refused/metrics with*", "settings_refused/match with*"),
        ("*.error_code", 40, 0),
        ("*.error_message", WORDS, None),
    ),
    OnPurpose(
        "A setting that is a number is written in the digits 0 to 9.",
        "Kafka takes those of every script, Arabic ones too, and keeps and shows them as they were "
        "written, to tools that may not know them.",
        _ADMIN,
    ),
    *_rows(
        "An item that comes again in `leader.replication.throttled.replicas`, or in that of "
        "followers, counts once, as in other lists; so does an empty one.",
        "They mean the same replicas. Kafka keeps them there and nowhere else, and refuses a `*` "
        "beside another.",
        _ADMIN,
        ("settings_refused/throttled *",),
        ("*.configs.value", ANY, _without_repetition),
        ("*.configs.synonyms.value", ANY, _without_repetition),
        ("*.error_code", 40, 0),
        ("*.error_message", WORDS, None),
    ),
    *_rows(
        "NaN is refused where a setting is a number.",
        "Kafka takes it where a bound is not asked in the right way, and whatever is compared with "
        "it is neither more nor less.",
        _ADMIN,
        ("settings_refused/*NaN*",),
        ("*.error_code", 0, lambda each: each.ours in (40, 42)),
        ("*.error_message", None, WORDS),
    ),
    *_rows(
        "`log.cleaner.max.compaction.lag.ms` below `log.cleaner.min.compaction.lag.ms` is refused.",
        "Kafka refuses that of a topic, and takes it of brokers, whose topics then have it.",
        _ADMIN,
        ("settings_refused/lags of *",),
        ("*.error_code", 0, 42),
        ("*.error_message", None, WORDS),
    ),
    OnPurpose(
        "A value for all brokers is judged also where each broker has one of its own.",
        "Kafka does not look at what is hidden, and it counts when the other one is deleted.",
        _ADMIN,
    ),
    OnPurpose(
        "Items that are appended to a list, or subtracted from it, are trimmed.",
        "To Kafka `compact` and ` compact` are two, until the list is read.",
        _ADMIN,
    ),
    OnPurpose(
        "A created or deleted topic is known to the broker that answers when the answer comes.",
        "Kafka's broker hears of it a little later, so that clients have to try again.",
        _ADMIN,
    ),
    OnPurpose(
        "A partition that is not used holds no open file, so a process with few files "
        "(`ulimit -n 1024`) has thousands of partitions. A topic is refused with POLICY_VIOLATION "
        "only while no file is left to make it; connections beyond a third of the files are "
        "closed.",
        "Kafka keeps the files of every partition open, loses its log directory to the first one "
        "that it cannot open, and does not start any more.",
        _ADMIN,
    ),
    OnPurpose(
        "`socket.receive.buffer.bytes` and `socket.send.buffer.bytes` are applied only when they "
        "are given. Else the system sizes the one, and the other has 256 KB; DescribeConfigs tells "
        "102400 for both all the same, as the default.",
        "Kafka tells 102400, and asks for as much. A receive buffer of the system's own grows "
        "with the traffic; from a send buffer of 256 KB consumers read up to a quarter faster, and "
        "for less of the broker's time.",
        _ADMIN,
    ),
    OnPurpose(
        "The newest two snapshots of the metadata log stay, whatever "
        "`metadata.max.retention.bytes` and `.ms` say.",
        "Kafka keeps one. The log since the one before tells which topics were deleted lately, so "
        "that their logs are not taken for strays.",
        _ADMIN,
    ),
    OnPurpose(
        "Unknown names in server.properties are refused, with the nearest known name; broker id -1 "
        "is refused; list items given twice are dropped with a notice.",
        "Kafka passes over what it does not know, and a misspelt setting stays without effect.",
        _ADMIN,
    ),
    OnPurpose(
        "A broker does not start while settings that were set at run time do not fit those that it "
        "is started with; `moldau storage unset` takes them back.",
        "Kafka says so in its log and starts with its file alone. A listener that was closed at "
        "run time is then open again.",
        _ADMIN,
    ),
    OnPurpose(
        "`moldau storage format --ignore-formatted` warns when it formats the metadata directory "
        "beside directories that were formatted before.",
        "Kafka does it without a word. Where no other controller has the metadata, the logs in the "
        "other directories belong to no cluster from then on.",
        _ADMIN,
    ),
    OnPurpose(
        "A process that is broker and controller may register again at once after a crash.",
        "Broker and controller are one process: when it comes again, the old one is gone.",
        _ADMIN,
    ),
    OnPurpose(
        "A member of a consumer group takes a new regular expression, which matches no topic: the "
        "group's epoch rises, and others get the partitions.",
        "Kafka takes no topics for not looked up yet, so that no member reads the partitions until "
        "something else moves the group.",
        _GROUPS,
    ),
    OnPurpose(
        "A static classic member takes over the last member of a consumer group with other topics: "
        "JoinGroup answers the group's generation, the next request REBALANCE_IN_PROGRESS.",
        "Kafka answers generation 0, and everything after it is ILLEGAL_GENERATION.",
        _GROUPS,
    ),
    OnPurpose(
        "A static member that comes back after its leader's SyncGroup and before its own gets its "
        "share; there is no rebalance.",
        "Kafka waits for the SyncGroup of the id that is gone, and rebalances when the rebalance "
        "timeout is over.",
        _GROUPS,
    ),
    OnPurpose(
        "A member of the new protocol joins a classic group in generation 0, whose members wait in "
        "JoinGroup: it becomes a consumer group in epoch 1, and they are told to join again.",
        "Kafka answers UNKNOWN_SERVER_ERROR until they have a generation.",
        _GROUPS,
    ),
    OnPurpose(
        "A consumer group that has become a classic one rebalances, also when the broker is "
        "restarted meanwhile.",
        "Kafka takes the group for settled then, and the partitions of a member that left are not "
        "read.",
        _GROUPS,
        cases=("group_downgrades/it was about to join again",),
        paths=("error_code",),
        kafka=0,
        ours=27,
    ),
    OnPurpose(
        "`uniform` takes members for alike that want the same topics of those that exist. There, "
        "and where members want different topics, partitions can go to others than in Kafka.",
        "Kafka compares the names that were asked for, now and then those from before the last "
        "change; where they differ, its shares are sometimes less even.",
        _GROUPS,
    ),
    OnPurpose(
        "Where as many members of a consumer group ask for `range` as for `uniform`, it takes the "
        "one that `group.consumer.assignors` names first.",
        "Kafka may take either, and describe the group with the other one.",
        _GROUPS,
    ),
    OnPurpose(
        "A member of a consumer group that subscribes to nothing gets nothing; the others share "
        "all that they want.",
        "Where the group has wanted one and the same so far, Kafka takes the newcomer for another "
        "that does: it is given partitions, or no member is.",
        _GROUPS,
    ),
    OnPurpose(
        "A new directory has `bootstrap.checkpoint`, with the levels that its cluster begins with.",
        "Kafka 4.4 has them in the first snapshot of the metadata log alone; a controller of 4.3 "
        "that joins looks for the file.",
        _FILES,
        cases=("files_*/files",),
        paths=("files.bootstrap.checkpoint",),
        kafka=ABSENT,
        ours={
            "FeatureLevelRecord 0": 6,
            "control SNAPSHOT_FOOTER": 1,
            "control SNAPSHOT_HEADER": 1,
        },
    ),
    *_rows(
        "A batch that compaction shortens keeps its base timestamp.",
        "What is kept of it stays bit for bit what it was. Kafka counts from the first record "
        "that is left.",
        _FILES,
        ("files_compacted/*",),
        ("*.times", ANY, _earlier_base_time),
        ("*.crc", ANY, _another_crc),
    ),
    OnPurpose(
        "`cleaner-offset-checkpoint` is there as soon as something was cleaned.",
        "Kafka makes an empty one at its start.",
        _FILES,
        cases=("files_*/files",),
        paths=("files.cleaner-offset-checkpoint",),
        kafka=[],
        ours=ABSENT,
    ),
    *(
        OnPurpose(
            "`leader-epoch-checkpoint` has an epoch from its first record on.",
            "Kafka enters it when it begins to lead, at the cost of a forced write for each "
            "partition. OffsetForLeaderEpoch answers the same.",
            _FILES,
            cases=(f"{scenario}/files",),
            paths=(f"partitions[name={name}-0].files.leader-epoch-checkpoint",),
            kafka=kafka,
            ours=ours,
        )
        for scenario, name, kafka, ours in _EMPTY_EPOCHS
    ),
    OnPurpose(
        "`log-start-offset-checkpoint` names every log that does not begin at 0.",
        "Kafka leaves out those whose first segment begins there; after a loss of power removed "
        "segments may be back.",
        _FILES,
        cases=("files_deleted/files",),
        paths=("files.log-start-offset-checkpoint",),
        kafka=["0", "1", "by-request 0 5"],
        ours=["0", "3", "by-request 0 5", "by-size 0 4", "by-time 0 8"],
    ),
    OnPurpose(
        "After cleaning, a segment ends with an empty batch, and holes are not kept.",
        "The last offset of a segment is then in the segment, and needs no other file.",
        _FILES,
    ),
    OnPurpose(
        "A batch holds at most 1,000,000 records and headers.",
        "More are a way to make a broker run out of memory with few bytes.",
        _FILES,
    ),
    OnPurpose(
        "A batch that Kafka wrote and that decompresses to more than 128 MiB is fetched as it is; "
        "ListOffsets by a time in it and compaction of its log fail.",
        "What is decompressed is always bounded, see Produce.",
        _FILES,
    ),
    OnPurpose(
        "`listeners` set at run time that would close an advertised listener, or give an open one "
        "another address or protocol, count from the next start of the broker on.",
        "Kafka refuses such a change; here the log warns of it.",
        _NOT_YET,
    ),
)


def explanation(difference: Difference) -> OnPurpose | None:
    """The first row that covers it; None if it is a bug."""
    return next((row for row in ON_PURPOSE if row.covers(difference)), None)
