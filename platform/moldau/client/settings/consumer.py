"""The settings of a consumer by itself, by Kafka's names; `group` has those of a member."""

from __future__ import annotations

from typing import Final

from moldau.client.settings.offset_reset import parse_reset
from moldau.config import (
    BOOLEAN,
    INT,
    LONG,
    STRING,
    Check,
    Setting,
    at_least,
    one_of,
    rows_in,
    sendable,
)
from moldau.errors import ConfigError


def _is_reset(text: str) -> bool:
    try:
        parse_reset(text)
    except ConfigError:
        return False
    return True


# fmt: off
client_rack = Setting("client.rack", STRING, "", check=sendable(),
    doc="Where this client is: the broker may let it read from a replica near by, and assignors "
    "may give it partitions that have one.")
buffer_memory = Setting("buffer.memory", LONG, 67_108_864, check=at_least(1),
    doc="How many bytes of records are kept that were fetched and not given out yet; no more are "
    "asked for until some were.")
fetch_min_bytes = Setting("fetch.min.bytes", INT, 1, check=at_least(0),
    doc="How many bytes a broker gathers before it answers a fetch, unless fetch.max.wait.ms is "
    "over.")
fetch_max_bytes = Setting("fetch.max.bytes", INT, 52_428_800, check=at_least(0),
    doc="How many bytes an answer to a fetch holds, unless its first batch alone is larger.")
fetch_max_wait_ms = Setting("fetch.max.wait.ms", INT, 500, check=at_least(0),
    doc="How long a broker waits for fetch.min.bytes.")
max_partition_fetch_bytes = Setting("max.partition.fetch.bytes", INT, 1_048_576, check=at_least(0),
    doc="How many bytes a fetch brings of one partition, unless its first batch alone is larger; "
    "about twice as many are kept for it in memory.")
max_poll_records = Setting("max.poll.records", INT, 500, check=at_least(1),
    doc="How many records a poll gives at most, if it is not told otherwise.")
isolation_level = Setting(
    "isolation.level", STRING, "read_uncommitted",
    check=one_of("read_uncommitted", "read_committed"),
    doc="Whether records of open and aborted transactions are read too.")
auto_offset_reset = Setting(
    "auto.offset.reset", STRING, "latest",
    check=Check("earliest, latest, none or by_duration:<ISO 8601>", _is_reset),
    doc="Where to go on when the position of a partition is unknown or no longer in its log: "
    "earliest, latest, by_duration:PT1H (the first record that is not older than that, KIP-1106), "
    "or none, which is an error for the user to decide about.")
check_crcs = Setting("check.crcs", BOOLEAN, True,
    doc="Whether the checksum of each batch that was fetched is checked.")
allow_auto_create_topics = Setting("allow.auto.create.topics", BOOLEAN, True,
    doc="Whether asking for a topic that does not exist makes it, if the broker does so at all.")
# fmt: on

CONSUMER_ROWS: Final = rows_in(globals())
